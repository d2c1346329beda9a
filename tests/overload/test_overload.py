"""After a dip the service gets back what it can bear, and what was held meanwhile does not kill it again.

All numbers are those that nobody gave: a target with `breaker=True`, workers with 20 jobs at the same time. They are
more than the service can bear: ten of them have 200 calls under way, which is two seconds of its work.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.overload.course import Course
from tests.overload.gateway import TOLERATED
from tests.overload.measuring import Measured, measured
from tests.simulation.planted import changed

# The bug: after the breaker has closed, everything goes at once.
NO_CLIMB = changed("target_moved", ("counts = :counts", "counts = json_remove(:counts, '$.climb')"))
SOON = {0.6: 60.0, 0.9: 120.0}  # seconds from the breaker's closing until all is as before


def small(folder: Path, load: float, **more: object) -> Course:
    """A fifth of the size: 20 calls a second, and two workers."""
    return Course(folder, load, **{"held": 300, "capacity": 20.0, "workers": 2, "most": 900.0, **more})  # type: ignore[arg-type]


def gentle(course: Course) -> Measured:
    """As before soon enough, with no other outage, and with nothing wasted on the way back."""
    found = measured(course)
    assert found.trips == 1, found
    assert found.well_after <= SOON[course.load], found
    assert found.most_offered <= TOLERATED, found
    assert found.failed == 0, found
    # In all, hardly more was asked than there were jobs.
    assert len(course.gateway.calls) <= 1.1 * len(course.gateway.good)
    return found


def drained(found: Measured) -> bool:
    return found.took is not None and found.took <= 1.5 * found.ideal


@pytest.mark.full
def test_after_a_dip_the_backlog_drains_without_another_outage(tmp_path: Path) -> None:
    course = small(tmp_path, 0.6)
    course.play()

    assert drained(gentle(course))


@pytest.mark.long
def test_after_a_dip_at_nearly_all_that_it_can_do_all_is_soon_as_before(tmp_path: Path) -> None:
    course = small(tmp_path, 0.9, most=330.0)  # to drain it would take half an hour
    course.play()

    gentle(course)


@pytest.mark.long
@pytest.mark.parametrize("load", [0.6, 0.9])
def test_twenty_thousand_held_jobs_drain_without_another_outage(load: float, tmp_path: Path) -> None:
    course = Course(tmp_path, load, held=20_000)
    course.play()

    assert drained(gentle(course))


@pytest.mark.long
def test_without_the_climb_the_backlog_brings_the_next_outage(tmp_path: Path) -> None:
    course = small(tmp_path, 0.6, changed=NO_CLIMB, most=330.0)
    course.play()

    found = measured(course)
    assert found.most_offered > TOLERATED
    assert found.failed > 20
    assert found.took is None


def test_a_dip_too_short_for_the_breaker_does_not_become_an_outage(tmp_path: Path) -> None:
    course = small(tmp_path, 0.6, held=0, calm=75.0, dip=4.0)
    course.play()

    found = measured(course)
    assert (found.trips, found.failed) == (0, 0)
    assert found.most_offered <= TOLERATED
    # The usual backoff is 30 s, and what came meanwhile is gone a minute later.
    assert found.took is not None
    assert found.took <= 90
