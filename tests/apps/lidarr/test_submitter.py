"""The submitter, against a Lidarr that behaves as the real one does: every scenario of a wake."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import sqlite3
from typing import Any

import pytest

from tests.apps.lidarr.building import Round, metrics, notices
from tests.databases import Database
from tidegate.runtime.clock import VirtualClock
from tidegate.testing import Asked, Step
from tidegate_apps.lidarr.settings import Settings
from tidegate_apps.lidarr.states import Submission

API = "/api/v1"


def last(caplog: pytest.LogCaptureFixture, event: str) -> tuple[Any, ...]:
    return [values for name, values in metrics(caplog) if name == f"metric.lidarr.{event}"][-1]


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
    assert last(caplog, "queue_drained") == (6, 0, 0)
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


@pytest.mark.req("LID-06")
def test_a_wake_with_nothing_eligible_does_not_call_lidarr(quick: Round) -> None:
    assert (quick.wake().outcome, quick.calls()) == ("nothing", 0)
    quick.some(1, 1)
    quick.look()
    quick.sim.then(f"POST {API}/artist", Step(500))
    quick.wake()
    asked = quick.calls()

    quick.clock.advance("30s")  # the artist waits for a minute, and the album for the artist
    assert quick.wake().outcome == "nothing"
    assert quick.calls() == asked


@pytest.mark.req("LID-07")
@pytest.mark.req("LID-17")
def test_a_full_lidarr_gets_nothing_and_the_log_says_how_full(both: Round, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    both.some(1, 3)
    both.look()
    both.sim.inside.fill(50, lasts=600)

    woken = both.wake()

    assert (woken.outcome, woken.submitted, woken.depth) == ("full", 0, 50)
    assert woken.message == "Lidarr is full: 50 of 50."
    assert both.sent("POST /artist") == 0
    assert metrics(caplog) == [("metric.lidarr.backpressure", (50, 50, 4)), ("metric.lidarr.queue_drained", (0, 4, 4))]
    assert [each.attempts for each in both.entries()] == [0] * 4
    both.clock.advance("11m")
    assert both.wake().submitted == 4


@pytest.mark.req("LID-07")
@pytest.mark.req("LID-08")
def test_what_was_sent_and_does_not_show_yet_counts_as_depth(
    quick_db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    with Round.opened(quick_db, queue_max=5) as at:
        at.some(1, 8)
        at.look()
        at.sim.inside.fill(2, lasts=6000)

        woken = at.wake()

        assert (woken.outcome, woken.submitted, woken.depth, woken.own) == ("full", 4, 2, 3)  # one artist, three albums
        assert woken.message == "Lidarr is full: 2 of 5, and 3 more that were sent."
        assert last(caplog, "backpressure") == (5, 5, 5)
        assert last(caplog, "queue_drained") == (4, 5, 5)
        at.clock.advance("90s")  # nothing shows yet, and so nothing more is sent
        assert at.wake().submitted == 0


@pytest.mark.req("LID-08")
def test_a_search_that_finds_nothing_gives_its_place_back_after_a_quarter_of_an_hour(quick_db: Database) -> None:
    with Round.opened(quick_db, queue_max=2) as at:
        at.some(1, 4)
        at.sim.inside.barren |= {"album-0-0", "album-0-1"}
        at.look()
        assert at.wake().submitted == 3
        at.clock.advance("14m")
        assert at.wake().submitted == 0
        at.clock.advance("2m")
        assert at.wake().submitted == 2


@pytest.mark.req("LID-08")
def test_without_credits_the_loop_goes_on_until_the_depth_itself_says_no(quick_db: Database) -> None:
    with Round.opened(quick_db, queue_max=5, credits=False) as at:
        at.some(1, 20)
        at.look()
        asked = at.sent("GET /queue")

        assert at.wake().submitted == 21

        assert at.sent("GET /queue") - asked == 21  # before the first, and after each that leaves something to send
        assert at.sim.inside.peak() == 20  # as the origin does: its gauge lags


@pytest.mark.req("LID-08")
def test_what_comes_while_a_wake_is_under_way_is_for_the_next_one(quick: Round) -> None:
    quick.some(1, 1)
    quick.look()
    late = {"kind": "artist", "entity_id": 99, "user": "ada", "name": "Late", "mbid": "late"}

    def during(asked: Any) -> Any:
        from tidegate_apps.lidarr.knowing import Seen

        quick.there.db.write(lambda tx: quick.jobs.enricher.recorder.put(tx, [Seen(**late)], {}))  # type: ignore[arg-type]
        return Step(201, quick.sim.inside.search(asked.json["albumIds"]))

    quick.sim.then(f"POST {API}/command", during)

    assert (quick.wake().submitted, quick.entry("artist", "late").status) == (2, "queued")
    assert quick.wake().submitted == 1


@pytest.mark.req("LID-10")
@pytest.mark.req("LID-12")
@pytest.mark.req("LID-17")
@pytest.mark.parametrize("answer", [Step(500), Step(400, [{"errorMessage": "odd"}]), Step(reset=True), Step(429)])
def test_a_failure_is_charged_to_its_entry_and_the_others_go_on(
    quick: Round, answer: Step, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    quick.some(3, 0)
    quick.look()
    quick.sim.then(f"POST {API}/artist", answer)
    now = quick.clock.now()

    woken = quick.wake()

    assert (woken.submitted, woken.failed, woken.remaining) == (2, 1, 1)
    failed = quick.entry("artist", "artist-0")
    assert (failed.status, failed.attempts, failed.terminal_reason) == ("failed", 1, None)
    assert failed.last_error
    assert failed.retry_at is not None
    assert 60 <= failed.retry_at - now < 121
    (said,) = [values for name, values in metrics(caplog) if name == "metric.lidarr.failed"]
    assert said == ("artist", quick.artists["artist-0"], failed.last_error, 1)
    assert last(caplog, "queue_drained") == (2, 1, 1)


@pytest.mark.req("LID-12")
@pytest.mark.req("LID-13")
def test_an_entry_is_tried_ten_times_by_the_ladder_and_then_only_by_a_person(quick: Round) -> None:
    quick.some(1, 1)
    quick.look()
    quick.sim.stay(f"POST {API}/artist", Step(500))
    waits: list[float] = []
    for attempt in range(1, 11):
        assert quick.wake().failed == 1
        entry = quick.entry("artist", "artist-0")
        assert (entry.status, entry.attempts) == ("failed", attempt)
        if entry.retry_at is not None:
            waits.append(round(entry.retry_at - quick.clock.now()))
            quick.clock.advance(entry.retry_at - quick.clock.now())

    assert waits == [90, 150, 270, 510, 990, 1950, 3600, 3600, 3600]  # with half a minute of chance
    entry, album = quick.entry("artist", "artist-0"), quick.entry("album", "album-0-0")
    assert (entry.retry_at, entry.terminal_reason, quick.status("artist", 1)) == (None, "exhausted", "gave_up")
    assert (album.status, album.terminal_reason, album.last_error) == (
        "failed",
        "artist",
        "The artist was not accepted.",
    )
    quick.clock.advance("1d")
    assert quick.wake().outcome == "nothing"

    assert quick.queue.retry(entry.id, by="ada")
    assert quick.entry("album", "album-0-0").stage == "blocked"
    quick.sim.reset()
    assert quick.wake().submitted == 2


@pytest.mark.req("LID-12")
@pytest.mark.req("LID-13")
def test_crashes_are_neither_failed_attempts_nor_steps_of_the_ladder(
    quick: Round, quick_db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    quick.some(1, 0)
    quick.look()
    with contextlib.closing(sqlite3.connect(quick_db.url.removeprefix("sqlite:///"))) as died, died:
        died.execute("update tg_job set attempt = 2, deaths = 2, fence = 2 where queue = 'lidarr'")
    quick.sim.stay(f"POST {API}/artist", Step(500))

    entry = quick.entry("artist", "artist-0")
    for attempt in range(1, 11):
        quick.wake()
        entry = quick.entry("artist", "artist-0")
        assert (entry.attempts, entry.most_attempts, entry.gave_up) == (attempt, 10, attempt == 10)
        assert last(caplog, "failed")[3] == attempt
        if entry.retry_at is not None:
            assert attempt > 1 or round(entry.retry_at - quick.clock.now()) == 90
            quick.clock.advance(entry.retry_at - quick.clock.now())

    assert (entry.terminal_reason, entry.last_error) == (
        "exhausted",
        "The service reported an error of its own (HTTP 500).",
    )
    assert notices(quick)[-1] == ("cap", "1 entry was given up for Lidarr")


@pytest.mark.req("LID-10")
@pytest.mark.parametrize("why", ["path_taken", "unknown_music", "empty lookup"])
@pytest.mark.parametrize("permanent", [True, False])
def test_only_what_is_hopeless_is_given_up_at_once(quick_db: Database, why: str, permanent: bool) -> None:
    with Round.opened(quick_db, permanent=permanent) as at:
        at.artist("artist-0")
        at.look()
        match why:
            case "path_taken":
                at.sim.inside.paths_taken.add("artist-0")
            case "unknown_music":
                at.sim.then(f"POST {API}/artist", Step(400, [{"errorMessage": "An artist with this ID was not found"}]))
            case _:
                at.sim.inside.unknown.add("artist-0")

        woken, entry = at.wake(), at.entry("artist", "artist-0")

        assert (woken.failed, entry.status, entry.attempts) == (1, "failed", 1)
        assert entry.terminal_reason == ("permanent" if permanent else None)
        assert (entry.retry_at is None) is permanent


@pytest.mark.req("LID-10")
def test_a_profile_that_is_gone_is_looked_up_again_and_is_nobody_s_end(quick: Round) -> None:
    quick.some(2, 0)
    quick.look()
    quick.sim.then(f"POST {API}/artist", Step(400, [{"errorMessage": "Quality profile does not exist"}]))
    quick.wake()
    assert quick.entry("artist", "artist-0").retry_at is not None
    assert quick.sent("GET /rootfolder") == 2
    quick.clock.advance("2m")
    assert quick.wake().submitted == 1


@pytest.mark.req("LID-10")
@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_costs_one_entry_an_attempt_and_holds_the_rest_with_one_notice(both: Round, status: int) -> None:
    both.some(4, 0)
    both.look()
    both.sim.then(f"GET {API}/artist", Step(status))

    woken = both.wake()

    assert (woken.outcome, woken.failed, woken.submitted, woken.code) == ("held", 1, 0, "unauthorized")
    assert [each.attempts for each in both.entries()] == [1, 0, 0, 0]
    assert both.sent("POST /artist") == 0
    both.clock.advance("90s")
    both.sim.then(f"GET {API}/artist", Step(status))
    both.wake()
    assert notices(both) == [("fatal", "Lidarr refuses our key")]
    both.clock.advance("10m")
    assert both.wake().outcome == "drained"  # it is asked again at every wake
    assert notices(both) == []


@pytest.mark.req("LID-10")
def test_a_depth_that_cannot_be_asked_charges_nobody_and_people_hear_of_it_once(quick: Round) -> None:
    quick.some(2, 0)
    quick.look()
    quick.sim.weather = "starting"
    asked = quick.sent("GET /queue")

    found = quick.wakes(6)

    assert {(each.outcome, each.failed, each.message) for each in found} == {("held", 0, "Lidarr is starting up.")}
    assert [each.failures for each in found] == [1, 2, 3, 4, 5, 6]
    assert quick.sent("GET /queue") - asked == 6  # once in each wake
    assert [each.attempts for each in quick.entries()] == [0, 0]
    assert notices(quick) == [("cap", "Nothing can be sent to Lidarr")]
    quick.sim.weather = "well"
    assert quick.wake().submitted == 2
    assert notices(quick) == []


@pytest.mark.req("LID-10")
@pytest.mark.parametrize("breaker", [True, False])
def test_five_failures_of_the_whole_of_lidarr_hold_the_rest_of_the_wake_uncharged(
    quick_db: Database, breaker: bool
) -> None:
    with Round.opened(quick_db, breaker=breaker) as at:
        at.some(12, 0)
        at.look()
        at.sim.stay(f"GET {API}/artist", Step(500))

        woken = at.wake()

        assert woken.failed == (5 if breaker else 12)
        assert (woken.outcome == "held") is breaker
        assert [each.attempts for each in at.entries()] == [1] * woken.failed + [0] * (12 - woken.failed)


@pytest.mark.req("LID-10")
def test_a_metadata_service_that_is_down_holds_only_what_needs_it(quick: Round) -> None:
    quick.some(1, 1)
    quick.sim.inside.put_artist("artist-0", "Nina")
    quick.clock.advance("10s")
    quick.look()  # his album is there, and nobody watches it
    for n in range(1, 31):
        quick.artist(f"artist-{n}")
    quick.look()
    quick.jobs.submit.enqueue(submission(quick, quick.albums["album-0-0"]))
    quick.sim.weather = "metadata down"
    asked = quick.sent("GET /artist")

    woken = quick.wake()

    assert (woken.outcome, woken.failed, woken.submitted) == ("held", 5, 1)  # then its own breaker opens
    assert woken.message == "The metadata service behind Lidarr is down."
    assert quick.queue.target("lidarr").explain() == []
    assert sum(each.attempts for each in quick.entries()) == 5
    assert (quick.sent("GET /artist") - asked, quick.sent("GET /artist/lookup")) == (5, 5)
    assert quick.sim.inside.album_of("album-0-0")["monitored"]  # type: ignore[index]
    quick.sim.weather = "well"
    quick.clock.advance("10m")
    assert quick.wake().submitted == 30


@pytest.mark.req("LID-10")
@pytest.mark.req("LID-13")
def test_a_metadata_service_that_is_down_for_hours_gives_nothing_up(quick: Round) -> None:
    quick.some(20, 0)
    quick.look()
    quick.sim.weather = "metadata down"

    found = quick.wakes(60)

    assert {each.outcome for each in found} == {"held"}
    assert sum(each.attempts for each in quick.entries()) == 5  # those that opened its breaker
    assert 60 <= quick.sent("GET /artist/lookup") <= 70  # and it is tried in every wake
    quick.sim.weather = "well"
    assert sum(each.submitted for each in quick.wakes(30)) == 20


@pytest.mark.req("LID-10")
def test_an_entry_that_the_metadata_service_always_fails_for_does_not_hold_the_others(quick: Round) -> None:
    quick.some(20, 0)
    quick.look()
    quick.sim.weather = "metadata down"
    quick.wake()
    quick.sim.weather = "well"

    def but_one(asked: Asked) -> Step:
        mbid = asked.query["term"].removeprefix("lidarr:")
        if mbid == "artist-0":
            return Step(503, {"message": "LidarrAPI"})
        return Step(200, [{"artistName": "A", "foreignArtistId": mbid}])

    quick.sim.stay(f"GET {API}/artist/lookup", but_one)

    quick.wakes(20)

    assert [each.musicbrainz_id for each in quick.entries() if each.status != "submitted"] == ["artist-0"]


def submission(at: Round, album: int) -> Submission:
    return Submission("album", album, "ada", "album-0-0", "Title", at.artists["artist-0"], "Nina", "artist-0")


@pytest.mark.req("LID-10")
def test_a_root_folder_that_cannot_be_written_to_holds_everything(quick: Round) -> None:
    quick.some(1, 0)
    quick.look()
    quick.sim.inside.folders[0]["accessible"] = False

    woken = quick.wake()

    assert (woken.outcome, woken.code, woken.failed) == ("held", "root_folder_away", 0)
    assert notices(quick) == [("cap", "Nothing can be sent to Lidarr")]
    quick.sim.inside.folders[0]["accessible"] = True
    assert quick.wake().submitted == 1


# -- when it wakes -----------------------------------------------------------------------------------------------------


async def served(at: Round, seconds: float) -> None:
    """As the server works: all queues, for that long."""
    stop = asyncio.Event()
    working = asyncio.create_task(at.queue.arun_worker(stop=stop))
    await asyncio.sleep(seconds)
    stop.set()
    await working


@pytest.mark.req("LID-05")
def test_the_server_wakes_the_submitter_on_its_interval_and_at_no_other_time(quick: Round) -> None:
    quick.some(3, 0)
    quick.sim.inside.fill(50, lasts=1e6)
    quick.look()
    looked = quick.sent("GET /queue")

    quick.clock.run(served(quick, 1150))

    asked = [each.at for each in quick.sim.asked(f"GET {API}/queue")][looked:]
    looks = len(quick.sim.asked(f"GET {API}/queue")) - looked
    gaps = [round(b - a) for a, b in itertools.pairwise(asked)]
    assert looks == 7, gaps
    assert all(179 <= gap <= 182 for gap in gaps), gaps
    assert quick.queue.explain(quick.entries()[0].id)[0].message.startswith("The queue lidarr is worked on in cycles")


@pytest.mark.req("LID-05")
@pytest.mark.parametrize("missing", [{"base_url": ""}, {"api_key": ""}])
def test_without_an_address_and_a_key_nothing_wakes(quick_db: Database, missing: dict[str, str]) -> None:
    from tidegate import Queue, install
    from tidegate_apps.lidarr.app import app

    clock = VirtualClock()
    with Queue(quick_db.url, clock=clock, inline=True) as queue:
        wanted = {"base_url": "http://127.0.0.1:9", "api_key": "k", **missing}
        there = install(app, queue, Settings.model_validate(wanted))
        there.jobs.submit.enqueue(Submission("artist", 1, "ada", "a", "A"))

        async def main() -> None:
            stop = asyncio.Event()
            working = asyncio.create_task(queue.arun_worker(stop=stop))
            await asyncio.sleep(1200)
            stop.set()
            await working

        clock.run(main())
        assert there.jobs.waker.last() is None
        assert there.queue.get(1).fence == 0


@pytest.mark.req("LID-18")
def test_a_stop_ends_a_wake_between_two_submissions(quick: Round) -> None:
    quick.some(5, 0)
    quick.look()
    quick.sim.weather = "slow"
    stopped = False

    async def main() -> Any:
        nonlocal stopped
        waking = asyncio.create_task(quick.jobs.waker.wake(lambda: stopped))
        while quick.sent("POST /artist") < 2:  # noqa: ASYNC110 - in virtual time
            await asyncio.sleep(1)
        stopped = True
        return await waking

    woken = quick.clock.run(main())

    assert woken.outcome == "stopped"
    assert woken.submitted == quick.sent("POST /artist") < 5
    assert {each.stage for each in quick.entries()} == {"done", "ready"}
    quick.sim.weather = "well"
    assert quick.wake().submitted == 5 - woken.submitted
    assert quick.sent("POST /artist") == 5


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
    assert (entry.status, entry.last_error) == ("failed", "Lidarr took the album, and does not watch it.")
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


def test_a_wake_that_is_under_way_is_said(quick: Round) -> None:
    from tidegate_apps.lidarr.reading import standing

    quick.some(1, 0)
    quick.look()
    seen: list[float | None] = []
    began = quick.clock.now()

    def during(_: Any) -> Step:
        seen.append(standing(quick.there).waking_since)
        return Step(500)

    quick.sim.then(f"POST {API}/artist", during)
    quick.wake()

    assert (seen, standing(quick.there).waking_since) == ([began], None)


def test_a_wake_that_was_killed_is_soon_no_longer_under_way_and_a_long_one_stays_so(quick: Round) -> None:
    from tidegate_apps.lidarr.reading import standing

    quick.some(30, 0)
    quick.look()
    quick.sim.weather = "slow"
    began = quick.clock.now()
    seen: list[float | None] = []

    async def main() -> None:
        waking = asyncio.create_task(quick.jobs.waker.wake())
        for _ in range(2):
            await asyncio.sleep(100)
            seen.append(standing(quick.there).waking_since)
        waking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await waking
        await asyncio.sleep(100)
        seen.append(standing(quick.there).waking_since)

    quick.clock.run(main())

    assert seen == [began, began, None]
