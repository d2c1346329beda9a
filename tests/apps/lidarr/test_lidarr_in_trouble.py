"""What all of Lidarr suffers from, or the metadata service behind it: entries are held, and lose no attempt."""

from __future__ import annotations

import itertools

import pytest

from tests.apps.lidarr.building import Round, notices
from tests.databases import Database
from tidegate.testing import RecordedRequest, Step
from tidegate_apps.lidarr.models import Submission

API = "/api/v1"


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
    assert [kind for kind, _ in notices(both)] == ["fatal"]
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

    assert {(each.outcome, each.failed) for each in found} == {("held", 0)}
    assert [each.failures for each in found] == [1, 2, 3, 4, 5, 6]
    assert quick.sent("GET /queue") - asked == 6  # once in each wake
    assert [each.attempts for each in quick.entries()] == [0, 0]
    assert [kind for kind, _ in notices(quick)] == ["cap"]
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
    assert quick.queue.target("lidarr").explain() == []  # it is not Lidarr itself that holds them
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

    def but_one(asked: RecordedRequest) -> Step:
        mbid = asked.query["term"].removeprefix("lidarr:")
        if mbid == "artist-0":
            return Step(503, {"message": "LidarrAPI"})
        return Step(200, [{"artistName": "A", "foreignArtistId": mbid}])

    quick.sim.stay(f"GET {API}/artist/lookup", but_one)

    quick.wakes(20)

    assert [each.musicbrainz_id for each in quick.entries() if each.status != "submitted"] == ["artist-0"]


@pytest.mark.req("LID-10")
def test_failures_that_are_never_five_in_a_row_hold_nobody(quick: Round) -> None:
    quick.some(16, 0)
    quick.look()
    answers = itertools.cycle([Step(500), Step(502), Step(500), Step(502), None])
    inside = quick.sim.answers("POST /artist")
    quick.sim.stay(f"POST {API}/artist", lambda asked: next(answers) or inside(asked))

    woken = quick.wake()

    assert (woken.outcome, woken.submitted, woken.failed) == ("drained", 3, 13)


@pytest.mark.req("LID-10")
def test_without_the_breaker_a_metadata_service_that_is_down_fails_each_entry_as_the_origin_does(
    quick_db: Database,
) -> None:
    with Round.opened(quick_db, breaker=False) as at:
        at.some(12, 0)
        at.look()
        at.sim.weather = "metadata down"

        woken = at.wake()

        assert (woken.outcome, woken.failed) == ("drained", 12)
        assert [(each.status, each.attempts) for each in at.entries()] == [("failed", 1)] * 12


def submission(at: Round, album: int) -> Submission:
    return Submission("album", album, "ada", "album-0-0", "Title", at.artists["artist-0"], "Nina", "artist-0")


@pytest.mark.req("LID-10")
def test_a_root_folder_that_cannot_be_written_to_holds_everything(quick: Round) -> None:
    quick.some(1, 0)
    quick.look()
    quick.sim.inside.folders[0]["accessible"] = False

    woken = quick.wake()

    assert (woken.outcome, woken.code, woken.failed) == ("held", "root_folder_away", 0)
    assert [each.attempts for each in quick.entries()] == [0]
    assert [kind for kind, _ in notices(quick)] == ["cap"]
    quick.sim.inside.folders[0]["accessible"] = True
    assert quick.wake().submitted == 1
