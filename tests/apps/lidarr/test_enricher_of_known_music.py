"""The enricher, for what Lidarr has and nobody wants yet, for what was given up, and while others write."""

from __future__ import annotations

import pytest

from tests.apps.lidarr.building import USER, Round
from tidegate.testing import Step
from tidegate_apps.lidarr.client import Lidarr, LidarrArtist
from tidegate_apps.lidarr.library_scan import ScanCounts
from tidegate_demo.simulators.lidarr import KEY

API = "/api/v1"


@pytest.mark.req("LID-03")
def test_albums_that_lidarr_made_with_an_artist_of_ours_are_sent_as_well(both: Round) -> None:
    both.some(1, 2)
    _look_for_artists(both)
    assert both.wake().submitted == 1  # the artist goes before his albums were looked for
    both.clock.advance("60s")

    tally = both.look()

    assert tally.as_json() == {"looked": 3, "found": 3, "queued": 2}
    assert [both.status("album", id_) for id_ in both.albums.values()] == ["queued", "queued"]
    assert both.wake().submitted == 2
    assert (both.sent("POST /album"), both.sent("POST /command")) == (0, 2)
    assert all(each["monitored"] for each in both.sim.inside.albums.values())


@pytest.mark.req("LID-03")
def test_an_album_that_comes_long_after_its_artist_was_sent_is_sent_for_every_user(quick: Round) -> None:
    quick.some(1, 0)
    quick.sim.inside.catalogue["artist-0"][1].append("later")
    quick.look()
    quick.wake()
    quick.clock.advance("8d")
    assert quick.wake().outcome == "nothing"
    assert quick.entries() == []  # nothing but the row of the artist says that he was ours
    quick.artist("artist-0", user="bob")
    quick.album("later", "artist-0", user="bob")

    assert quick.look().queued == 1
    assert quick.wake().submitted == 1
    assert quick.sent("POST /command") == 1


@pytest.mark.req("LID-03")
def test_an_album_that_a_person_has_switched_off_in_lidarr_stays_off(quick: Round) -> None:
    quick.some(1, 2)
    quick.sim.inside.barren |= set(quick.albums)
    quick.look()
    quick.wake()
    quick.clock.advance("8d")
    quick.wake()
    for each in quick.sim.inside.albums.values():
        each["monitored"] = False

    assert [quick.look().queued, quick.look().queued] == [0, 0]
    assert quick.status("album", quick.albums["album-0-0"]) == "pending"


def _look_for_artists(at: Round) -> None:
    async def main() -> None:
        async with at.jobs.submitter.opened() as lidarr:
            await at.jobs.enricher.artists(lidarr, at.jobs.library.artists(USER), float("inf"), ScanCounts())

    at.clock.run(main())


@pytest.mark.req("LID-11")
def test_a_given_up_artist_that_a_person_has_added_is_shown_as_lidarr_has_him_and_takes_new_albums(both: Round) -> None:
    both.some(1, 1)
    both.sim.inside.unknown.add("artist-0")
    both.look()
    both.wake()
    artist, note = both.artists["artist-0"], both.there.db.one("shown", kind="artist", entity_id=1)[-1]  # type: ignore[index]
    assert (both.status("artist", artist), "(HTTP 200)" in note) == ("gave_up", True)
    both.sim.inside.unknown.clear()
    made = both.sim.inside.put_artist("artist-0", "By hand")
    both.clock.advance("61s")

    shown = []
    for _ in range(2):
        both.look()
        shown.append(both.there.db.one("shown", kind="artist", entity_id=artist)[5:])  # type: ignore[index]
        both.clock.advance("3m")
        both.wake()
        shown.append(both.there.db.one("shown", kind="artist", entity_id=artist)[5:])  # type: ignore[index]

    assert shown == [("monitored", made["id"], "artist-0", "")] * 4
    assert both.badge("artist", artist)[0] == "Monitored"  # type: ignore[index]
    assert both.entry("artist", "artist-0").terminal_reason == "permanent"  # the row stays, for whoever asks
    both.album("new", "artist-0")
    both.sim.inside.catalogue["artist-0"][1].remove("new")
    both.look()
    assert both.wake().submitted == 1
    assert both.entry("album", "new").status == "submitted"


@pytest.mark.req("LID-13")
def test_a_given_up_album_that_lidarr_merely_lists_stays_given_up(quick: Round) -> None:
    quick.some(1, 1)
    quick.look()
    quick.sim.stay(f"PUT {API}/album/monitor", Step(500))
    for _ in range(12):
        quick.wake()
        quick.clock.advance("61m")
    album, shown = quick.albums["album-0-0"], []

    for _ in range(2):
        quick.sim.inside.album_of("album-0-0")["monitored"] = False  # type: ignore[index]
        quick.look()
        shown.append(quick.status("album", album))
        quick.wake()
        shown.append(quick.status("album", album))

    assert shown == ["gave_up"] * 4
    assert quick.there.db.one("shown", kind="album", entity_id=album)[-1] != ""  # type: ignore[index]
    assert quick.entry("album", "album-0-0").terminal_reason == "exhausted"
    quick.sim.inside.album_of("album-0-0")["monitored"] = True  # type: ignore[index]
    quick.look()
    quick.wake()
    assert quick.status("album", album) == "monitored"  # a person has taken care of it


@pytest.mark.req("LID-09")
def test_a_submission_that_went_well_while_lidarr_was_asked_is_not_overwritten(both: Round) -> None:
    both.some(2, 0)
    both.look()

    class Slow(Lidarr):
        async def artist(self, mbid: str) -> LidarrArtist | None:
            found = await super().artist(mbid)
            if mbid == "artist-0":
                await both.jobs.waker.run_cycle()
            return found

    async def main() -> ScanCounts:
        async with Slow("http://lidarr", KEY, 60.0, both.sim.transport()) as lidarr:
            return await both.jobs.enricher.run(lidarr, lambda: False, before=both.clock.now())

    assert both.clock.run(main()).queued == 0

    there = both.sim.inside.artist_of("artist-0")
    assert there is not None
    row = both.there.db.one("shown", kind="artist", entity_id=both.artists["artist-0"])
    assert row is not None
    assert row[5:7] == ("monitored", there["id"])
    assert both.badge("artist", both.artists["artist-0"])[0] == "Monitored"  # type: ignore[index]
    assert [each.status for each in both.entries()] == ["submitted"] * 2
