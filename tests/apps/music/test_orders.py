"""What people order: a pause, an end of what is held against a user, and a call now."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.apps.music.building import HOUR, MINUTE, Studio, World, down, kind_of, refused
from tidegate import Queue, rules
from tidegate_apps.music.connections import ConnectionRow
from tidegate_apps.music.health import OperationState
from tidegate_apps.music.parsing import WrongShape
from tidegate_apps.music.provider import Operation
from tidegate_apps.music.service import Offer, OperationSummary, is_over, line_of, status_label, was_served

BOTH = (Operation.PLAYS, Operation.PLAYLISTS)


class Then:
    """Answers well, and does something at a call: as somebody who acts while the loops run."""

    def __init__(self, *acts: Callable[[], object]) -> None:
        self._acts = list(acts)

    async def __call__(self) -> None:
        if self._acts:
            self._acts.pop(0)()


def test_who_pauses_a_provider_stops_its_calls_and_who_resumes_it_starts_them_at_once(
    studio: Callable[..., Any],
) -> None:
    with studio("svc", "other") as s:
        target = s.shop.healths.target("svc")
        s.connect()
        s.connect(provider="other")
        # The other provider is called every five minutes, and somebody acts then.
        s.world.ill["other"] = Then(lambda: None, lambda: target.pause("10h"), *(lambda: None,) * 9, target.resume)
        s.run(6 * MINUTE)
        seen = s.state()
        assert (seen.held, status_label(seen).word) == ("other", "Paused")
        assert seen.next_at == pytest.approx(s.clock.now() - MINUTE + 10 * HOUR, abs=15)
        s.run(54 * MINUTE)
        # Whoever is first at the second call; nobody until somebody resumes it.
        assert [at for at in s.world.times() if at > 301] == pytest.approx([55 * MINUTE], abs=15)
        assert s.state().held is None


def test_who_clears_a_user_has_the_next_call_made_at_once(studio: Callable[..., Any]) -> None:
    with studio("svc", "other") as s:
        s.connect()
        s.connect("bob")
        s.connect(provider="other")
        s.world.ill["svc"] = refused(401)
        s.world.ill["other"] = Then(lambda: None, s.shop.healths.of("ada", "svc").clear)
        s.run(20 * MINUTE)
        assert s.world.times() == pytest.approx([0, 5 * MINUTE], abs=15)
        assert len(s.world.times("bob")) == 1


def test_asking_keeps_a_wait_that_the_service_asked_for(studio: Callable[..., Any]) -> None:
    with studio() as s:
        s.world.ill["svc"] = refused(429, headers={"Retry-After": "1000"})
        s.connect()
        s.run(10)
        s.shop.connections.request_sync("ada", "svc")
        s.run(900)
        assert len(s.world.times()) == 1
        assert s.state().held == "retry_after"
        s.run(200)
        assert s.world.times() == pytest.approx([0, 1000], abs=10)


@pytest.mark.req("SYNC-11")
def test_asking_during_an_outage_goes_on_with_its_episode(studio: Callable[..., Any]) -> None:
    with studio() as s:
        s.world.ill["svc"] = down()
        s.connect()
        s.run(6 * HOUR)
        assert s.notices() == ["cap"]
        before, failures = len(s.world.times()), s.state().failures
        for _ in range(8):
            s.shop.connections.request_sync("ada", "svc")
            s.run(10)
        assert len(s.world.times()) == before + 8
        assert s.state().failures == failures + 8
        s.run(6 * HOUR)
        assert s.notices() == ["cap"]


def test_asking_serves_the_operation_that_is_well_although_another_needs_a_person(studio: Callable[..., Any]) -> None:
    with studio(operations=BOTH) as s:
        s.world.ill["svc/playlists"] = refused(403)
        s.connect()
        s.run(10)
        s.shop.connections.request_sync("ada", "svc")
        s.run(20)
        assert len(s.world.times(operation="plays")) == 2
        assert len(s.world.times(operation="playlists")) == 1


@pytest.mark.req("SYNC-09", "SYNC-17")
@pytest.mark.parametrize("fault", [WrongShape("list of plays"), refused(402), refused(501)])
def test_asking_tries_once_what_other_credentials_would_not_mend(studio: Callable[..., Any], fault: Exception) -> None:
    with studio() as s:
        s.world.ill["svc"] = fault
        s.connect()
        s.run(10)
        assert s.state().held == "fatal"
        s.shop.connections.request_sync("ada", "svc")
        s.run(10 * MINUTE)
        assert len(s.world.times()) == 2
        assert (s.state().held, s.notices()) == ("fatal", ["fatal"])
        s.world.ill.clear()
        s.shop.connections.request_sync("ada", "svc")
        s.run(10)
        assert (len(s.world.times()), s.state().held, s.notices()) == (3, None, ["fatal", "recovered"])


@pytest.mark.parametrize(
    ("codes", "refusals", "asked"),
    [
        (("unauthorized", None), (True, True), False),  # what refuses the one refuses the other
        (("unauthorized", "unauthorized"), (True, True), False),
        (("MUSIC_UNREADABLE", "MUSIC_UNREADABLE"), (True, True), False),
        (("forbidden", "bad_answer"), (True, False), True),
        (("bad_answer", None), (False, False), True),
        (("quota_exhausted", None), (False, False), True),
    ],
)
def test_a_call_can_be_asked_for_unless_all_of_it_waits_for_other_credentials(
    codes: tuple[str | None, ...], refusals: tuple[bool, ...], asked: bool
) -> None:
    kind = kind_of(World(None), "svc", *BOTH, rules=rules.navidrome)  # type: ignore[arg-type]
    states = [
        OperationState(
            user_id="ada", provider="svc", operation=str(name), held="fatal", failures=int(bool(code)), code=code
        )
        for name, code in zip(BOTH, codes, strict=True)
    ]
    line = line_of(Offer(kind=kind, operator={}, enabled=True), connected(), states)
    assert tuple(work.refused for work in line.works) == refusals
    assert line.can_be_asked is asked


def test_one_that_had_nothing_to_ask_for_says_when_it_looked(quick: Queue) -> None:
    world = World(quick.clock)  # type: ignore[arg-type]
    with Studio.opened(quick, kind_of(world), kind_of(world, "aids", Operation.TAGS, fields=()), world=world) as s:
        s.connect()
        s.run(10)
        assert world.times(provider="aids", operation="tags") == []
        assert s.state("tags", provider="aids").tried_at == pytest.approx(s.clock.now(), abs=15)


def connected() -> ConnectionRow:
    return ConnectionRow("ada", "svc", "{}", "", 1, 1, 50.0, 0.0, None, "")


def work(tried: float | None, held: str | None, name: str = "plays") -> OperationSummary:
    state = OperationState(user_id="ada", provider="svc", operation=name, tried_at=tried, held=held)
    return OperationSummary(name=name, word=name, look=status_label(state), state=state, refused=held == "fatal")


@pytest.mark.parametrize(
    ("held", "tried", "is_served"),
    [
        (None, 99, False), (None, 101, True), ("backoff", 99, False), ("fatal", 99, True), ("retry_after", 99, True),
        ("other", 99, True), ("fatal", 49, False), ("fatal", None, False),
    ],
)  # fmt: skip
def test_who_asks_waits_until_it_was_called_or_for_nothing_that_does_not_come(
    held: str | None, tried: float | None, is_served: bool
) -> None:
    assert was_served(work(tried, held), asked=100.0, since=50.0) is is_served


def test_who_asks_waits_for_the_call_after_a_fault_that_asking_ends() -> None:
    tried = replace(work(99, "fatal"), refused=False)
    assert was_served(tried, asked=100.0, since=50.0) is False


@pytest.mark.parametrize(
    ("first", "second", "over"),
    [
        ((101, None), (101, None), True),
        ((101, None), (99, None), False),  # the second is still to be called
        ((101, "fatal"), (None, "fatal"), True),  # what refuses the one refuses the other
        ((101, "backoff"), (None, "backoff"), True),
        ((99, "backoff"), (None, "backoff"), False),
    ],
)
def test_what_the_failure_of_one_operation_holds_is_not_waited_for(
    first: tuple[float | None, str | None], second: tuple[float | None, str | None], over: bool
) -> None:
    works = [work(*how, name=name) for name, how in (("plays", first), ("playlists", second))]
    assert is_over(works, asked=100.0, since=50.0) is over
    assert is_over([], asked=100.0, since=50.0) is False
