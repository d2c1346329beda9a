"""A look that Lidarr keeps from its end goes on later by itself, and the page says so."""

from __future__ import annotations

import pytest

from tests.apps.lidarr.building import Round
from tests.databases import Database
from tests.text import numbers
from tests.web.local import LocalClient
from tidegate.faults.codes import CORE
from tidegate.testing import RecordedRequest, Step
from tidegate.web.app import build
from tidegate.web.site import Site
from tidegate_apps.lidarr.service import LastScan, submit_status

API = "/api/v1"
AWAY = "Lidarr is starting up."


def last_scan(at: Round) -> LastScan:
    found = submit_status(at.there).look
    assert found is not None
    return found


@pytest.mark.parametrize("force", [True, False])
def test_a_look_while_lidarr_is_away_goes_on_by_itself_and_the_page_says_when(quick: Round, force: bool) -> None:
    quick.some(1, 0)
    web = LocalClient(
        build(Site(queue=quick.queue, apps=(quick.there,))), client=("127.0.0.1", 50000), base_url="http://localhost"
    )
    quick.sim.weather = "starting"

    assert quick.look_job(force=force) == "queued"

    said, began = submit_status(quick.there).as_json(), last_scan(quick).at
    assert said["last_look"] == {"at": began, "looked": 0, "found": 0, "queued": 0, "message": AWAY}
    assert (said["looking_since"], said["look_goes_on_at"]) == (None, pytest.approx(began + 300, abs=0.5))
    page = web.get("/lidarr").text
    assert AWAY in page
    assert 'id="looking"' in page
    quick.sim.weather = "well"
    assert quick.look_job(force=force) == "queued"  # not before its time
    quick.clock.advance("5m")
    assert quick.look_job(force=force) == "done"
    assert submit_status(quick.there).look == (began, 1, 0, 1, "")
    assert submit_status(quick.there).looking is None


def test_what_was_seen_before_a_look_ended_is_kept_and_not_asked_for_again(quick: Round) -> None:
    quick.some(20, 0)
    quick.sim.then(f"GET {API}/artist", *[Step(200, [], delay="1s") for _ in range(10)], Step(401))

    assert quick.look_job(force=True) == "queued"

    kept = len(quick.entries())
    assert 10 <= kept < 20
    assert last_scan(quick).message == CORE["unauthorized"].message
    asked = quick.sent("GET /artist")
    quick.clock.advance("5m")
    assert quick.look_job(force=True) == "done"
    assert quick.sent("GET /artist") - asked == 20 - kept
    assert len(quick.entries()) == 20
    assert last_scan(quick)[1:] == (20, 0, 20, "")


def test_many_that_lidarr_fails_for_in_a_row_never_keep_a_look_from_the_rest(quick: Round) -> None:
    quick.some(40, 0)
    bad = {f"artist-{n}" for n in range(12)}

    def answered(asked: RecordedRequest) -> Step:
        return Step(500) if asked.query["mbId"] in bad else Step(200, [])

    quick.sim.stay(f"GET {API}/artist", answered)
    states = [quick.look_job()]
    while states[-1] != "done" and len(states) < 9:
        quick.clock.advance("5m")
        states.append(quick.look_job())

    assert states == ["queued", "queued", "done"]
    assert {each.musicbrainz_id for each in quick.entries()} == set(quick.artists) - bad
    said = last_scan(quick).message
    assert numbers(said) == [12]


def test_without_a_lidarr_a_look_that_was_to_go_on_ends(quick_db: Database) -> None:
    with Round.opened(quick_db) as at:
        at.some(1, 0)
        at.sim.weather = "starting"
        assert at.look_job() == "queued"
        then = at.clock
    with Round.opened(quick_db, clock=then, base_url="") as at:
        then.advance("5m")
        assert at.look_job() == "done"
        assert at.calls() == 0
