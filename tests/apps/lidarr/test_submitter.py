"""What the submitter sends, in which order, and how it reconciles what is there already."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.apps.lidarr.building import Round, last_metric, metrics
from tidegate.store.sql import statements
from tidegate.testing import Step
from tidegate_apps.lidarr.codes import NOT_WATCHED
from tidegate_apps.lidarr.records import EntityObservation

API = "/api/v1"
STEAL = "-- name: steal\nupdate tg_job set fence = fence + 1 where id = :id;"


@pytest.mark.req("LID-08")
@pytest.mark.req("LID-09")
@pytest.mark.req("LID-17")
def test_what_is_missing_is_sent_artists_first_and_lidarr_says_the_rest(
    both: Round, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    both.some(2, 2)
    both.look()

    woken = both.wake()

    assert (woken.outcome, woken.eligible, woken.submitted, woken.remaining) == ("drained", 6, 6, 0)
    assert {each.status for each in both.entries()} == {"submitted"}
    album = both.entry("album", "album-0-0")
    assert album.lidarr_id == both.sim.inside.album_of("album-0-0")["id"]  # type: ignore[index]
    assert both.status("album", both.albums["album-0-0"]) == "monitored"
    assert both.badge("album", both.albums["album-0-0"])[0] == "Monitored"  # type: ignore[index]
    events = both.there.db.all("events", below=2**53, n=10)
    assert sorted(row[2] for row in events) == ["lidarr_album_submitted"] * 4 + ["lidarr_artist_submitted"] * 2
    said = [values[:3] for name, values in metrics(caplog) if name == "metric.lidarr.submitted"]
    assert said[:2] == [("artist", 1, "artist-0"), ("artist", 2, "artist-1")]
    assert [values[0] for values in said[2:]] == ["album"] * 4
    assert last_metric(caplog, "queue_drained") == (6, 0, 0)
    assert both.sent("POST /command") == 4
    both.clock.advance("30m")
    both.look()
    assert both.status("album", both.albums["album-0-0"]) == "available"


@pytest.mark.req("LID-11")
def test_an_album_waits_for_its_artist_and_carries_his_id(quick: Round) -> None:
    quick.some(1, 1)
    quick.sim.inside.catalogue["artist-0"] = ("Nina", [])  # the profile keeps this album out of the refresh
    quick.look()
    quick.sim.then(f"POST {API}/artist", Step(500))
    assert quick.wake().submitted == 0
    assert quick.entry("album", "album-0-0").stage == "blocked"

    quick.wakes(2)

    (artist,) = quick.sim.inside.artists
    (sent,) = quick.sim.asked(f"POST {API}/album")
    assert (sent.json["artistId"], sent.json["artist"]["id"]) == (artist, artist)
    assert sent.json["artist"]["foreignArtistId"] == "artist-0"
    assert sent.json["artist"]["rootFolderPath"] == "/music"
    assert quick.entry("album", "album-0-0").status == "submitted"


@pytest.mark.req("LID-08")
def test_what_comes_while_a_wake_is_under_way_is_for_the_next_one(quick: Round) -> None:
    quick.some(1, 1)
    quick.look()
    late = {"kind": "artist", "entity_id": 99, "user": "ada", "name": "Late", "mbid": "late"}

    def during(asked: Any) -> Any:
        quick.there.db.write(lambda tx: quick.jobs.enricher.recorder.put(tx, [EntityObservation(**late)], {}))  # type: ignore[arg-type]
        return Step(201, quick.sim.inside.search(asked.json["albumIds"]))

    quick.sim.then(f"POST {API}/command", during)

    assert (quick.wake().submitted, quick.entry("artist", "late").status) == (2, "queued")
    assert quick.wake().submitted == 1


@pytest.mark.req("LID-18")
@pytest.mark.parametrize("route", ["POST /artist", "POST /album", "PUT /album/monitor", "POST /command"])
def test_a_submission_whose_answer_was_lost_is_found_before_it_is_sent_again(quick: Round, route: str) -> None:
    quick.some(1, 1)
    quick.look()
    quick.sim.inside.catalogue["artist-0"] = ("Nina", [])  # so that the album must be posted
    quick.sim.lose(route)

    quick.wakes(3)

    assert {each.status for each in quick.entries()} == {"submitted"}
    assert (quick.sent("POST /artist"), quick.sent("POST /album"), quick.sent("POST /command")) == (1, 1, 1)
    assert len(quick.sim.inside.artists) == len(quick.sim.inside.albums) == 1
    assert len(quick.sim.inside.downloads) == 1


@pytest.mark.req("LID-17")
def test_a_submission_is_said_once_it_is_recorded_and_not_when_that_came_too_late(
    both: Round, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    both.some(1, 1)
    both.look()
    store, album = both.queue.store, both.entry("album", "album-0-0").id
    store.add(statements(STEAL, store.dialect))

    def during(asked: Any) -> Any:
        store.write(lambda tx: tx.query("steal", {"id": album}))
        return Step(201, both.sim.inside.search(asked.json["albumIds"]))

    both.sim.then(f"POST {API}/command", during)

    assert both.wake().submitted == 1
    assert _submitted(caplog) == ["artist"]
    assert last_metric(caplog, "queue_drained")[:2] == (1, 1)
    both.clock.advance("5m")
    assert both.wake().submitted == 1
    assert _submitted(caplog) == ["artist", "album"]
    assert both.sent("POST /command") == 1


def _submitted(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was said to be submitted."""
    return [values[0] for name, values in metrics(caplog) if name == "metric.lidarr.submitted"]


