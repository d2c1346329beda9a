"""The enricher looks in Lidarr and puts into the queue what is not there. It never sends anything."""

from __future__ import annotations

import dataclasses
from unittest.mock import ANY

import pytest

from tests.apps.lidarr.building import USER, Round
from tests.web.local import LocalClient
from tidegate.testing import Step
from tidegate.web.app import build
from tidegate.web.site import Site
from tidegate_apps.lidarr.models import Submission
from tidegate_apps.lidarr.records import NO_ARTIST_ID
from tidegate_apps.music.library import tables
from tidegate_apps.music.merge import identify_album

API = "/api/v1"
WRITES = ("POST /artist", "POST /album", "PUT /album/monitor", "POST /command", "PUT /artist/editor")


@pytest.mark.req("LID-01")
@pytest.mark.req("LID-03")
def test_what_is_not_in_lidarr_gets_a_row_and_is_queued_and_nothing_is_sent(both: Round) -> None:
    both.some(1, 1)
    now = both.clock.now()

    both.look()

    artist, album = both.entries()
    assert {**album.as_json(), "id": 0} == {
        "id": 0, "entity_type": "album", "entity_id": both.albums["album-0-0"], "user": USER,
        "musicbrainz_id": "album-0-0", "name": "Title album-0-0", "artist": "Name artist-0", "status": "queued",
        "attempts": 0, "most_attempts": 10, "last_error": None, "retry_at": None, "terminal_reason": None,
        "created_at": now, "updated_at": now, "lidarr_id": None, "lidarr_status": "queued",
    }  # fmt: skip
    assert (artist.entity_type, artist.status) == ("artist", "queued")
    assert both.badge("album", album.entity_id) == ("Queued", "warn", "queue", "Queued for Lidarr", "")
    assert [both.sent(route) for route in WRITES] == [0] * 5
    assert (both.sent("GET /artist"), both.sent("GET /album")) == (1, 1)


@pytest.mark.req("LID-03")
def test_what_is_in_lidarr_gets_its_id_and_state_and_no_row(both: Round) -> None:
    both.some(1, 2)
    made = both.sim.inside.put_artist("artist-0", "Nina", albumsToMonitor=["album-0-0"])
    both.clock.advance("10s")

    tally = both.look()

    assert tally.as_json() == {"looked": 3, "found": 3, "queued": 0}
    assert both.entries() == []
    assert both.there.db.one("shown", kind="artist", entity_id=1)[5:7] == ("monitored", made["id"])  # type: ignore[index]
    assert both.status("album", both.albums["album-0-0"]) == "monitored"
    assert both.status("album", both.albums["album-0-1"]) == "pending"
    assert both.badge("album", 1) == ("Monitored", "busy", "search", ANY, "/lidarr/to/album/1")


@pytest.mark.req("LID-03")
def test_without_a_musicbrainz_id_there_is_no_row_and_no_error(quick: Round) -> None:
    nameless = quick.artist(None, "Nobody")
    quick.artist("artist-0")
    quick.album(None, "artist-0")
    orphan = quick.album("album-x", artist_id=nameless)

    tally = quick.look()

    assert tally.queued == 1  # the artist with an id
    assert [row[4] for row in quick.there.db.all("unsendable", n=10)] == [NO_ARTIST_ID]
    assert (quick.status("album", orphan), quick.badge("album", orphan)) == (None, None)


@pytest.mark.req("LID-03")
def test_an_album_without_the_id_of_its_artist_is_looked_up_and_only_what_lidarr_lacks_cannot_be_sent(
    both: Round,
) -> None:
    nobody = both.artist(None, "Nobody")
    for mbid in ("there", "away"):
        both.album(mbid, artist_id=nobody)
    both.sim.inside.catalogue["by-hand"] = ("By hand", ["there"])
    both.sim.inside.put_artist("by-hand", "By hand", albumsToMonitor=["there"])
    both.clock.advance("10s")
    web = LocalClient(
        build(Site(queue=both.queue, apps=(both.there,))), client=("127.0.0.1", 50000), base_url="http://localhost"
    )

    for queued in (0, 0):
        assert both.look().queued == queued
        there = both.sim.inside.album_of("there")
        assert there is not None
        assert both.there.db.one("shown", kind="album", entity_id=both.albums["there"])[5:7] == (  # type: ignore[index]
            "monitored", there["id"],
        )  # fmt: skip
        assert [(row[1], row[4]) for row in both.there.db.all("unsendable", n=10)] == [
            (both.albums["away"], NO_ARTIST_ID)
        ]  # fmt: skip
    page = web.get("/lidarr").text
    assert 'id="cannot"' in page
    assert NO_ARTIST_ID in page
    assert both.entries() == []


