"""What changes in a database that was put back."""

from __future__ import annotations

import pytest

from tests.store.jobs import Jobs
from tidegate.jobs import restore
from tidegate.store.base import Tx
from tidegate.targets import breaker, table
from tidegate.targets.breaker import StoredBreaker


@pytest.mark.parametrize("forgotten", [False, True])
def test_numbers_given_after_the_copy_was_made_are_not_given_again(jobs: Jobs, forgotten: bool) -> None:
    """Those of the copy are 1 and 2; whoever worked on may have come far beyond."""
    last = [jobs.one(), jobs.one()][-1]
    if forgotten:
        jobs.cancel(last)
        jobs.forget(last)
    jobs.store.write(lambda tx: restore.restored(tx, jobs.store.dialect))
    first = jobs.one()
    jobs.store.write(lambda tx: restore.restored(tx, jobs.store.dialect))  # and another copy is put back

    assert first > last + restore.JUMP - 2
    assert jobs.one() > first + restore.JUMP - 2


def test_open_breakers_are_tried_by_a_few_and_what_they_counted_for_ever_is_kept(jobs: Jobs) -> None:
    def prepare(tx: Tx) -> None:
        rows, now = table.lock_targets(tx, ["shut", "well"])
        counted = StoredBreaker(totals=(5, 3, 1), run=3)
        table.put_breaker(tx, "shut", rows["shut"].breaker, breaker.force_open(counted, now or 0, None, "ada"))
        table.put_breaker(tx, "well", rows["well"].breaker, counted)

    jobs.store.write(prepare)
    jobs.clock.advance(60)
    jobs.store.write(lambda tx: restore.restored(tx, jobs.store.dialect))

    shut, well = jobs.store.read(table.targets)
    assert (shut.breaker.state, shut.breaker.since, shut.breaker.until) == ("half-open", jobs.clock.now, None)
    assert (shut.breaker.by, shut.breaker.generation) == (None, 2)
    assert shut.breaker.totals == well.breaker.totals == (5, 3, 1)
    assert shut.breaker.transitions == (("closed", "open", 1), ("open", "half-open", 1))
    assert (well.breaker.state, well.breaker.generation) == ("closed", 0)