def test_what_somebody_has_added_meanwhile_is_watched_and_searched(quick: Round) -> None:
    quick.some(1, 1)
    quick.look()
    artist = quick.sim.inside.put_artist("artist-0", "Nina", monitored=False)
    quick.clock.advance("10s")

    quick.wake()

    assert quick.sim.inside.artists[artist["id"]]["monitored"]
    assert quick.sim.inside.album_of("album-0-0")["monitored"]  # type: ignore[index]
    assert (quick.sent("POST /artist"), quick.sent("POST /album"), quick.sent("POST /command")) == (0, 0, 1)


def test_an_artist_is_added_so_that_only_what_is_wanted_is_watched_and_he_stays_watched(quick: Round) -> None:
    quick.some(1, 1)
    quick.sim.inside.catalogue["artist-0"][1].append("another")
    quick.look()
    quick.wake()

    (sent,) = quick.sim.asked(f"POST {API}/artist")
    assert sent.json == {
        "artistName": "Name artist-0", "foreignArtistId": "artist-0", "monitored": True, "monitorNewItems": "none",
        "rootFolderPath": "/music", "qualityProfileId": 1, "metadataProfileId": 1,
        "addOptions": {"albumsToMonitor": ["album-0-0"], "searchForMissingAlbums": False},
    }  # fmt: skip
    assert quick.sim.inside.artist_of("artist-0")["monitored"]  # type: ignore[index]
    assert not quick.sim.inside.album_of("another")["monitored"]  # type: ignore[index]
    assert json.dumps(sent.json)


def test_an_album_that_lidarr_does_not_watch_after_all_is_tried_again(quick: Round) -> None:
    quick.some(1, 1)
    quick.look()
    quick.sim.then(f"PUT {API}/album/monitor", Step(202, []))

    quick.wake()

    entry = quick.entry("album", "album-0-0")
    assert (entry.status, entry.last_error) == ("failed", NOT_WATCHED.message)
    quick.clock.advance("5m")
    assert quick.wake().submitted == 1


def test_the_albums_of_a_new_artist_are_waited_for_once_and_not_each_for_itself(quick: Round) -> None:
    quick.some(1, 6)
    quick.sim.inside.catalogue["artist-0"] = ("Nina", [])  # none of them ever comes by itself
    quick.look()
    began = quick.clock.now()

    assert quick.wake().submitted == 7

    assert quick.clock.now() - began < 15
    assert quick.sent("POST /album") == 6


@pytest.mark.parametrize("step", [-86400, 86400])
def test_an_album_does_not_wait_for_the_time_before_a_step_of_the_clock(quick: Round, step: float) -> None:
    quick.some(1, 1)
    quick.sim.inside.catalogue["artist-0"] = ("Nina", [])  # the album never comes by itself
    quick.look()
    quick.sim.lose("GET /album")
    assert quick.wake().submitted == 1  # the artist, who is new in Lidarr
    quick.clock.step_wall(step)
    for _ in range(2):
        quick.queue.store.write(lambda tx: tx.query("clock"))
        quick.clock.advance(601)
    began = quick.clock.monotonic()

    assert quick.wake().submitted == 1

    assert abs(quick.queue.clock.now() - quick.clock.now()) < 1
    assert quick.clock.monotonic() - began < 30


@pytest.mark.parametrize("step", [-86400, 86400])
def test_what_a_look_has_checked_is_checked_again_after_its_time_over_a_step_of_the_clock(
    quick: Round, step: float
) -> None:
    quick.artist("artist-0")
    assert quick.look_job() == "done"
    quick.clock.step_wall(step)
    for _ in range(2):
        quick.queue.store.write(lambda tx: tx.query("clock"))
        quick.clock.advance(601)

    def calls_of_a_look() -> int:
        before = quick.sent("GET /artist") + quick.sent("GET /artist/lookup") + quick.sent("GET /album")
        assert quick.look_job() == "done"
        return quick.sent("GET /artist") + quick.sent("GET /artist/lookup") + quick.sent("GET /album") - before

    assert calls_of_a_look() == 0
    quick.clock.advance(float(quick.there.settings.enrich_every))
    assert calls_of_a_look() > 0
