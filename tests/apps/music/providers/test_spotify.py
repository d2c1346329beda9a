"""The client of Spotify: plays, playlists in both generations of its API, and the faults it is known for."""

from __future__ import annotations

import pytest

from tests.apps.music.providers.building import Desk, fault_in, lists, plays
from tidegate import classify, rules
from tidegate_apps.music.client import ServiceError
from tidegate_apps.music.provider import Gap
from tidegate_demo.simulators.music.base import TRACKS
from tidegate_demo.simulators.music.spotify import OwnedList

RECENT = "GET /spotify/v1/me/player/recently-played"
CODES = {
    "scope_missing": "scope_missing", "not_registered": "not_registered", "forbidden": "endpoint_removed",
    "premium_required": "premium_required", "owner_not_premium": "owner_not_premium", "too_fast": "rate_limited",
    "too_fast_for_hours": "rate_limited", "quota_exceeded": "quota_exhausted", "server_error": "upstream_failure",
    "bad_gateway_said": "upstream_failure", "unavailable_said": "overloaded", "not_found": "not_supported",
    "token_expired": "unauthorized", "token_invalid": "unauthorized",
}  # fmt: skip


@pytest.mark.parametrize("fault", CODES)
async def test_each_refusal_means_what_it_says(desk: Desk, fault: str) -> None:
    provider = desk.provider("spotify")
    desk.sim.spotify.now(fault, "recently-played")
    found = await fault_in(provider)
    assert found is not None
    assert found.code == CODES[fault]


def hear(desk: Desk, count: int, apart: float = 200.0) -> list[float]:
    times = []
    for number in range(count):
        desk.clock.advance(apart)
        desk.sim.spotify.listening.hear("ann", number)
        times.append(round(desk.clock.now(), 3))
    return times


@pytest.mark.parametrize("newest_first", [True, False])
@pytest.mark.parametrize("count", [50, 170])
async def test_plays_come_oldest_first_with_a_mark_that_passes_none_of_them(
    desk: Desk, newest_first: bool, count: int
) -> None:
    desk.sim.spotify.newest_first, desk.sim.spotify.kept = newest_first, count
    provider = desk.provider("spotify")
    times = hear(desk, count)
    batches = [batch async for batch in provider.plays(None)]
    seen: list[str] = []
    for batch in batches:
        new = [play for play in batch.items if play.ref not in seen]
        assert [play.at for play in new] == times[len(seen) : len(seen) + len(new)]
        seen += [play.ref for play in new]
        assert batch.mark is not None
        assert int(batch.mark) <= max(round(at * 1000) for at in times[: len(seen)])
    assert len(seen) == count
    first = batches[0].items[0].song
    assert (first.title, first.isrc, first.seconds) == (TRACKS[0].title, TRACKS[0].isrc, float(TRACKS[0].seconds))


async def test_from_a_mark_on_nothing_is_missed_and_what_comes_twice_has_the_same_ref(desk: Desk) -> None:
    provider = desk.provider("spotify")
    hear(desk, 10)
    [batch] = [batch async for batch in provider.plays(None)]
    known = {play.ref: play for play in batch.items}
    desk.sim.spotify.listening.hear("ann", 40, at=desk.clock.now() - 1000)  # handed in late
    hear(desk, 2)
    found = await plays(provider, batch.mark)
    assert [play.song.title for play in found if play.ref not in known] == [TRACKS[n].title for n in (40, 0, 1)]
    assert all(known[play.ref] == play for play in found if play.ref in known)


@pytest.mark.parametrize("newest_first", [True, False])
@pytest.mark.parametrize(
    ("count", "kept", "lost"),
    [(40, 50, False), (49, 50, False), (50, 50, True), (60, 50, True), (90, 170, False), (200, 170, True)],
)
async def test_plays_that_spotify_no_longer_hands_over_are_said_to_be_missing(
    desk: Desk, newest_first: bool, count: int, kept: int, lost: bool
) -> None:
    desk.sim.spotify.newest_first, desk.sim.spotify.kept = newest_first, kept
    provider = desk.provider("spotify")
    reached = hear(desk, 10)[-1]
    [first] = [batch async for batch in provider.plays(None)]
    assert first.gap is None
    times = hear(desk, count)
    batches = [batch async for batch in provider.plays(first.mark)]
    expected = [Gap(since=reached, until=times[-kept])] if lost else []
    assert [batch.gap for batch in batches if batch.gap] == expected
    found = {play.at for batch in batches for play in batch.items}
    assert found >= set(times[-kept:])
    assert [batch.gap for batch in [batch async for batch in provider.plays(batches[-1].mark)]] == [None]


async def test_a_first_sync_misses_nothing_that_was_promised(desk: Desk) -> None:
    hear(desk, 80)
    assert {batch.gap async for batch in desk.provider("spotify").plays(None)} == {None}


