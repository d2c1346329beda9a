"""Forced open, forced closed, reset: what a person may do, and how it ends."""

from __future__ import annotations

import copy
import pickle
import time
from datetime import timedelta
from typing import Any

import pytest

from tests.unit.guard.forms import Clock, opened, play
from tidegate import Breaker, BreakerOpen
from tidegate.guard.breaker_state import BreakerMachine


@pytest.mark.parametrize("until", [600.0, 600, "10m", timedelta(minutes=10)])
def test_forced_open_refuses_until_its_end_and_then_probes(until: float | str | timedelta) -> None:
    clock = Clock()
    breaker = Breaker("api", clock=clock)
    breaker.force("open", until)
    assert play(breaker, "S") == "O"
    assert breaker.half_open() is False
    clock.now = 599.9
    assert play(breaker, "S") == "O"
    clock.now = 600.0
    assert breaker.state == "half-open"
    assert play(breaker, "SSS") == "SSS"
    assert breaker.state == "closed"


def test_an_open_breaker_that_is_forced_open_stays_so_to_the_new_end_and_says_since_when() -> None:
    clock = Clock()
    breaker = opened(clock)
    clock.now = 100.0
    breaker.force("open", 1000.0)
    with pytest.raises(BreakerOpen) as refused:
        breaker.call(int)
    assert (refused.value.since, refused.value.until, refused.value.retry_after) == (0.0, 1000.0, 900.0)
    assert breaker.since == 0.0


@pytest.mark.parametrize("window", [None, 60], ids=["interval", "window"])
def test_forced_closed_lets_everything_through_and_then_counts_anew(window: float | None) -> None:
    clock = Clock()
    breaker = Breaker("api", consecutive=3, window=window, clock=clock)
    play(breaker, "FF")
    breaker.force("closed", 600.0)
    assert play(breaker, "F" * 500) == "F" * 500
    assert breaker.state == "closed"
    clock.now = 600.0
    assert breaker.counts == (0, 0, 0, 0, 0)
    assert breaker.run == 0
    assert play(breaker, "FFF" + "F") == "FFF" + "O"


def test_forced_closed_ends_the_open_state() -> None:
    clock = Clock()
    breaker = opened(clock)
    breaker.force("closed", "1h")
    assert play(breaker, "F" * 20) == "F" * 20
    assert breaker.transitions == {("closed", "open"): 1, ("open", "closed"): 1}


def test_calls_that_began_while_it_was_forced_closed_prove_nothing_afterwards() -> None:
    clock = Clock()
    breaker = Breaker("api", consecutive=1, clock=clock)
    breaker.force("closed", 600.0)
    first, second = breaker.allow(), breaker.allow()
    assert first is not None
    assert second is not None
    clock.now = 600.0
    first.done(False)
    assert breaker.state == "closed"
    second.done(False)
    assert breaker.state == "closed"


@pytest.mark.parametrize("state", ["open", "closed"])
def test_reset_ends_what_was_forced(state: str) -> None:
    clock = Clock()
    breaker = Breaker("api", consecutive=1, clock=clock)
    breaker.force(state, "1h")
    breaker.reset()
    assert breaker.state == "closed"
    assert play(breaker, "SFS") == "SFO"


@pytest.mark.parametrize("now", [0.0, 120.0], ids=["open", "half-open"])
def test_reset_closes_it_with_no_memory_of_failures(now: float) -> None:
    clock = Clock()
    breaker = opened(clock)
    clock.now = now
    late = breaker.allow()
    breaker.reset()
    assert (breaker.state, breaker.counts, breaker.run) == ("closed", (0, 0, 0, 0, 0), 0)
    if late is not None:
        late.done(False)
    assert breaker.state == "closed"


def test_what_time_had_decided_before_is_told_before_what_a_person_does() -> None:
    clock = Clock()
    breaker = opened(clock)
    clock.now = 120.0
    breaker.reset()
    assert breaker.transitions == {("closed", "open"): 1, ("open", "half-open"): 1, ("half-open", "closed"): 1}


def test_beside_the_machines_own_clock_the_end_may_be_unix_time_and_held_shows_it() -> None:
    breaker = Breaker("api")
    end = time.time() + 600
    breaker.force("open", end)
    with pytest.raises(BreakerOpen) as refused:
        breaker.call(int)
    assert refused.value.until == pytest.approx(end, abs=1)
    assert refused.value.since == pytest.approx(time.time(), abs=1)
    assert refused.value.retry_after == pytest.approx(600, abs=1)
    breaker.force("open", time.monotonic() + 60)
    with pytest.raises(BreakerOpen) as refused:
        breaker.call(int)
    assert refused.value.retry_after == pytest.approx(60, abs=1)


