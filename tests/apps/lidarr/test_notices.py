"""What people hear of wakes that could not do their work, and when they hear that it is over."""

from __future__ import annotations

import itertools

import pytest

from tests.apps.lidarr.building import Round, notices
from tests.databases import Database
from tidegate.testing import Step

API = "/api/v1"
KEY = "fatal"  # Lidarr refuses our key
NOTHING = "cap"  # it takes nothing, wake after wake


def kinds(at: Round) -> list[str]:
    return [kind for kind, _ in notices(at)]


@pytest.mark.req("LID-10")
def test_a_wake_that_the_breaker_holds_does_not_say_that_lidarr_takes_entries_again(quick: Round) -> None:
    quick.some(12, 0)
    quick.look()
    quick.sim.then(f"GET {API}/artist", Step(401))
    quick.wake()
    assert kinds(quick) == [KEY]
    quick.sim.stay(f"GET {API}/artist", Step(500))

    held = [quick.wake() for _ in range(2)]  # one opens the breaker, and one finds it open

    assert [(each.outcome, each.failed, each.submitted) for each in held] == [("held", 5, 0), ("held", 0, 0)]
    assert [each.failures for each in held] == [2, 3]
    assert kinds(quick) == [KEY]
    quick.sim.reset()
    quick.clock.advance("2h")
    assert quick.wake().submitted == 12
    assert notices(quick) == []


@pytest.mark.req("LID-10")
@pytest.mark.parametrize("breaker", [True, False])
def test_a_lidarr_that_takes_nothing_for_five_wakes_is_told_whatever_it_answers(
    quick_db: Database, breaker: bool
) -> None:
    with Round.opened(quick_db, breaker=breaker, submit_interval="2h") as at:
        at.some(8, 0)
        at.look()
        answers = itertools.cycle([Step(500), Step(502), Step(reset=True)])
        at.sim.stay(f"POST {API}/artist", lambda _: next(answers))

        heard = []
        for _ in range(7):
            at.wakes(1)
            heard.append(kinds(at))

        assert heard == [[]] * 4 + [[NOTHING]] * 3
        at.sim.reset()
        assert at.wakes(1)[0].submitted > 0
        assert notices(at) == []


@pytest.mark.req("LID-10")
def test_what_is_wrong_with_one_entry_alone_is_no_trouble_of_lidarr(quick_db: Database) -> None:
    with Round.opened(quick_db, submit_interval="2h") as at:
        at.some(1, 0)
        at.look()
        at.sim.stay(f"POST {API}/artist", Step(400, [{"errorMessage": "odd"}]))

        assert [each.failures for each in at.wakes(6)] == [0] * 6
        assert notices(at) == []


def test_a_metadata_service_that_stays_away_is_told_once_nothing_has_gone_for_five_wakes(quick: Round) -> None:
    quick.some(10, 0)
    quick.look()
    quick.sim.weather = "metadata down"

    found = quick.wakes(6)

    assert [each.failures for each in found] == [1, 2, 3, 4, 5, 6]
    assert kinds(quick) == [NOTHING]
    quick.sim.weather = "well"
    assert sum(each.submitted for each in quick.wakes(10)) == 10
    assert notices(quick) == []


def test_a_trouble_that_somebody_must_end_is_told_although_another_was_before(quick: Round) -> None:
    quick.some(2, 0)
    quick.look()
    quick.sim.weather = "starting"
    quick.wakes(5)
    told = advice(quick)

    quick.sim.weather = "well"
    quick.sim.inside.folders[0]["accessible"] = False
    quick.wakes(2)

    assert kinds(quick) == [NOTHING]
    assert advice(quick) != told
    assert "disk" in advice(quick)


def advice(at: Round) -> str:
    """Of the one that is open."""
    db = at.queue.db("heard", statements="-- name: advice\nselect advice from tg_notice where ended_at is null;")
    ((found,),) = db.all("advice")
    return str(found)


def test_a_stop_leaves_open_what_was_known_of_lidarr(quick: Round) -> None:
    quick.some(2, 0)
    quick.look()
    quick.sim.weather = "starting"
    quick.wakes(5)
    quick.sim.weather = "well"

    stopped = quick.clock.run(quick.jobs.waker.run_cycle(lambda: True))

    assert stopped is not None
    assert (stopped.outcome, stopped.submitted, stopped.failures) == ("stopped", 0, 5)
    assert kinds(quick) == [NOTHING]
