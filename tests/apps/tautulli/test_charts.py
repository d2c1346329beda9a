"""The charts and the lists beside them: the same plays in both, by the days and hours of this machine."""

from __future__ import annotations

import time
from collections import Counter
from datetime import date, timedelta
from functools import partial
from pathlib import Path

import pytest

from tests.apps.tautulli.building import Desk
from tests.databases import Database
from tidegate_apps.tautulli.charts import RANGES, charts


def test_every_chart_adds_up_to_the_plays_of_its_time(desk: Desk) -> None:
    desk.run()
    counted = Counter(row[5] for row in desk.rows())
    best = sorted(counted.items(), key=lambda each: (-each[1], each[0]))[:10]
    now = desk.clock.now()
    for name, chosen in RANGES.items():
        found = desk.there.db.read(partial(charts, chosen=chosen, now=now))
        assert sum(bar.plays for bar in found.days) == sum(bar.plays for bar in found.hours) == found.total
        assert sum(bar.seconds for bar in found.days) == found.seconds
        assert len(found.hours) == 24
        for leaders in found.tops.values():
            assert 0 < len(leaders) <= 10
            assert [each.plays for each in leaders] == sorted((each.plays for each in leaders), reverse=True)
        if name == "7d":
            assert 0 < found.total < 600
        else:
            assert (found.total, [(each.name, each.plays) for each in found.tops["person"]]) == (600, best)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Asia/Kathmandu"])
def test_days_and_hours_are_those_of_this_machine_through_every_change_of_its_clocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zone: str
) -> None:
    db = Database("sqlite-apsw", f"sqlite:///{tmp_path / 'plays.db'}", "apsw")
    with Desk.opened(db, {"per_day": 3, "rows": 1000}) as desk:  # most of a year
        desk.run()
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        try:
            found = desk.there.db.read(partial(charts, chosen=RANGES["all"], now=desk.clock.now()))
            moments = [time.localtime(row[1]) for row in desk.rows()]
        finally:
            monkeypatch.undo()
            time.tzset()
    assert [bar.plays for bar in found.hours] == [sum(then.tm_hour == hour for then in moments) for hour in range(24)]
    mondays = Counter(date(*then[:3]) - timedelta(days=then.tm_wday) for then in moments)
    shown = {bar.label: bar.plays for bar in found.days if bar.plays}
    assert shown == {f"week of {monday:%-d %b %Y}": n for monday, n in sorted(mondays.items())}


@pytest.mark.parametrize("zone", ["UTC", "America/Los_Angeles", "Pacific/Auckland", "Asia/Kolkata"])
def test_lists_count_the_same_plays_as_the_charts_beside_them(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, zone: str
) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        today = date(*time.localtime(desk.clock.now())[:3])
        begins = {name: chosen.first(today) for name, chosen in RANGES.items()}
        midnights = {name: time.mktime((*day.timetuple()[:8], -1)) for name, day in begins.items() if day is not None}
        for midnight in midnights.values():  # on both sides of it, and of midnight in UTC
            for hours in range(-15, 16, 2):
                at_ = int(midnight) + hours * 3600
                desk.sim.play(1, started=at_, date=at_, platform="" if hours % 3 else "Roku")
        desk.run()
        for name, chosen in RANGES.items():
            found = desk.there.db.read(partial(charts, chosen=chosen, now=desk.clock.now()))
            rows = [row for row in desk.rows() if row[1] >= midnights.get(name, 0)]
            assert found.total == len(rows)
            assert {each.name: (each.plays, each.seconds) for each in found.tops["platform"]} == {
                platform: (len(some), sum(some))
                for platform in {row[7] or "unknown" for row in rows}
                for some in [[row[3] for row in rows if (row[7] or "unknown") == platform]]
            }
            most = Counter(row[5] for row in rows)
            for leader in found.tops["person"]:
                assert leader.plays == most[leader.name]
            assert sum(leader.plays for leader in found.tops["person"]) == sum(n for _, n in most.most_common(10))
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata", "Asia/Kathmandu", "America/St_Johns"])
def test_a_play_minutes_from_midnight_counts_for_the_day_and_the_hour_on_the_wall(
    quick: Desk, monkeypatch: pytest.MonkeyPatch, zone: str
) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        today = time.localtime(quick.clock.now())
        for days in range(1, 4):
            midnight = int(time.mktime((*today[:2], today[2] - days, 0, 0, 0, 0, 0, -1)))
            for minutes in (-50, -40, -20, -10, 5, 10, 20, 35, 50):
                quick.sim.play(1, started=midnight + 60 * minutes, date=midnight + 60 * minutes)
        quick.run()
        found = quick.there.db.read(partial(charts, chosen=RANGES["7d"], now=quick.clock.now()))
        moments = [time.localtime(row[1]) for row in quick.rows()]
    finally:
        monkeypatch.undo()
        time.tzset()
    by_day = Counter(f"{date(*then[:3]):%a %-d %b %Y}" for then in moments)
    assert [bar.plays for bar in found.days] == [by_day[bar.label] for bar in found.days]
    labels = {bar.label for bar in found.days}
    shown = Counter(then.tm_hour for then in moments if f"{date(*then[:3]):%a %-d %b %Y}" in labels)
    assert [bar.plays for bar in found.hours] == [shown[hour] for hour in range(24)]


def test_days_weeks_and_months_without_a_play_have_their_place(quick: Desk) -> None:
    quick.run()
    for days, unit in ((60, "day"), (200, "week"), (900, "month")):
        later = quick.clock.now() + days * 86400
        found = quick.there.db.read(partial(charts, chosen=RANGES["all"], now=later))
        assert (found.unit, sum(bar.plays for bar in found.days)) == (unit, 600)
        labels = [bar.label for bar in found.days]
        assert len(set(labels)) == len(labels)
        assert found.days[-1].plays == 0