def test_a_refusal_is_dated_from_when_it_opened_whoever_asked_when() -> None:
    clock = Clock(50.0)
    breaker = opened(clock)
    clock.now = 170.0
    breaker.allow()
    clock.now = 235.0  # the probe expired at 230
    with pytest.raises(BreakerOpen) as refused:
        breaker.call(int)
    assert (refused.value.since, refused.value.until, refused.value.retry_after) == (230.0, 350.0, 115.0)


@pytest.mark.parametrize(
    ("state", "until", "kind", "message"),
    [
        ("half-open", 600.0, ValueError, r"state: .*'half-open'.*'open'.*'closed'"),
        ("open", 0.0, ValueError, r"until: 0\.0"),
        ("open", float("nan"), ValueError, r"until: nan is not ahead"),
        ("open", float("inf"), ValueError, r"until: inf is not ahead"),
        ("closed", "soon", ValueError, r"until: .*'soon'"),
        ("closed", "0s", ValueError, r"until: .*'0s'"),
        ("open", None, TypeError, "until: "),
        ("open", True, TypeError, r"until: True is not a time"),
    ],
)
def test_an_end_that_is_none_is_refused_and_nothing_changes(
    state: str, until: float, kind: type[Exception], message: str
) -> None:
    breaker = Breaker("api", clock=Clock(100.0))
    with pytest.raises(kind, match=message):
        breaker.force(state, until)
    assert breaker.state == "closed"
    assert breaker.generation == 0


def test_who_asks_it_by_themselves_sees_when_it_ends_and_counts_their_rejection() -> None:
    now = 100.0
    breaker = Breaker("asked", timeout=30, clock=lambda: now)
    states, clock, rejected, offset = breaker.hot()
    assert states.until < clock() < states.window.ends

    breaker.force("open", "30s")
    assert (states.until, clock(), offset()) == (130.0, 100.0, 0.0)
    next(rejected)
    assert breaker.totals["rejected"] == 1


def test_who_sees_without_the_lock_that_it_is_open_sees_since_when() -> None:
    written: list[tuple[str, float]] = []

    class Watched(BreakerMachine):
        def __setattr__(self, name: str, value: Any) -> None:
            if name in ("since", "until"):
                written.append((name, value))
            super().__setattr__(name, value)

    states = Watched(Breaker("api", timeout=30).policy, 0.0)
    written.clear()
    states.open(100.0)
    assert written == [("since", 100.0), ("until", 130.0)], "its end is written last"


def rejected(breaker: Breaker) -> BreakerOpen:
    with pytest.raises(BreakerOpen) as raised:
        breaker.call(time.time)
    return raised.value


def test_a_rejection_has_its_times_as_people_read_them_when_they_look() -> None:
    now, apart = 100.0, 1.7e9
    breaker = Breaker("api", timeout=30, clock=lambda: now)
    breaker.read_on(lambda: now + apart)
    breaker.force("open", "30s")

    early, late = rejected(breaker), rejected(breaker)
    assert (early.since, early.until, early.retry_after) == (apart + 100, apart + 130, 30)

    apart += 3600  # the clock on the wall is set
    assert (early.since, early.until) == (1.7e9 + 100, 1.7e9 + 130), "who looked once sees the same again"
    assert (late.since, late.until, late.retry_after) == (apart + 100, apart + 130, 30)


@pytest.mark.parametrize("copied", [lambda error: pickle.loads(pickle.dumps(error)), copy.copy, copy.deepcopy])
def test_a_rejection_that_nobody_has_read_goes_to_another_process_with_its_times(copied: Any) -> None:
    breaker = Breaker("api", timeout=30)
    breaker.force("open", "30s")

    for error in (rejected(breaker), copied(rejected(breaker))):
        assert repr(error).startswith("BreakerOpen('api', None, 'breaker', 1")
        assert len(error.args) == 6
        assert error.since == pytest.approx(time.time(), abs=5)
        assert error.until == pytest.approx(time.time() + 30, abs=5)


def test_a_call_that_finds_a_hung_probe_is_told_the_new_end_as_people_read_it() -> None:
    now = 100.0
    breaker = Breaker("api", timeout=30, permit_timeout=5, max_requests=1, clock=lambda: now)
    breaker.read_on(lambda: now + 1.7e9)
    breaker.force("open", "30s")
    now = 130.0
    assert breaker.allow() is not None  # and is never settled
    now = 136.0

    error = rejected(breaker)
    assert (error.since, error.until, error.retry_after) == (1.7e9 + 135, 1.7e9 + 165, 29)
