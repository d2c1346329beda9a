"""A lane after failures of jobs that were under way at the same time."""

from __future__ import annotations

import pytest

from tests.unit.guard.scene import Answered, down
from tidegate import Target, classify
from tidegate.faults.fault import Fault
from tidegate.targets import key_health
from tidegate.targets.table import StoredKeyHealth

RULES = Target("mail", "jobs").for_jobs()


def fault(error: Exception) -> Fault:
    found = classify(error)
    assert found is not None
    return found


def after(*errors: Exception) -> StoredKeyHealth:
    """The row after failures one second apart, of jobs that all began before the first of them."""
    row = key_health.fresh("mail", "", 0.0)
    for second, error in enumerate(errors, start=1):
        row = key_health.record_failure(row, RULES, fault(error), claimed_at=0.5, now=float(second), roll=0.5).row
    return row


def test_a_late_retry_after_holds_for_the_time_asked_and_counts_no_further_failure() -> None:
    row = after(down(), Answered(429, {"Retry-After": "600"}))

    assert (row.reason, row.until, row.failures) == ("retry_after", 602.0, 1)
    assert row.code == fault(Answered(429)).code


def test_a_late_failure_that_asks_for_nothing_changes_nothing() -> None:
    assert after(down(), down()) == after(down())


@pytest.mark.parametrize("first", [Answered(401), Answered(429, {"Retry-After": "900"})])
def test_a_late_retry_after_shortens_no_other_hold(first: Exception) -> None:
    assert after(first, Answered(429, {"Retry-After": "600"})) == after(first)
