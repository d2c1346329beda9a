"""What is too old goes in the wakes, and what was given up stays for people to see."""

from __future__ import annotations

import pytest

from tests.apps.lidarr.building import Round, notices
from tests.text import numbers
from tidegate.testing import Step

API = "/api/v1"


@pytest.mark.req("LID-16")
def test_submitted_rows_go_after_a_week_and_given_up_ones_stay_for_a_month(both: Round) -> None:
    both.some(2, 0)
    both.look()
    both.sim.inside.paths_taken.add("artist-0")
    both.wake()
    assert [each.status for each in both.entries()] == ["failed", "submitted"]
    assert both.badge("artist", 1)[0] == "Gave up"  # type: ignore[index]

    both.clock.advance("6d")
    both.wake()
    assert len(both.entries()) == 2
    both.clock.advance("2d")
    assert both.wake().outcome == "nothing"  # in the wake itself, whether or not there is something to send
    assert [each.status for each in both.entries()] == ["failed"]
    assert both.status("artist", 2) == "monitored"  # what Lidarr said of it stays true
    both.clock.advance("20d")
    both.wake()
    assert len(both.entries()) == 1
    both.clock.advance("3d")
    both.wake()

    assert both.entries() == []
    assert (both.status("artist", 1), both.badge("artist", 1)) == (None, None)
    assert both.look().queued == 1


@pytest.mark.req("LID-13")
def test_people_hear_of_what_was_given_up_and_the_retry_puts_it_back(quick: Round) -> None:
    quick.some(1, 1)
    quick.look()
    quick.sim.then(f"POST {API}/artist", Step(400, [{"errorCode": "ArtistPathValidator"}]))
    quick.wake()
    assert [(kind, numbers(title)) for kind, title in notices(quick)] == [("cap", [1])]
    assert quick.status("album", 1) == "gave_up"
    quick.clock.advance("2h")

    quick.queue.retry(quick.entry("artist", "artist-0").id, by="ada")
    woken = quick.wake()

    assert woken.submitted == 2
    assert quick.status("album", 1) == "monitored"


def test_a_job_that_somebody_has_removed_leaves_no_badge(quick: Round) -> None:
    quick.some(1, 0)
    quick.look()
    quick.sim.inside.unknown.add("artist-0")
    quick.wake()
    quick.queue.forget(quick.entry("artist", "artist-0").id)

    quick.wake()

    assert (quick.entries(), quick.badge("artist", 1), quick.status("artist", 1)) == ([], None, None)


def test_a_job_that_a_person_has_cancelled_says_so(quick: Round) -> None:
    quick.some(1, 0)
    quick.look()
    quick.queue.cancel(quick.entry("artist", "artist-0").id)
    quick.wake()

    entry = quick.entry("artist", "artist-0")
    assert (entry.status, entry.terminal_reason, entry.gave_up) == ("failed", "cancelled", False)
    assert quick.badge("artist", 1) is None