@pytest.mark.req("LID-15")
def test_the_link_of_a_track_follows_its_album(quick: Round) -> None:
    quick.some(1, 2)
    first = quick.albums["album-0-0"]
    quick.sim.inside.put_artist("artist-0", "Nina", albumsToMonitor=["album-0-0", "album-0-1"])
    quick.clock.advance("10s")
    track = quick.track(first, 1)
    quick.look()
    tables(quick.queue).write(lambda tx: identify_album(tx, first, "album-0-1"))

    quick.look()

    assert quick.there.db.one("shown", kind="track", entity_id=track)[5:8:2] == ("monitored", "album-0-1")  # type: ignore[index]


@pytest.mark.req("LID-02")
def test_looking_again_leaves_a_queued_a_failed_and_a_given_up_row_as_they_were(quick: Round) -> None:
    quick.some(3, 0)
    quick.look()
    quick.sim.then(f"POST {API}/artist", Step(400, [{"errorCode": "ArtistPathValidator"}]), Step(500))
    quick.wake()
    before = quick.entries()
    assert [(each.status, each.terminal_reason) for each in before] == [
        ("failed", "permanent"), ("failed", None), ("submitted", None),
    ]  # fmt: skip

    tally = quick.look()

    assert tally.queued == 0
    assert quick.entries()[:2] == before[:2]
    assert quick.sim.inside.artist_of("artist-2") is not None
    assert len(quick.entries()) == 3


@pytest.mark.req("LID-02")
def test_two_users_have_a_row_each_and_one_entity_has_one(quick: Round) -> None:
    one = Submission("artist", 7, "ada", "a", "A")
    made = quick.jobs.submit.enqueue_many(
        [(one,), (one,), (dataclasses.replace(one, user="bob"),), (dataclasses.replace(one, entity_id=8),)]
    )

    assert [each.created for each in made] == [True, False, True, True]
    with pytest.raises(ValueError, match=r"musicbrainz_id: .*1 .*255"):
        Submission("artist", 7, "ada", "", "A")
    with pytest.raises(ValueError, match="musicbrainz_id"):
        Submission("artist", 7, "ada", "x" * 256, "A")


@pytest.mark.req("LID-02")
def test_a_submitted_row_blocks_until_lidarr_has_forgotten_it(quick: Round) -> None:
    quick.some(1, 1)
    quick.look()
    quick.wake()
    album = quick.entry("album", "album-0-0")
    assert quick.look().queued == 0

    del quick.sim.inside.albums[album.lidarr_id or 0]
    assert quick.look().queued == 1

    fresh = quick.entry("album", "album-0-0")
    assert (fresh.status, fresh.id != album.id) == ("queued", True)
    assert quick.wake().submitted == 1


@pytest.mark.req("LID-04")
def test_a_track_shows_queued_with_its_album_and_later_what_lidarr_says(both: Round) -> None:
    both.some(1, 1)
    album = both.albums["album-0-0"]
    track = both.track(album, both.artists["artist-0"])
    both.look()
    assert (both.status("track", track), both.badge("track", track)[3]) == ("queued", "Queued for Lidarr")  # type: ignore[index]
    both.sim.then(f"POST {API}/command", Step(500))
    both.wake()
    both.look()
    assert both.entry("album", "album-0-0").status == "failed"
    assert both.status("track", track) == "queued"  # a retry is ahead
    both.clock.advance("3m")
    both.wake()
    assert both.status("track", track) == "queued"  # until the next look

    both.look()

    assert both.status("track", track) == "monitored"
    assert both.badge("track", track)[4] == f"/lidarr/to/track/{track}"  # type: ignore[index]
    both.clock.advance("5m")
    both.look()
    assert both.status("track", track) == "grabbed"


def test_what_was_looked_for_lately_is_left_alone(quick: Round) -> None:
    quick.some(2, 1)
    quick.look()
    asked = quick.calls()

    assert quick.look_job() == "done"
    assert quick.calls() == asked
    quick.clock.advance("61m")
    assert quick.look_job() == "done"
    assert quick.sent("GET /artist") + quick.sent("GET /album") == 8


def test_an_album_that_comes_with_an_artist_nobody_has_seen_yet_brings_him_along(quick: Round) -> None:
    quick.some(1, 0)
    quick.look()

    async def pages() -> None:
        from tidegate_apps.lidarr.library_scan import ScanCounts

        async with quick.jobs.submitter.opened() as lidarr:
            quick.artist("late")
            quick.album("album-late", "late")
            page = quick.jobs.library.albums(USER)
            await quick.jobs.enricher.albums(lidarr, page, 0.0, ScanCounts())

    quick.clock.run(pages())

    album = quick.entry("album", "album-late")
    assert album.stage == "blocked"
    assert quick.wake().submitted == 3
