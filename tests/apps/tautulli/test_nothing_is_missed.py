"""Plays that a sync could miss: rows that come late, rows that are deleted while it reads, clocks that are wrong."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from tests.apps.tautulli.building import DAY, HOUR, Desk, sqlite, starts
from tidegate_apps.tautulli.client import EmptyHistory
from tidegate_apps.tautulli.guarded_client import SyncStopped
from tidegate_apps.tautulli.sync import first_day


@pytest.mark.parametrize("hours", [-12, 0, 14])
def test_days_of_tautulli_are_its_own_and_no_zone_hides_a_play(tmp_path: Path, hours: int) -> None:
    zone = timezone(timedelta(hours=hours))
    with Desk.opened(sqlite(tmp_path), {"zone": zone, "rows": 300}) as desk:
        desk.syncing().run()
        for _ in range(14):  # over more than a day, so that midnight passes in every zone
            desk.clock.advance(2 * HOUR)
            desk.sim.play(1)
            assert desk.syncing().run().new == 1
        assert set(desk.counted().values()) == {314}


def test_a_row_that_is_dated_in_the_future_makes_no_gap(quick: Desk) -> None:
    future = int(quick.clock.now() + 40 * DAY)
    quick.sim.play(1, started=future, date=future)
    quick.run()
    last = datetime.fromtimestamp(quick.clock.now(), UTC).date()
    for _ in range(10):  # nobody syncs for ten days
        quick.clock.advance(DAY)
        quick.sim.play(1)
    before = quick.sim.calls()
    assert quick.run()[0].state == "done"
    assert set(quick.counted().values()) == {611}
    assert [asked["after"] for asked in starts(quick)[before:]] == [str(last - timedelta(days=1))]


@pytest.mark.parametrize(("days", "looks"), [(10, 2), (100, 3)])
def test_a_play_that_began_long_before_it_came_is_found_by_a_look_farther_back(
    desk: Desk, days: int, looks: int
) -> None:
    desk.syncing().run()
    began = int(desk.clock.now() - days * DAY)
    desk.sim.play(1, started=began, date=began)
    desk.sim.play(2)
    before = desk.sim.calls()
    assert desk.syncing().run().new == 3
    assert set(desk.counted().values()) == {603}
    today = datetime.fromtimestamp(desk.clock.now(), UTC).date()
    newest = datetime.fromtimestamp(desk.sim.history.started(599), UTC).date()
    days_asked = [asked.get("after") for asked in starts(desk)[before:] if asked["start"] == "0"]
    assert days_asked == [str(newest - timedelta(days=1)), str(today - timedelta(days=30)), None][:looks]

    # Once is enough: the next sync is a small one.
    before = desk.sim.calls()
    assert desk.syncing().run().new == 0
    assert desk.sim.calls() == before + 1


def test_a_row_that_is_nowhere_to_be_found_is_looked_for_once(quick: Desk) -> None:
    quick.syncing().run()
    quick.sim.play(1, row_id=None, id=None, state="playing")
    looked = quick.syncing().run()
    assert (looked.new, looked.passed_over) == (0, 3)
    before = quick.sim.calls()
    assert quick.syncing().run().pages == quick.sim.calls() - before == 1


def test_a_sync_that_broke_off_is_no_reason_to_look_farther_back(quick: Desk) -> None:
    quick.syncing().run()
    quick.clock.advance(DAY)
    quick.sim.play(300)
    asked = quick.sim.calls()
    with pytest.raises(SyncStopped):
        quick.syncing(stop=lambda: quick.sim.calls() > asked).run()
    asked = quick.sim.calls()
    assert quick.syncing().run().new > 0
    assert {each["after"] for each in starts(quick)[asked:]} == {str(first_day(quick.state, quick.clock.now()))}
    assert set(quick.counted().values()) == {900}


def test_rows_that_are_deleted_while_it_reads_hide_no_others(quick: Desk) -> None:
    def deletes() -> bool:
        """Before the second page, and before the third."""
        calls = quick.sim.calls()
        if calls == 1:
            quick.sim.remove(*range(10))
        elif calls == 4:
            quick.sim.remove(*range(300, 330))
        return False

    quick.syncing(stop=deletes).run()
    assert {row[0] for row in quick.rows()} == set(range(1, 601))  # what is stored is kept
    assert set(quick.counted().values()) == {600}
    assert [int(asked["start"]) for asked in starts(quick)] == [0, 200, 0, 200, 400, 170, 370]


def test_a_history_that_is_deleted_while_it_is_read_is_not_taken_for_its_end(quick: Desk) -> None:
    def deletes() -> bool:
        if quick.sim.calls() == 1:
            quick.sim.remove_all()
        return False

    with pytest.raises(EmptyHistory):
        quick.syncing(stop=deletes).run()
    assert set(quick.counted().values()) == {200}


@pytest.mark.req("BRK-10")
def test_rows_that_tautulli_counts_and_does_not_send_are_no_reason_to_fail(tmp_path: Path) -> None:
    with Desk.opened(sqlite(tmp_path), {"half": 2}) as desk:
        assert desk.run()[0].state == "done"
        assert (desk.state.outcome, set(desk.counted().values())) == ("synced", {600})
        before = desk.sim.calls()
        desk.sim.play(1)
        assert desk.run()[0].state == "done"
        assert set(desk.counted().values()) == {601}
        assert {each["after"] for each in starts(desk)[before:]} == {str(first_day(desk.state, desk.clock.now()))}


def test_pages_that_come_slowly_but_in_time_are_good_ones(quick: Desk) -> None:
    quick.sim.next("slow")
    job, _ = quick.run()
    assert (job.state, len(quick.rows())) == ("done", 600)
    assert quick.breaker.totals["failure"] == 0
    assert quick.fresh.stale_since is None
