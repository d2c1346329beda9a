"""What a refusal stops, who is told of it, and what ends it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.apps.music.building import DAY, HOUR, MINUTE, Studio, World, down, kind_of, refused
from tidegate import Queue, rules
from tidegate_apps.music.provider import Operation

BOTH = (Operation.PLAYS, Operation.PLAYLISTS)


@pytest.mark.req("SYNC-06", "SYNC-08", "SYNC-09")
def test_a_fault_of_one_operation_stops_that_one_and_no_other(studio: Callable[..., Any]) -> None:
    with studio(operations=BOTH) as s:
        s.world.ill["svc/playlists"] = refused(403)
        s.connect()
        s.run(HOUR)
        assert len(s.world.times(operation="plays")) == 12
        assert len(s.world.times(operation="playlists")) == 1
        assert (s.state("plays").held, s.state("playlists").held) == (None, "fatal")
        assert s.notices() == ["fatal"]


@pytest.mark.req("SYNC-09", "SYNC-17", "SYNC-13")
def test_refused_credentials_stop_all_calls_of_that_user_and_are_told_once_to_that_user(
    studio: Callable[..., Any],
) -> None:
    with studio(operations=BOTH, look_every=60) as s:
        s.world.ill["ada/svc"] = refused(401)
        s.connect()
        s.connect("bob")
        s.run(DAY)
        assert len([call for call in s.world.calls if call.user == "ada"]) == 1
        assert len(s.world.times("bob")) == 288
        ((event, notice),) = s.heard
        assert (event.user, str(notice.kind), notice.icon) == ("ada", "fatal", "error")
        assert "Svc" in notice.title
        assert notice.advice
        assert notice.message.endswith(notice.advice)
        state = s.state()
        assert (state.held, state.next_at, state.code) == ("fatal", None, "unauthorized")


@pytest.mark.req("SYNC-10")
def test_reconnecting_clears_all_and_calls_at_once_and_the_next_refusal_is_a_new_episode(
    studio: Callable[..., Any],
) -> None:
    with studio() as s:
        s.world.ill["svc"] = refused(401)
        s.connect()
        s.run(HOUR)
        assert s.notices() == ["fatal"]

        s.connect(password="another")
        now = s.clock.monotonic()
        s.run(10 * MINUTE)
        assert s.world.times(since=now) == pytest.approx([now], abs=2)
        assert s.notices() == ["fatal", "fatal"]
        assert s.state().failures == 1

        s.world.ill.clear()
        s.connect(password="the right one")
        s.run(10 * MINUTE)
        assert s.world.tokens[-1] == "the right one"
        assert s.state().failures == 0
        assert s.notices() == ["fatal", "fatal", "recovered"]


@pytest.mark.req("SYNC-10", "SYNC-08")
def test_what_an_old_call_still_says_is_not_held_against_new_credentials(studio: Callable[..., Any]) -> None:
    with studio() as s:

        async def slow() -> Exception | None:
            await asyncio.sleep(100)
            return refused(401)

        s.world.ill["svc"] = slow
        s.connect()
        s.run(50)
        s.world.ill.clear()
        s.connect(password="new")
        s.run(10 * MINUTE)
        assert s.notices() == []
        assert s.state().failures == 0


@pytest.mark.req("SYNC-17")
def test_after_a_fault_of_quota_one_call_an_hour_asks_whether_it_is_over(studio: Callable[..., Any]) -> None:
    with studio() as s:
        s.world.ill["svc"] = refused(402)
        s.connect()
        s.run(5 * HOUR + MINUTE)
        assert s.world.times() == pytest.approx([0, 3600, 7200, 10800, 14400, 18000], abs=10)
        assert s.notices() == ["fatal"]
        s.world.ill.clear()
        s.run(HOUR)
        assert s.notices() == ["fatal", "recovered"]


@pytest.mark.req("SYNC-17")
@pytest.mark.parametrize("status", [402, 501])
def test_with_that_switched_off_a_person_must_act_first_as_after_any_fatal_fault(
    studio: Callable[..., Any], status: int
) -> None:
    with studio(reprobe=0) as s:
        s.world.ill["svc"] = refused(status)
        s.connect()
        s.run(DAY)
        assert len(s.world.times()) == 1
        assert (s.state().held, s.state().next_at) == ("fatal", None)
        assert s.notices() == ["fatal"]


@pytest.mark.req("SYNC-11")
def test_at_the_longest_wait_one_warning_is_told_and_the_recovery_after_it_once(studio: Callable[..., Any]) -> None:
    with studio() as s:
        s.world.ill["svc"] = down()
        s.connect()
        s.run(6 * HOUR)
        assert s.notices() == ["cap"]
        s.world.ill.clear()
        s.run(2 * HOUR)
        assert s.notices() == ["cap", "recovered"]


@pytest.mark.req("SYNC-11")
def test_the_warning_can_be_turned_off(studio: Callable[..., Any]) -> None:
    with studio(cap_notice=False) as s:
        s.world.ill["svc"] = down()
        s.connect()
        s.run(6 * HOUR)
        s.world.ill.clear()
        s.run(2 * HOUR)
        assert s.notices() == []


@pytest.mark.req("SYNC-06")
def test_a_restart_forgets_backoff_and_fatal_and_calls_at_once(studio: Callable[..., Any]) -> None:
    with studio() as s:
        s.world.ill["svc"] = refused(401)
        s.connect()
        s.run(HOUR)
        s.restart()
        now = s.clock.monotonic()
        s.run(MINUTE)
        assert s.world.times(since=now) == pytest.approx([now], abs=1)


@pytest.mark.req("SYNC-06")
def test_where_the_settings_keep_health_a_restart_forgets_nothing(studio: Callable[..., Any]) -> None:
    with studio("svc", "other", keep_health=True) as s:
        s.world.ill.update({"svc": refused(401), "other": down()})
        s.connect()
        s.connect(provider="other")
        s.run(2 * HOUR)
        before = s.world.times(provider="other")[-1]
        s.restart()
        s.run(HOUR)
        assert len(s.world.times()) == 1
        assert s.world.times(provider="other", since=before + 1)[0] == pytest.approx(before + 1800, abs=2)
        assert s.state().held == "fatal"

        s.connect(password="new")  # while nobody syncs
        s.restart()
        s.run(MINUTE)
        assert len(s.world.times()) == 2


def test_asking_does_not_call_with_credentials_that_were_refused(studio: Callable[..., Any]) -> None:
    with studio() as s:
        s.world.ill["svc"] = refused(401)
        s.connect()
        s.run(10)
        s.shop.connections.request_sync("ada", "svc")
        s.run(10 * MINUTE)
        assert len(s.world.times()) == 1
        assert s.notices() == ["fatal"]


@pytest.mark.req("SYNC-09", "SYNC-11", "SYNC-17")
def test_a_wrong_shared_secret_is_told_to_whom_it_stops_and_asked_about_once_an_hour(quick: Queue) -> None:
    world = World(quick.clock)  # type: ignore[arg-type]
    with Studio.opened(quick, kind_of(world, rules=rules.lastfm), world=world, look_every=60) as s:
        world.ill["svc"] = refused(403, '{"error": 13, "message": "Invalid method signature supplied"}')
        s.connect()
        s.run(DAY)
        assert len(world.times()) == 25  # twice within the first minutes, then each hour
        assert s.notices() == ["fatal"]
        assert "shared secret" in s.heard[0][1].advice
        assert (s.state().held, s.state().code) == ("fatal", "secret_refused")

        world.ill.clear()
        s.run(2 * HOUR)
        assert s.notices() == ["fatal", "recovered"]
