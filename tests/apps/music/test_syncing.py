"""The loops: when each call is made, and that nobody waits for another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.apps.music.building import HOUR, MINUTE, Studio, World, down, kind_of, play, refused
from tidegate import Queue
from tidegate_apps.music.provider import Operation

BOTH = (Operation.PLAYS, Operation.PLAYLISTS)


@pytest.mark.req("SYNC-12", "SYNC-07")
def test_a_provider_is_called_at_once_and_then_at_its_interval(studio: Callable[..., Any]) -> None:
    with studio() as s:
        s.connect()
        s.run(16 * MINUTE)
        assert s.world.times() == pytest.approx([0, 300, 600, 900], abs=5)
        state = s.state()
        assert (state.failures, state.held, state.code) == (0, None, None)
        assert state.success_at == pytest.approx(s.clock.now() - 60, abs=5)
        assert state.next_at == pytest.approx(s.clock.now() + 240, abs=5)


@pytest.mark.req("SYNC-05", "SYNC-07", "SYNC-06")
def test_after_a_failure_the_next_call_is_due_when_its_wait_is_over_and_not_at_the_next_tick(
    studio: Callable[..., Any],
) -> None:
    with studio() as s:
        s.world.ill["svc"] = down()
        s.connect()
        s.run(2 * HOUR)
        gaps = [b - a for a, b in zip(s.world.times(), s.world.times()[1:], strict=False)]
        assert gaps == pytest.approx([30, 60, 120, 240, 480, 960, 1800, 1800], abs=2)
        state = s.state()
        assert (state.held, state.failures, state.code) == ("backoff", 9, "network")
        assert state.next_at == pytest.approx(s.clock.now() - s.clock.monotonic() + s.world.times()[-1] + 1800, abs=2)


@pytest.mark.req("SYNC-08")
def test_a_success_resets_the_ladder_at_once(studio: Callable[..., Any]) -> None:
    with studio() as s:
        s.world.ill["svc"] = down()
        s.connect()
        s.run(5 * MINUTE)
        assert len(s.world.times()) == 4
        s.world.ill.clear()
        s.run(5 * MINUTE)
        s.world.ill["svc"] = down()
        began = s.clock.monotonic()
        s.run(15 * MINUTE)
        gaps = [b - a for a, b in zip(s.world.times(since=began), s.world.times(since=began)[1:], strict=False)]
        assert gaps[:3] == pytest.approx([30, 60, 120], abs=2)


@pytest.mark.req("SYNC-06", "SYNC-07")
def test_a_fault_of_the_network_holds_the_other_operations_of_the_same_user_too(studio: Callable[..., Any]) -> None:
    with studio(operations=BOTH) as s:
        s.world.ill["ada/svc"] = down()
        s.connect()
        s.connect("bob")
        s.run(20 * MINUTE)
        assert len(s.world.times(operation="plays")) == 6
        assert s.world.times(operation="playlists") == []
        assert s.state("playlists").held == "backoff"
        assert len(s.world.times("bob", operation="playlists")) == 4


@pytest.mark.req("SYNC-05")
def test_base_cap_and_jitter_are_settings_and_retry_after_is_the_least(studio: Callable[..., Any]) -> None:
    with studio(backoff_base=10, backoff_cap=20, backoff_jitter=0) as s:
        s.world.ill["svc"] = down()
        s.connect()
        s.run(65)
        assert s.world.times() == pytest.approx([0, 10, 30, 50], abs=2)
        s.world.ill["svc"] = refused(429, headers={"Retry-After": "1000"})
        s.run(70)
        assert s.state().held == "retry_after"
        s.world.ill["svc"] = refused(503, headers={"Retry-After": "86400"})
        s.run(1000)
        assert s.state().next_at == pytest.approx(s.clock.now() + 3600, abs=120)


@pytest.mark.req("SYNC-12")
def test_a_provider_that_hangs_delays_no_other_and_no_other_user(studio: Callable[..., Any]) -> None:
    with studio("svc", "other") as s:

        async def hangs() -> None:
            await asyncio.Event().wait()

        s.world.ill["ada/svc"] = hangs
        for user in ("ada", "bob"):
            s.connect(user)
            s.connect(user, "other")
        s.run(31 * MINUTE)
        for user, provider in (("ada", "other"), ("bob", "svc"), ("bob", "other")):
            assert s.world.times(user, provider) == pytest.approx([300 * n for n in range(7)], abs=10)
        assert s.world.times() == pytest.approx([0, 930], abs=10)  # its deadline, then its backoff
        assert s.state().code == "timeout"


@pytest.mark.req("SYNC-15")
def test_a_stop_ends_the_loops_promptly_and_a_cancelled_call_is_no_failure(studio: Callable[..., Any]) -> None:
    with studio() as s:

        async def slow() -> None:
            await asyncio.sleep(500)

        s.world.ill["svc"] = slow
        s.connect()
        s.run(10)
        assert s.clock.monotonic() == pytest.approx(10, abs=2)
        assert s.world.under_way == 0
        assert s.shop.healths.target("svc").unhealthy() == []
        assert (s.state().failures, s.state().began_at) == (0, None)


def test_what_was_in_the_middle_of_a_call_shows_as_such(studio: Callable[..., Any]) -> None:
    with studio() as s:
        seen: list[float | None] = []

        async def looked_at() -> None:
            await asyncio.sleep(7)
            seen.append(s.state().began_at)

        s.world.ill["svc"] = looked_at
        s.connect()
        s.run(10)
        assert seen == [pytest.approx(s.clock.now() - s.clock.monotonic(), abs=2)]


def test_somebody_who_asks_does_not_wait_for_the_interval_nor_for_a_backoff(studio: Callable[..., Any]) -> None:
    with studio() as s:
        s.connect()
        s.run(10)
        s.shop.connections.request_sync("ada", "svc")
        s.run(10)
        assert s.world.times() == pytest.approx([0, 10], abs=6)
        s.world.ill["svc"] = down()
        s.shop.connections.request_sync("ada", "svc")
        s.run(5)
        s.shop.connections.request_sync("ada", "svc")
        s.run(5)
        assert len(s.world.times()) == 4


def test_what_is_paused_in_the_middle_of_a_sync_goes_on_when_the_pause_ends_and_has_not_failed(
    studio: Callable[..., Any],
) -> None:
    with studio() as s:
        s.world.plays["ada", "svc"] = [play(n) for n in range(1, 6)]

        async def pauses() -> None:
            if not s.refs():
                s.shop.healths.target("svc").pause("10m")

        s.world.ill["svc"] = pauses
        s.connect()
        s.run(MINUTE)
        assert (len(s.refs()), s.state().failures, s.state().held) == (2, 0, "other")
        assert s.state().next_at == pytest.approx(s.clock.now() + 9 * MINUTE, abs=5)
        s.run(10 * MINUTE)
        assert len(s.refs()) == 5


def test_one_call_at_a_time_is_made_for_a_user_at_a_provider(studio: Callable[..., Any]) -> None:
    with studio(operations=BOTH) as s:

        async def slow() -> None:
            await asyncio.sleep(20)

        s.world.ill["svc"] = slow
        s.connect()
        for _ in range(5):
            s.run(7)
            s.shop.connections.request_sync("ada", "svc")
        s.run(MINUTE)
        assert s.world.most_under_way == 1


def test_who_disconnects_is_called_no_more_and_keeps_the_library(studio: Callable[..., Any]) -> None:
    with studio() as s:
        s.world.plays["ada", "svc"] = [play(n) for n in range(1, 4)]
        s.connect()
        s.run(10)
        assert len(s.refs()) == 3
        s.shop.connections.remove("ada", "svc")
        now = s.clock.monotonic()
        s.run(HOUR)
        assert s.world.times(since=now) == []
        assert len(s.refs()) == 3
        assert s.there.db.all("states_of", user_id="ada") == []
        row = s.shop.connections.get("ada", "svc")
        assert (row.kept, row.shown) == ("", "{}")


def test_a_provider_of_which_something_is_missing_is_not_called(quick: Queue) -> None:
    world = World(quick.clock)  # type: ignore[arg-type]
    with Studio.opened(quick, kind_of(world), world=world) as s:
        s.connect(password="")
        s.run(MINUTE)
        assert world.calls == []
