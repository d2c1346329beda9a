"""A wake and the room that there is: nothing eligible, a full Lidarr, and what was sent and does not show there yet."""

from __future__ import annotations

import pytest

from tests.apps.lidarr.building import Round, last_metric, metrics
from tests.databases import Database
from tests.text import numbers
from tidegate.testing import Step

API = "/api/v1"


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
    assert numbers(woken.message) == [50, 50]
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
        assert numbers(woken.message) == [2, 5, 3]
        assert last_metric(caplog, "backpressure") == (5, 5, 5)
        assert last_metric(caplog, "queue_drained") == (4, 5, 5)
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
