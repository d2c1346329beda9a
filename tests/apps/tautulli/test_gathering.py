"""Plays are stored in lots, while the next are read: none is left out, and none is stored before one that is not."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import count, islice
from pathlib import Path

import pytest

from tests.apps.tautulli.building import Desk
from tests.databases import Database
from tidegate_apps.tautulli.client import TautulliError
from tidegate_apps.tautulli.models import HistoryPlay, PlayHistory, play_of
from tidegate_apps.tautulli.store import PlayBatch, PlayBuffer, Stored
from tidegate_apps.tautulli.sync import Synced
from tidegate_demo.simulators.tautulli import HistoryShape, MadeHistory

MADE, PLACES = MadeHistory(HistoryShape(rows=100_000, until=1_700_000_000, per_day=1000)), count()


def rows(n: int) -> PlayHistory:
    """A page of so many that no other has."""
    return PlayHistory([MADE.row(place) for place in islice(PLACES, n)], n, n, 1)


class Shelf:
    """What was stored, lot by lot, and in which thread; the lot of this number fails."""

    def __init__(self, fails: int = 0) -> None:
        self.lots: list[int] = []
        self.threads: list[int] = []
        self.moment = 0.0
        self._fails = fails

    def write(self, some: PlayBatch) -> Stored:
        self.threads.append(threading.get_ident())
        if len(self.threads) == self._fails:
            raise OSError("no room")
        self.lots.append(len(some))
        return Stored(new=len(some))

    def now(self) -> float:
        return self.moment

    def read(self, *pages: int, end: BaseException | None = None) -> Stored:
        """So many plays on each page, then the end."""
        with PlayBuffer(self.write, 100, self.now) as gathering:
            for page in pages:
                gathering.add(rows(page))
            if end is not None:
                raise end
        return gathering.stored


def test_a_short_sync_is_stored_at_once_and_in_its_own_thread() -> None:
    shelf = Shelf()
    assert shelf.read(40, 40) == Stored(new=80)
    assert shelf.lots == [80]
    assert shelf.threads == [threading.get_ident()]


def test_a_long_one_is_stored_in_lots_while_more_is_read() -> None:
    shelf = Shelf()
    assert shelf.read(*[40] * 6) == Stored(new=240)
    assert shelf.lots == [120, 120]
    assert threading.get_ident() not in shelf.threads


def test_the_plays_of_a_page_are_read_while_the_next_is_fetched_and_rows_that_are_none_are_told() -> None:
    threads = list[int]()

    class Heard(PlayHistory):
        @property
        def plays(self) -> Sequence[HistoryPlay]:
            threads.append(threading.get_ident())
            return [play for row in self.said if (play := play_of(row)) is not None]

    shelf, goes_on = Shelf(), {"row_id": None, "state": "playing"}
    with PlayBuffer(shelf.write, 100, shelf.now) as gathering:
        gathering.add(rows(100))
        gathering.add(Heard([*rows(40).said, goes_on], 41, 41, 1))
        gathering.add(Heard([goes_on], 1, 1, 1))
    assert threads
    assert threading.get_ident() not in threads
    assert (shelf.lots, gathering.plays) == ([100, 40], 140)


def test_plays_of_a_slow_tautulli_do_not_wait_for_a_full_lot() -> None:
    shelf = Shelf()
    with PlayBuffer(shelf.write, 100, shelf.now) as gathering:
        for _ in range(4):
            gathering.add(rows(10))
            shelf.moment += 3
    assert shelf.lots == [30, 10]


def test_what_was_read_is_stored_whatever_ends_the_reading() -> None:
    shelf = Shelf()
    with pytest.raises(KeyboardInterrupt):
        shelf.read(120, 40, end=KeyboardInterrupt())
    assert shelf.lots == [120, 40]


def test_after_a_lot_that_failed_nothing_is_stored() -> None:
    shelf = Shelf(fails=2)
    with pytest.raises(OSError, match="no room"):
        shelf.read(*[60] * 20)
    assert shelf.lots == [120]


def test_lots_bring_the_same_as_pages_and_again_nothing(desk: Desk) -> None:
    assert desk.syncing(lot=250).run() == Synced(new=600, changed=0, seen=600, pages=3)
    assert sorted(row[0] for row in desk.rows()) == list(range(1, 601))
    assert set(desk.counted().values()) == {600}
    assert desk.there.db.all("total")[0][1] == sum(row[3] for row in desk.rows())
    assert (desk.state.row_id, desk.state.started) == (600, desk.sim.history.started(599))
    again = desk.syncing(lot=200).run()
    assert (again.new, again.changed) == (0, 0)


@pytest.mark.req("BRK-10")
@pytest.mark.parametrize("lot", [200, 250, 10_000])
def test_the_watermark_stands_over_every_row_that_was_read_before_an_error(tmp_path: Path, lot: int) -> None:
    found = Database("sqlite-apsw", f"sqlite:///{tmp_path / 'plays.db'}", "apsw")
    with Desk.opened(found, {"rows": 1000}) as desk:
        desk.sim.next("well", "well", "well", "internal")
        with pytest.raises(TautulliError):
            desk.syncing(lot=lot).run()
        assert (desk.state.row_id, desk.state.started) == (600, desk.sim.history.started(599))
        assert set(desk.counted().values()) == {600}
        assert desk.syncing(lot=lot).run().new == 400
        assert set(desk.counted().values()) == {1000}


def test_a_row_that_comes_late_under_an_old_number_is_not_taken_for_new(quick: Desk) -> None:
    quick.sim.play(1, row_id=900, id=900)
    quick.syncing().run()
    quick.sim.play(1, row_id=700, id=700)  # below the watermark, and never seen
    quick.sim.play(1, row_id=900, id=900)  # seen before, and what it says has changed
    found = quick.syncing().run()
    assert (found.new, found.changed) == (1, 1)
    assert set(quick.counted().values()) == {602}


def test_a_row_that_comes_twice_in_a_lot_counts_once(quick: Desk) -> None:
    quick.sim.play(1, row_id=5, id=5)  # on the last page, and on the first
    assert quick.syncing().run().new == 600
    assert set(quick.counted().values()) == {600}
