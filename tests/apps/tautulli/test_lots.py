"""A lot of plays is made ready page by page, and says the same as if all of them had come at once."""

from __future__ import annotations

import json
import threading

from tidegate_apps.tautulli.models import HistoryPlay, PlayHistory, play_of
from tidegate_apps.tautulli.store import DAY, PlayBatch, PlayBuffer, PlayTotals, Stored, month_of, week_of
from tidegate_demo.simulators.tautulli import HistoryShape, MadeHistory

MADE = MadeHistory(HistoryShape(rows=1000, until=1_700_000_000, per_day=100))


def rows(first: int, n: int) -> PlayHistory:
    return PlayHistory([MADE.row(place) for place in range(first, first + n)], n, n, 1)


def page(first: int, n: int) -> list[HistoryPlay]:
    return [play for place in range(first, first + n) if (play := play_of(MADE.row(place))) is not None]


def lot_of(*pages: list[HistoryPlay]) -> PlayBatch:
    lot = PlayBatch()
    for each in pages:
        lot.take(each)
    return lot


def test_pages_add_up_to_what_all_of_them_say_at_once() -> None:
    apart, together = lot_of(page(0, 40), [], page(40, 60)), lot_of(page(0, 100))

    assert len(apart) == len(together) == 100
    assert json.loads(apart.table()) == json.loads(together.table())
    assert list(json.loads(apart.table())) == [str(row_id) for row_id in apart.rows()]
    assert sorted(apart.sums.times()) == sorted(together.sums.times())
    assert sorted(apart.sums.tallies()) == sorted(together.sums.tallies())
    assert not apart.twice


def test_a_row_that_comes_twice_is_told_and_the_later_one_counts() -> None:
    first, second = page(0, 10), page(9, 5)
    changed = second[0]._replace(duration=1)
    across, within = lot_of(first, [changed, *second[1:]]), lot_of([*first, changed])

    assert across.twice, "its sums are too high"
    assert not within.twice, "the sums of a page count a row once"
    assert sum(plays for _, plays, _ in within.sums.times()) == 10
    assert (len(across), len(within)) == (14, 10)
    assert across.rows()[changed.row_id] == within.rows()[changed.row_id]
    assert across.rows()[changed.row_id][4] == 1


def test_sums_have_the_week_and_the_month_of_each_day_and_can_be_taken_back() -> None:
    sums = PlayTotals()
    at = 1_700_000_000
    sums.add(1, [(at, 60, "Ada", "Silent Tower", ""), (at + 1, 30, "Ada", "Silent Tower", "Roku")])
    sums.add(-1, [(at, 60, "Ada", "Silent Tower", "")])
    day = at // DAY

    assert list(sums.times()) == [(at // 900, 1, 30)]
    assert set(sums.tallies()) == {
        ("person", "Ada", week_of(day), month_of(at), 1, 30),
        ("show", "Silent Tower", week_of(day), month_of(at), 1, 30),
        ("platform", "unknown", week_of(day), month_of(at), 0, 0),
        ("platform", "Roku", week_of(day), month_of(at), 1, 30),
    }


def test_a_lot_is_written_when_all_of_its_pages_are_ready() -> None:
    """The thread that makes pages ready stands still meanwhile."""
    go, early, written = threading.Event(), threading.Event(), list[int]()

    class Slow(PlayHistory):
        @property
        def plays(self) -> list[HistoryPlay]:
            assert go.wait(60)
            return page(10, 5)

    def write(lot: PlayBatch) -> Stored:
        if written and not go.is_set():
            early.set()
        written.append(len(lot))
        return Stored(new=len(lot))

    with PlayBuffer(write, 10, lambda: 0.0) as gathering:
        gathering.add(rows(0, 10))  # from now on pages are made ready beside the reading
        gathering.add(Slow(rows(10, 5).said, 5, 5, 1))
        gathering.add(rows(15, 5))
        assert not early.wait(0.2)
        go.set()
    assert written == [10, 10]
    assert gathering.stored == Stored(new=20)