async def test_plays_of_a_private_session_and_of_nobody_are_none(desk: Desk) -> None:
    provider = desk.provider("spotify")
    assert await plays(provider) == []
    desk.sim.spotify.now("private_session", "recently-played")
    assert await plays(provider) == []


async def test_a_row_that_cannot_be_read_does_not_stop_the_others(desk: Desk) -> None:
    provider = desk.provider("spotify")
    good = {"played_at": "2023-11-14T22:13:20.123Z", "track": {"id": "x", "name": "A", "artists": [{"name": "B"}]}}
    odd = [{**good, "played_at": "yesterday"}, {**good, "track": None}, {**good, "track": {"name": "A"}}, "?", None]
    desk.sim.then(RECENT, {"items": [*odd, good], "next": None, "cursors": None})
    [batch] = [batch async for batch in provider.plays(None)]
    assert [(play.ref, play.at) for play in batch.items] == [("1700000000123-x", 1700000000.123)]
    assert [bad.why.split()[-1] for bad in batch.bad] == ["played_at", "artist", "artist", "object", "object"]


@pytest.mark.parametrize("generation", ["new", "old"])
async def test_playlists_of_both_generations_are_read(desk: Desk, generation: str) -> None:
    desk.sim.spotify.generation = generation
    provider = desk.provider("spotify")
    own, empty, *foreign = await lists(provider)
    assert [song.title for song in own.songs or ()] == [TRACKS[number].title for number in (1, 2, 17)]
    assert empty.songs == ()
    if generation == "new":
        assert [each.songs for each in foreign] == [None], "its name is all that is shown"
    asked = len(desk.sim.asked("GET /spotify/v1/playlists/{id}/{contents}"))
    desk.sim.spotify.playlists["ann1"].snapshot += 1
    await lists(provider)
    again = len(desk.sim.asked("GET /spotify/v1/playlists/{id}/{contents}"))
    # What has changed, and in the old generation what was not found; and nobody tries the other name again.
    assert again - asked == {"new": 1, "old": 2}[generation]


async def test_a_playlist_without_a_name_is_one(desk: Desk) -> None:
    provider = desk.provider("spotify")
    desk.sim.spotify.playlists["ann1"].name = " "
    batches = [batch async for batch in provider.playlists()]
    assert [bad for batch in batches for bad in batch.bad] == []
    assert [(item.ref, item.name) for item in batches[0].items] == [("ann1", "")]


async def test_songs_end_where_a_page_is_empty_although_it_promises_more(desk: Desk) -> None:
    provider = desk.provider("spotify")
    desk.sim.stay("GET /spotify/v1/playlists/{id}/items", {"items": [], "next": "more"})
    await lists(provider)
    assert desk.sim.count("GET /spotify/v1/playlists/{id}/items") == 3


async def test_a_deleted_playlist_does_not_stop_spotify(desk: Desk) -> None:
    provider = desk.provider("spotify")
    desk.sim.spotify.next("not_found", where="items")
    batches = [batch async for batch in provider.playlists()]
    assert [bad.row for batch in batches for bad in batch.bad] == ["Road songs of ann"]
    assert [item.name for batch in batches for item in batch.items] == ["Nothing yet", "Made for you"]


async def test_long_lists_are_read_page_by_page(desk: Desk) -> None:
    desk.sim.spotify.limit = 1000
    provider = desk.provider("spotify")
    for number in range(120):
        desk.sim.spotify.playlists[f"ann-{number}"] = OwnedList(f"List {number}", "ann")
    desk.sim.spotify.playlists["ann1"].songs = [number % len(TRACKS) for number in range(170)]
    found = {each.name: each for each in await lists(provider)}
    assert len(found) == 123
    assert len(found["Road songs of ann"].songs or ()) == 170
    assert desk.sim.count("GET /spotify/v1/me/playlists") == 3


async def test_all_users_of_one_app_share_its_pace_and_stay_inside_its_window(desk: Desk) -> None:
    desk.sim.spotify.limit = 70
    for number in range(100):
        await desk.provider("spotify", user=f"user{number}").check()
    assert desk.sim.count("GET /spotify/v1/me") == 100


async def test_after_a_429_it_is_asked_half_as_often(desk: Desk) -> None:
    provider = desk.provider("spotify")
    for _ in range(5):
        await provider.check()
    before = desk.clock.monotonic()
    await provider.check()
    usual = desk.clock.monotonic() - before
    desk.sim.spotify.next("too_fast", where="me")
    with pytest.raises(ServiceError) as refused:
        await provider.check()
    fault = classify(refused.value, rules.spotify)
    assert fault is not None
    assert fault.retry_after == 17
    await provider.check()
    before = desk.clock.monotonic()
    await provider.check()
    assert desk.clock.monotonic() - before == pytest.approx(2 * usual)
    desk.clock.advance(61)
    await provider.check()
    before = desk.clock.monotonic()
    await provider.check()
    assert desk.clock.monotonic() - before <= usual, "for a minute"
