"""Every change of state is told and logged, after the fact and outside any lock."""

from __future__ import annotations

import logging
import threading

import pytest

from tests.unit.guard.forms import Clock, Down, answer, opened, play
from tidegate import Breaker

Move = tuple[str, str, str]


@pytest.mark.req("BRK-06")
def test_the_callback_is_told_name_from_and_to_once_for_each_change() -> None:
    moves: list[Move] = []
    clock = Clock()
    breaker = opened(clock, on_state_change=lambda *move: moves.append(move))
    clock.now = 120.0
    play(breaker, "SF")
    clock.now = 240.0
    play(breaker, "SSS")
    breaker.reset()
    assert moves == [
        ("api", "closed", "open"),
        ("api", "open", "half-open"),
        ("api", "half-open", "open"),
        ("api", "open", "half-open"),
        ("api", "half-open", "closed"),
    ]
    assert breaker.transitions == {
        ("closed", "open"): 1,
        ("open", "half-open"): 2,
        ("half-open", "open"): 1,
        ("half-open", "closed"): 1,
    }


@pytest.mark.req("BRK-06", "BRK-08")
def test_every_change_is_logged_at_info_with_name_from_and_to(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="tidegate.breaker"):
        breaker = opened(Clock())
        breaker.reset()
    first, second = caplog.records
    assert first.levelno == second.levelno == logging.INFO
    assert first.getMessage() == "breaker_state_changed name=api from=closed to=open"
    assert second.getMessage() == "breaker_state_changed name=api from=open to=closed"
    assert vars(first)["event"] == "breaker_state_changed"
    assert vars(first)["fields"] == {"name": "api", "from": "closed", "to": "open"}


@pytest.mark.req("BRK-06")
def test_a_callback_that_raises_harms_neither_the_call_nor_the_state(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()

    def raises(*move: str) -> None:
        raise ZeroDivisionError

    breaker = Breaker("api", consecutive=1, on_state_change=raises, clock=clock)
    error = Down()
    with pytest.raises(Down) as raised:
        breaker.call(answer, error)
    assert raised.value is error
    assert breaker.state == "open"
    clock.now = 120.0
    assert play(breaker, "SSS") == "SSS"
    assert breaker.state == "closed"
    assert caplog.messages.count("breaker_rule_raised name=api rule=on_state_change") == 3


@pytest.mark.req("BRK-06")
def test_a_callback_may_use_the_breaker_and_sees_the_new_state() -> None:
    clock = Clock()
    seen: list[str] = []

    def calls_back(name: str, old: str, new: str) -> None:
        seen.append(f"{old} {new} {breaker.state} {play(breaker, 'S')}")

    breaker = Breaker("api", consecutive=1, max_requests=2, on_state_change=calls_back, clock=clock)
    play(breaker, "F")
    clock.now = 120.0
    play(breaker, "S")  # this one, and the one that the callback makes, close it
    assert seen == ["closed open open O", "open half-open half-open S", "half-open closed closed S"]


@pytest.mark.req("BRK-06")
def test_a_callback_may_reset_the_breaker_and_changes_are_told_in_their_order() -> None:
    moves: list[Move] = []

    def resets(*move: str) -> None:
        moves.append((move[0], move[1], move[2]))
        breaker.reset()

    breaker = Breaker("api", consecutive=1, on_state_change=resets, clock=Clock())
    play(breaker, "F")
    assert breaker.state == "closed"
    assert moves == [("api", "closed", "open"), ("api", "open", "closed")]


@pytest.mark.req("BRK-06")
def test_a_callback_that_hangs_holds_up_nobody_else() -> None:
    clock = Clock()
    entered, leave = threading.Event(), threading.Event()
    moves: list[str] = []

    def hangs(name: str, old: str, new: str) -> None:
        moves.append(new)
        entered.set()
        leave.wait(60)

    breaker = Breaker("api", consecutive=1, max_requests=1, on_state_change=hangs, clock=clock)
    thread = threading.Thread(target=play, args=(breaker, "F"))
    thread.start()
    assert entered.wait(60)
    assert play(breaker, "S") == "O"
    clock.now = 120.0
    assert play(breaker, "S") == "S"
    assert breaker.state == "closed"
    assert sum(breaker.transitions.values()) == 3  # counted at once, told when the callback comes back
    assert moves == ["open"]
    leave.set()
    thread.join()
    assert moves == ["open", "half-open", "closed"]


def test_a_callback_that_is_interrupted_leaves_the_next_change_to_be_told() -> None:
    moves: list[str] = []

    def interrupted(name: str, old: str, new: str) -> None:
        moves.append(new)
        if new == "open":
            raise KeyboardInterrupt

    breaker = Breaker("api", consecutive=1, on_state_change=interrupted, clock=Clock())
    with pytest.raises(KeyboardInterrupt):
        play(breaker, "F")
    breaker.reset()
    assert moves == ["open", "closed"]
