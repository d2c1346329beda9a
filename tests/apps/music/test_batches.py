"""What the providers hand over: kept once, with its mark, and never taken away by an empty answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.apps.music.building import HOUR, MINUTE, Studio, World, kind_of, play, song
from tidegate import Queue
from tidegate_apps.music.library_writer import SyncOperation
from tidegate_apps.music.provider import Batch, Enrichment, Operation, Play, Playlist, ProviderKind, RejectedRow


def test_plays_come_once_however_often_they_are_handed_over_and_the_mark_moves_with_them(
    studio: Callable[..., Any],
) -> None:
    with studio() as s:
        s.world.plays["ada", "svc"] = [play(n) for n in range(1, 6)]
        s.connect()
        s.run(10)
        lane = SyncOperation("ada", "svc", Operation.PLAYS)
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
        lane = SyncOperation("ada", "svc", Operation.PLAYS)
        broken = Play(ref="2", at=None, song=song(2))  # type: ignore[arg-type]  # which no table takes
        with pytest.raises(Exception, match=r"(?i)null"):
            s.shop.keeping.plays(lane, Batch(items=(play(1), broken), mark="2"))
        assert (s.shop.keeping.mark(lane), s.refs()) == (None, [])
        assert s.there.db.all("artists_of", user_id="ada", after=0, n=9) == []


def test_a_bad_row_is_noted_and_stops_nothing(studio: Callable[..., Any], quick: Queue) -> None:
    with studio() as s:
        s.connect()
        lane = SyncOperation("ada", "svc", Operation.PLAYS)
        batch = Batch(
            items=(play(1), play(1), play(2)), bad=(RejectedRow(row="{...}", why="it has no date"),) * 30, mark="9"
        )
        assert s.shop.keeping.plays(lane, batch) == 2
        assert s.shop.keeping.plays(lane, batch) == 0
        rows = s.there.db.all("bad_of", user_id="ada", provider="svc", n=100)
        assert len(rows) == 20
        assert (rows[0][2], "date" in rows[0][3]) == ("{...}", True)


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


def alone(world: World, *operations: Operation) -> ProviderKind:
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
    world = World(quick.clock)  # type: ignore[arg-type]
    mbid = "11111111-0000-4000-8000-000000000001"
    with Studio.opened(
        quick, kind_of(world), alone(world, Operation.IDS, Operation.ART), world=world, look_every=60, ask_again=7200
    ) as s:
        world.plays["ada", "svc"] = [play(1), play(2)]
        world.answers = lambda operation, wanted: (
            Enrichment(id=wanted.id, art={"thumb": "https://art.test/1.jpg"})
            if operation is Operation.ART
            else Enrichment(id=wanted.id, mbid=mbid)
            if wanted.name == "Artist 1"
            else Enrichment(id=wanted.id, nothing=True)
        )
        s.connect()
        s.run(HOUR)
        assert len(world.times(provider="aids", operation="ids")) == 6  # two artists, two albums, two tracks
        assert len(world.times(provider="aids", operation="art")) == 1  # the one that has an id
        (row,) = [row for row in s.there.db.all("page_artists", user_id="ada", plays=99, before=99, n=9) if row[2]]
        assert (row[1], row[2], row[5]) == ("Artist 1", mbid, '{"thumb": "https://art.test/1.jpg"}')
        s.run(2 * HOUR)
        assert len(world.times(provider="aids", operation="ids")) == 11
