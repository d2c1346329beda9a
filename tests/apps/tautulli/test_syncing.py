"""The sync of the history: what it asks for, what it stores, and how far it says that it is."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.apps.tautulli.building import HOUR, Desk, sqlite, starts
from tidegate_apps.tautulli.client import EmptyHistory
from tidegate_apps.tautulli.guarded_client import SyncStopped
from tidegate_apps.tautulli.store import SyncState
from tidegate_apps.tautulli.sync import Doubtful, Synced, first_day


def test_all_of_it_comes_page_by_page_and_each_play_counts_once(desk: Desk) -> None:
    assert desk.syncing().run() == Synced(new=600, changed=0, seen=600, pages=3)
    assert [asked["start"] for asked in starts(desk)] == ["0", "200", "400"]
    assert {(asked["length"], asked["order_dir"], asked.get("after")) for asked in starts(desk)} == {
        ("200", "asc", None)
    }
    assert sorted(row[0] for row in desk.rows()) == list(range(1, 601))
    assert set(desk.counted().values()) == {600}
    assert (desk.state.row_id, desk.state.started) == (600, desk.sim.history.started(599))


def test_the_next_sync_asks_for_a_day_more_than_it_has_and_finds_only_what_is_new(desk: Desk) -> None:
    desk.syncing().run()
    before = len(starts(desk))
    again = desk.syncing().run()
    assert (again.new, again.changed) == (0, 0)
    assert 0 < again.seen < 200
    newest = datetime.fromtimestamp(desk.state.started or 0, UTC).date()
    assert [asked["after"] for asked in starts(desk)[before:]] == [str(newest - timedelta(days=1))]

    desk.sim.play(3)
    third = desk.syncing().run()
    assert (third.new, third.changed) == (3, 0)
    assert set(desk.counted().values()) == {603}
    assert desk.state.row_id == 603


def test_a_row_that_changes_is_stored_anew_and_leaves_no_trace_in_the_numbers(desk: Desk) -> None:
    desk.sim.play(1, friendly_name="Zoe", play_duration=100)
    desk.syncing().run()
    assert desk.rows()[-1][5] == "Zoe"
    desk.sim.change(friendly_name="Yan", play_duration=5000)
    assert desk.syncing().run().changed == 1

    assert desk.rows()[-1][5] == "Yan"
    top = desk.top("person", "all")
    assert "Zoe" not in top
    assert top["Yan"] == 1
    assert set(desk.counted().values()) == {601}
    assert desk.there.db.all("total")[0][1] == sum(row[3] for row in desk.rows())


def test_a_play_that_began_before_the_newest_and_ended_after_it_is_found_by_the_overlap(quick: Desk) -> None:
    quick.sim.play(1)
    quick.syncing().run()
    long_ago = int(quick.clock.now() - 20 * HOUR)
    quick.sim.play(1, started=long_ago, date=long_ago, stopped=int(quick.clock.now()))
    assert quick.syncing().run().new == 1
    assert quick.state.row_id == 602
    assert (quick.state.started or 0) > long_ago  # the watermark does not go back


def test_the_watermark_never_goes_back_over_rows_that_were_seen_before(tmp_path: Path) -> None:
    with Desk.opened(sqlite(tmp_path), {"per_day": 300, "rows": 900}) as desk:
        desk.syncing().run()
        before = desk.state
        asked = desk.sim.calls()
        with pytest.raises(SyncStopped):  # after one page of the overlap, whose rows are older
            desk.syncing(stop=lambda: desk.sim.calls() > asked).run()
        assert (desk.state.row_id, desk.state.started) == (before.row_id, before.started)


@pytest.mark.parametrize(
    ("started", "after"),
    [
        (None, None),
        (1_700_000_000, date(2023, 11, 13)),  # the 14th in UTC
        (4_000_000_000, date(2023, 11, 13)),  # the clock was set back
    ],
)
def test_the_first_day_is_one_before_that_of_the_newest_row(started: int | None, after: date | None) -> None:
    assert first_day(SyncState(row_id=1, started=started), 1_700_000_000) == after


def test_what_broke_off_goes_on_where_it_was(desk: Desk) -> None:
    with pytest.raises(SyncStopped):
        desk.syncing(stop=lambda: desk.sim.calls() >= 2).run()
    assert set(desk.counted().values()) == {400}
    newest = desk.state.started
    assert newest == desk.sim.history.started(399)
    rest = desk.syncing().run()
    assert rest.new == 200
    assert rest.seen < 400
    assert set(desk.counted().values()) == {600}


@pytest.mark.parametrize("state", ["internal", "cut", "cut_whole", "login", "resets", "nothing", "database"])
def test_the_watermark_stands_over_rows_that_were_seen_whatever_comes_instead_of_a_page(
    quick: Desk, state: str
) -> None:
    quick.sim.next("well", state)
    with pytest.raises(Exception):  # noqa: B017, PT011 - test_client says which
        quick.syncing().run()
    assert (quick.state.row_id, quick.state.started) == (200, quick.sim.history.started(199))
    assert quick.state.synced_at is None
    assert quick.syncing().run().new == 400


@pytest.mark.req("BRK-10")
def test_an_empty_success_where_there_were_rows_is_looked_at_twice(desk: Desk) -> None:
    desk.syncing().run()
    desk.sim.remove_all()
    before = desk.state
    with pytest.raises(Doubtful):
        desk.syncing().run()
    desk.clock.advance(29)
    with pytest.raises(Doubtful):
        desk.syncing().run()
    assert desk.sim.calls("status") == 0
    desk.clock.advance(1)

    assert desk.syncing().run() == Synced()  # believed: its database is sound
    assert desk.sim.calls("status") == 1
    assert desk.syncing().run().pages == 1  # and not doubted again
    assert (desk.state.row_id, desk.state.started) == (before.row_id, before.started)
    assert set(desk.counted().values()) == {600}  # what was stored is kept
    desk.sim.play(1, row_id=601, id=601)
    assert desk.syncing().run().new == 1
    assert (desk.state.empty_at, desk.state.empty_believed) == (None, 0)


@pytest.mark.req("BRK-10")
def test_a_database_that_fails_behind_a_success_is_never_believed(quick: Desk) -> None:
    quick.syncing().run()
    quick.sim.now("database")
    with pytest.raises(Doubtful):
        quick.syncing().run()
    for _ in range(3):
        quick.clock.advance(60)
        with pytest.raises(EmptyHistory):
            quick.syncing().run()
    assert quick.state.row_id == 600
    quick.sim.now("well")
    assert quick.syncing().run().seen > 0
    assert quick.state.empty_at is None


def test_an_old_tautulli_that_cannot_check_its_database_is_believed_at_the_second_look(tmp_path: Path) -> None:
    with Desk.opened(sqlite(tmp_path), {"old": True}) as desk:
        desk.syncing().run()
        desk.sim.remove_all()
        with pytest.raises(Doubtful):
            desk.syncing().run()
        desk.clock.advance(30)
        assert desk.syncing().run() == Synced()


def test_a_tautulli_that_never_had_rows_is_simply_new(tmp_path: Path) -> None:
    with Desk.opened(sqlite(tmp_path), {"rows": 0}) as desk:
        assert desk.syncing().run() == Synced(pages=1)
        assert (desk.state.row_id, desk.state.started) == (0, None)
        desk.sim.now("database")
        assert desk.syncing().run() == Synced(pages=1)
        desk.sim.now("well")
        desk.sim.play(2)
        assert desk.syncing().run().new == 2


def test_two_syncs_at_once_count_nothing_twice(desk: Desk) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(3) as pool:
        found: list[Any] = list(pool.map(lambda _: desk.syncing().run(), range(3)))
    assert sum(each.new for each in found) == 600
    assert set(desk.counted().values()) == {600}


def test_rows_of_streams_that_go_on_are_passed_over(quick: Desk) -> None:
    quick.sim.play(1, row_id=None, id=None, state="playing")
    quick.sim.play(1)
    found = quick.syncing().run()
    assert (found.seen, found.new, found.passed_over) == (602, 601, 1)
    assert quick.state.started == int(quick.clock.now()) - 60


def test_a_row_that_no_calendar_has_does_not_stop_the_others(desk: Desk) -> None:
    desk.sim.play(1, started=10**13, date=10**13)
    desk.sim.play(1, started=-5, date=0)
    desk.sim.play(1, stopped=10**14)
    assert desk.run()[0].state == "done"
    assert set(desk.counted().values()) == {601}
    assert desk.rows()[-1][2] is None
