"""A submission that fails: what it costs its entry, when it is tried again, and when it is given up."""

from __future__ import annotations

import contextlib

import apsw
import pytest

from tests.apps.lidarr.building import Round, last_metric, metrics, notices
from tests.databases import Database
from tidegate.testing import Step
from tidegate_apps.lidarr.models import ARTIST_REFUSED

API = "/api/v1"


@pytest.mark.req("LID-10")
@pytest.mark.req("LID-12")
@pytest.mark.req("LID-17")
@pytest.mark.parametrize("answer",
    [
        Step(500), Step(400, [{"errorMessage": "odd"}]), Step(404), Step(422), Step(429), Step(reset=True),
        Step(201, {}, delay="2m"), Step(201, ["odd"]), Step(201, {"id": "x"}),
    ],
)  # fmt: skip
def test_a_failure_is_charged_to_its_entry_and_the_others_go_on(
    quick: Round, answer: Step, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    quick.some(3, 0)
    quick.look()
    quick.sim.then(f"POST {API}/artist", answer)

    woken = quick.wake()
    now = next(each.updated_at for each in quick.entries())

    assert (woken.submitted, woken.failed, woken.remaining) == (2, 1, 1)
    failed = quick.entry("artist", "artist-0")
    assert (failed.status, failed.attempts, failed.terminal_reason) == ("failed", 1, None)
    assert failed.last_error
    assert failed.retry_at is not None
    assert 60 <= failed.retry_at - now < 121
    (said,) = [values for name, values in metrics(caplog) if name == "metric.lidarr.failed"]
    assert said == ("artist", quick.artists["artist-0"], failed.last_error, 1)
    assert last_metric(caplog, "queue_drained") == (2, 1, 1)


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
    assert (album.status, album.terminal_reason, album.last_error) == ("failed", "artist", ARTIST_REFUSED)
    quick.clock.advance("1d")
    assert quick.wake().outcome == "nothing"

    assert quick.queue.retry(entry.id, by="ada")
    album = quick.entry("album", "album-0-0")
    assert (album.stage, album.last_error) == ("blocked", ARTIST_REFUSED)
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
    with contextlib.closing(apsw.Connection(quick_db.url.removeprefix("sqlite:///"))) as died:
        died.execute("update tg_job set attempt = 2, deaths = 2, fence = 2 where queue = 'lidarr'")
    quick.sim.stay(f"POST {API}/artist", Step(500))

    entry = quick.entry("artist", "artist-0")
    for attempt in range(1, 11):
        quick.wake()
        entry = quick.entry("artist", "artist-0")
        assert (entry.attempts, entry.most_attempts, entry.gave_up) == (attempt, 10, attempt == 10)
        assert last_metric(caplog, "failed")[3] == attempt
        if entry.retry_at is not None:
            assert attempt > 1 or round(entry.retry_at - quick.clock.now()) == 90
            quick.clock.advance(entry.retry_at - quick.clock.now())

    assert entry.terminal_reason == "exhausted"
    assert "(HTTP 500)" in (entry.last_error or "")
    assert notices(quick)[-1][0] == "cap"


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
@pytest.mark.req("LID-13")
@pytest.mark.req("LID-17")
@pytest.mark.parametrize(
    ("route", "odd"),
    [
        ("GET /artist", [None]), ("GET /artist/lookup", ["odd"]), ("GET /album", ["odd"]),
        ("PUT /album/monitor", ["odd"]), ("GET /rootfolder", [None]), ("GET /qualityprofile", [7]),
    ],
)  # fmt: skip
def test_an_answer_that_makes_no_sense_is_a_failed_submission_like_any_other(
    quick: Round, route: str, odd: list[object], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    quick.some(1, 1)
    quick.look()
    method, path = route.split()
    quick.sim.stay(f"{method} {API}{path}", Step(200, odd))
    kind = "album" if "album" in route else "artist"
    mbid = "album-0-0" if kind == "album" else "artist-0"
    for attempt in range(1, 11):
        assert quick.wake().failed == 1
        assert last_metric(caplog, "failed")[0::3] == (kind, attempt)
        entry = quick.entry(kind, mbid)
        assert entry.attempts == attempt
        quick.clock.advance("61m")

    assert quick.entry(kind, mbid).terminal_reason == "exhausted"
    assert quick.wake().outcome == "nothing"


@pytest.mark.req("LID-01")
@pytest.mark.req("LID-02")
def test_a_failed_row_stays_failed_while_lidarr_is_full_although_its_time_has_come(both: Round) -> None:
    both.some(1, 0)
    both.look()
    both.sim.then(f"POST {API}/artist", Step(500))
    both.wake()
    due = both.entry("artist", "artist-0").retry_at
    both.sim.inside.fill(50, lasts=6000)
    both.clock.advance("5m")

    for _ in range(2):
        assert both.wake().outcome == "full"
        entry = both.entry("artist", "artist-0")
        assert (entry.status, entry.attempts, entry.retry_at) == ("failed", 1, due)
