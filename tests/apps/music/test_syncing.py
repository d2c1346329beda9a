"""The loops: when each call is made, what it brings, and what stops it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.apps.music.building import DAY, HOUR, MINUTE, Studio, World, down, kind_of, play, refused, song
from tidegate import Queue
from tidegate_apps.music.contract import Bad, Batch, Kind, Operation, Play, Playlist
from tidegate_apps.music.keeping import Lane

BOTH = (Operation.PLAYS, Operation.PLAYLISTS)


@pytest.fixture
def studio(quick: Queue) -> Callable[..., Any]:
    @contextmanager
    def made(*names: str, operations: tuple[Operation, ...] = (Operation.PLAYS,), **settings: Any) -> Iterator[Studio]:
        world = World(quick.clock)  # type: ignore[arg-type]
        kinds = [kind_of(world, name, *operations) for name in names or ("svc",)]
        with Studio.opened(quick, *kinds, world=world, **settings) as found:
            yield found

    return made


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
        assert (event.user, str(notice.kind), notice.icon, notice.title) == (
            "ada",
            "fatal",
            "error",
            "Svc needs your attention",
        )
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
        s.shop.connections.ask("ada", "svc")
        s.run(10)
        assert s.world.times() == pytest.approx([0, 10], abs=6)
        s.world.ill["svc"] = down()
        s.shop.connections.ask("ada", "svc")
        s.run(5)
        s.shop.connections.ask("ada", "svc")
        s.run(5)
        assert len(s.world.times()) == 4


def test_asking_does_not_call_with_credentials_that_were_refused(studio: Callable[..., Any]) -> None:
    with studio() as s:
        s.world.ill["svc"] = refused(401)
        s.connect()
        s.run(10)
        s.shop.connections.ask("ada", "svc")
        s.run(10 * MINUTE)
        assert len(s.world.times()) == 1
        assert s.notices() == ["fatal"]


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
            s.shop.connections.ask("ada", "svc")
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


def test_plays_come_once_however_often_they_are_handed_over_and_the_mark_moves_with_them(
    studio: Callable[..., Any],
) -> None:
    with studio() as s:
        s.world.plays["ada", "svc"] = [play(n) for n in range(1, 6)]
        s.connect()
        s.run(10)
        lane = Lane("ada", "svc", Operation.PLAYS)
        assert (s.shop.keeping.mark(lane), len(s.refs())) == ("5", 5)
        s.there.db.all("set_mark", mark="1", at=0.0, **lane.params())  # as after a kill before a later commit
        s.world.plays["ada", "svc"].append(play(6))
        s.run(6 * MINUTE)
        assert (s.shop.keeping.mark(lane), len(s.refs())) == ("6", 6)
        assert s.there.db.all("page_artists", user_id="ada", plays=2**53, before=2**53, n=9)[0][3] == 2
        assert s.state().items == 1


def test_a_batch_that_could_not_be_written_is_fetched_again_and_nobody_is_blamed(studio: Callable[..., Any]) -> None:
    with studio() as s:
        plays = s.world.plays["ada", "svc"] = [play(n) for n in range(1, 6)]
        plays[3] = Play(ref="play-4", at=None, song=song(4))  # type: ignore[arg-type]  # which no table takes
        s.connect()
        s.run(20)
        assert (len(s.refs()), s.state().failures) == (2, 0)
        plays[3] = play(4)
        s.run(20)
        assert len(s.refs()) == 5
        assert s.shop.healths.target("svc").unhealthy() == []


def test_rows_and_mark_are_one_commit_so_that_a_mark_never_passes_a_row(studio: Callable[..., Any]) -> None:
    with studio() as s:
        lane = Lane("ada", "svc", Operation.PLAYS)
        broken = Play(ref="2", at=None, song=song(2))  # type: ignore[arg-type]  # which no table takes
        with pytest.raises(Exception, match=r"(?i)null"):
            s.shop.keeping.plays(lane, Batch(items=(play(1), broken), mark="2"))
        assert (s.shop.keeping.mark(lane), s.refs()) == (None, [])
        assert s.there.db.all("artists_of", user_id="ada", after=0, n=9) == []


def test_a_bad_row_is_noted_and_stops_nothing(studio: Callable[..., Any], quick: Queue) -> None:
    with studio() as s:
        s.connect()
        lane = Lane("ada", "svc", Operation.PLAYS)
        batch = Batch(items=(play(1), play(1), play(2)), bad=(Bad(row="{...}", why="it has no date"),) * 30, mark="9")
        assert s.shop.keeping.plays(lane, batch) == 2
        assert s.shop.keeping.plays(lane, batch) == 0
        rows = s.there.db.all("bad_of", user_id="ada", provider="svc", n=100)
        assert len(rows) == 20
        assert rows[0][2:] == ("{...}", "it has no date")


def test_an_empty_answer_of_a_provider_that_had_playlists_wipes_nothing(studio: Callable[..., Any]) -> None:
    with studio(operations=(Operation.PLAYLISTS,)) as s:
        place = ("ada", "svc")
        s.world.playlists[place] = [
            Playlist(ref="1", name="One", songs=(song(1), song(2))), Playlist(ref="2", name="Two", songs=(song(3),)),
        ]  # fmt: skip
        s.connect()
        s.run(10)

        def shown() -> list[tuple[str, int, bool]]:
            rows = s.there.db.all("playlists_of", user_id="ada", after=0, n=9)
            return [(row[2], row[6], row[5] is not None) for row in rows]

        assert shown() == [("One", 2, False), ("Two", 1, False)]
        s.world.playlists[place] = []
        s.run(5 * MINUTE)
        assert shown() == [("One", 2, False), ("Two", 1, False)]
        s.world.playlists[place] = [Playlist(ref="1", name="One!", songs=())]
        s.run(5 * MINUTE)
        assert shown() == [("One!", 2, False), ("Two", 1, True)]
        s.world.playlists[place] = [Playlist(ref="1", name="One", songs=(song(2),)), Playlist(ref="2", name="Two")]
        s.run(5 * MINUTE)
        assert shown() == [("One", 1, False), ("Two", 1, False)]
        s.world.playlists[place].pop()
        s.run(5 * MINUTE)
        assert (shown(), s.state("playlists").items) == ([("One", 1, False), ("Two", 1, True)], 0)


def test_a_provider_of_which_something_is_missing_is_not_called(quick: Queue) -> None:
    world = World(quick.clock)  # type: ignore[arg-type]
    with Studio.opened(quick, kind_of(world), world=world) as s:
        s.connect(password="")
        s.run(MINUTE)
        assert world.calls == []


def alone(world: World, *operations: Operation) -> Kind:
    return kind_of(world, "aids", *operations, fields=())


def test_one_that_needs_nothing_of_a_user_works_for_everybody_who_has_music_until_they_say_no(quick: Queue) -> None:
    world = World(quick.clock)  # type: ignore[arg-type]
    with Studio.opened(quick, kind_of(world), alone(world, Operation.TAGS), world=world) as s:
        world.plays["ada", "svc"] = [play(1), play(2)]
        s.run(MINUTE)
        assert world.calls == []
        s.connect()
        s.run(6 * MINUTE)
        assert len(world.times(provider="aids", operation="tags")) == 2  # one for each artist, and not again
        s.shop.connections.remove("ada", "aids")
        world.plays["ada", "svc"].append(play(3))
        s.run(HOUR)
        assert len(world.times(provider="aids", operation="tags")) == 2


def test_what_a_service_does_not_know_is_asked_for_again_only_after_a_while(quick: Queue) -> None:
    from tidegate_apps.music.contract import Found

    world = World(quick.clock)  # type: ignore[arg-type]
    mbid = "11111111-0000-4000-8000-000000000001"
    with Studio.opened(
        quick, kind_of(world), alone(world, Operation.IDS, Operation.ART), world=world, look_every=60, ask_again=7200
    ) as s:
        world.plays["ada", "svc"] = [play(1), play(2)]
        world.answers = lambda operation, wanted: (
            Found(id=wanted.id, art={"thumb": "https://art.test/1.jpg"})
            if operation is Operation.ART
            else Found(id=wanted.id, mbid=mbid)
            if wanted.name == "Artist 1"
            else Found(id=wanted.id, nothing=True)
        )
        s.connect()
        s.run(HOUR)
        assert len(world.times(provider="aids", operation="ids")) == 6  # two artists, two albums, two tracks
        assert len(world.times(provider="aids", operation="art")) == 1  # the one that has an id
        (row,) = [row for row in s.there.db.all("page_artists", user_id="ada", plays=99, before=99, n=9) if row[2]]
        assert (row[1], row[2], row[5]) == ("Artist 1", mbid, '{"thumb": "https://art.test/1.jpg"}')
        s.run(2 * HOUR)
        assert len(world.times(provider="aids", operation="ids")) == 11


@pytest.mark.req("SYNC-16")
def test_rotated_credentials_are_on_disk_before_they_are_used_and_never_replace_newer_ones(
    studio: Callable[..., Any],
) -> None:
    from tidegate_apps.music.connections import Replaced

    with studio() as s:
        s.shop.connections.put("ada", s.kinds["svc"], {"user": "ada-at-svc", "password": "s3cret"})
        old = s.shop.connections.get("ada", "svc")
        kind = s.kinds["svc"]
        s.shop.connections.save(old, kind, {"password": "rotated", "refresh_token": "r2"})
        values = s.shop.connections.values(s.shop.connections.get("ada", "svc"))
        assert values == {"user": "ada-at-svc", "password": "rotated", "refresh_token": "r2"}
        s.connect(password="entered anew")
        with pytest.raises(Replaced):
            s.shop.connections.save(old, kind, {"password": "too late"})
        s.shop.connections.remove("ada", "svc")
        with pytest.raises(Replaced):
            s.shop.connections.save(s.shop.connections.get("ada", "svc"), kind, {"password": "too late"})
