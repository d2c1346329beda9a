"""Parts of a list are put together without a gap, whatever each of them has looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import pytest

from tidegate.jobs.reports import JobSummary
from tidegate.jobs.search import Effort, SearchPage, SearchPlans, UnionPlan
from tidegate.store.base import Tx

NO_STORE = cast(Tx, None)


def line(id_: int) -> JobSummary:
    return JobSummary(id_, "q", "k", "", "", "done", 0, 0.0, 0.0, 1, 1, None, 1.0)


@dataclass
class Part:
    """Some ids, of which only those are wanted that are in *wanted*; without it all of them."""

    ids: range
    wanted: frozenset[int] | None = None
    looked: int = 0

    def look(self, tx: Any, before: int, n: int, candidates: int) -> SearchPage:
        seen = [id_ for id_ in reversed(self.ids) if id_ < before][: n if self.wanted is None else candidates]
        self.looked += len(seen)
        rows = [line(id_) for id_ in seen if self.wanted is None or id_ in self.wanted][:n]
        floor = seen[-1] if seen and seen[-1] > self.ids[0] else 0
        return SearchPage(rows, max(floor, rows[-1].id) if len(rows) >= n else floor)

    def count(self, tx: Any, n: int, candidates: int) -> tuple[int, int]:
        found = self.look(tx, 10**9, n, candidates)
        return len(found.rows), found.floor


def every(step: int, ids: range) -> frozenset[int]:
    return frozenset(id_ for id_ in ids if id_ % step == 0)


def listed(ways: SearchPlans, most: int) -> list[int]:
    """All of it, in pages."""
    found: list[int] = []
    before = 10**9
    while True:
        page = ways.found(NO_STORE, before, most)
        found += [row.id for row in page.rows]
        if not page.floor:
            return found
        assert page.floor < before
        before = page.floor


@pytest.mark.parametrize("most", [1, 3, 10])
@pytest.mark.parametrize("steps", [(1, 1), (1, 7), (7, 1), (5, 11)])
def test_no_job_is_missing_and_none_comes_twice(most: int, steps: tuple[int, int]) -> None:
    newer, older = range(150, 300), range(1, 200)  # some have ended, some have not, and they overlap
    wanted = [every(step, ids) for step, ids in zip(steps, (newer, older), strict=True)]
    all_wanted = wanted[0] | wanted[1]
    parts = [Part(newer, all_wanted), Part(range(1, 150), None if steps[1] == 1 else all_wanted)]

    found = listed(SearchPlans(Part(range(1, 300), all_wanted), [UnionPlan(parts)], Effort(short=4, long=9)), most)

    assert found == sorted(all_wanted, reverse=True)


def test_what_lies_below_where_a_part_stopped_waits_for_the_next_page() -> None:
    stopped, other = Part(range(100, 200), frozenset({150})), Part(range(1, 50))

    found = UnionPlan([stopped, other]).look(NO_STORE, 10**9, 5, 10)

    assert found == SearchPage([], 190)


def test_the_short_way_is_left_early_and_the_others_are_tried_in_their_order() -> None:
    wanted = every(2, range(1, 30))
    short, first, second = Part(range(1, 1000), wanted), Part(range(1, 900), wanted), Part(range(1, 30), wanted)

    found = SearchPlans(short, [first, second], Effort(short=50, long=100)).found(NO_STORE, 10**9, 10)

    assert [row.id for row in found.rows] == [28, 26, 24, 22, 20, 18, 16, 14, 12, 10]
    assert (short.looked, first.looked) == (50, 50)


def test_when_no_way_is_enough_the_one_that_came_furthest_is_taken() -> None:
    wanted = frozenset({390, 5})
    short, first, second = Part(range(1, 1000), wanted), Part(range(1, 900), wanted), Part(range(1, 400), wanted)

    found = SearchPlans(short, [first, second], Effort(short=50, long=100)).found(NO_STORE, 10**9, 10)

    assert found == SearchPage([line(390)], 300)


def test_a_count_is_exact_as_soon_as_one_way_comes_to_the_end() -> None:
    wanted, effort = every(2, range(1, 30)), Effort(short=50, long=100)
    short, first, second = Part(range(1, 1000), wanted), Part(range(1, 900), wanted), Part(range(1, 30), wanted)

    assert SearchPlans(short, [first, second], effort).counted(NO_STORE, 20) == (14, False)
    assert SearchPlans(short, [first], effort).counted(NO_STORE, 20) == (0, True)
    assert SearchPlans(short, [second], effort).counted(NO_STORE, 10) == (10, True)
