"""A history that an earlier version stored is there after an upgrade, and a sync finds nothing in it that changed."""

from __future__ import annotations

import shutil
from importlib.resources import as_file, files
from pathlib import Path

import pytest

from tests.apps.tautulli.building import Desk
from tests.databases import BOTH, database
from tidegate import Queue
from tidegate.runtime.clock import VirtualClock
from tidegate_apps.tautulli.answers import play_of
from tidegate_apps.tautulli.lots import month_of, week_of
from tidegate_apps.tautulli.simulator import TautulliSimulator

COLUMNS = """row_id, reference_id, started, stopped, duration, paused, user_id, person, platform, product, player,
    media_type, rating_key, show, full_title, year, transcode_decision, percent_complete, watched_status"""
WRITE = f"""
-- name: play
insert into tautulli_play ({COLUMNS}, digest)
values ({", ".join(f":{name.strip()}" for name in COLUMNS.split(","))}, 7);

-- name: tally
insert into tautulli_tally (kind, grain, at, name, plays, seconds) values (:kind, :grain, :at, :name, 1, :seconds);

-- name: time
insert into tautulli_time (width, at, plays, seconds) values (:width, :at, 1, :seconds);

-- name: clock
insert into tautulli_clock (stretch, quarter, plays, seconds) values (:stretch, :quarter, 1, :seconds);

-- name: state
update tautulli_state set row_id = :row_id, started = :started, missing = 0;
"""


def stored_before(url: str, driver: str | None, folder: Path, clock: VirtualClock) -> None:
    """The one row of the simulator, as the version before the last migration would have stored it."""
    with as_file(files("tidegate_apps.tautulli") / "migrations") as all_of_them:
        for name in ("0001_plays.sql", "0002_clock.sql"):
            shutil.copy(all_of_them / name, folder)
    with TautulliSimulator(now=clock.now, rows=1) as sim:
        play = play_of(sim.history.row(0))
    assert play is not None
    day, seconds = play.started // 86400, play.duration
    with Queue(url, driver=driver, clock=clock, inline=True) as queue:
        db = queue.db("tautulli", statements=WRITE, migrations=folder)
        said = play._asdict()
        db.all("play", **{name.strip(): said[name.strip()] for name in COLUMNS.split(",")})
        for width in (900, 3600):
            db.all("time", width=width, at=play.started // width, seconds=seconds)
        db.all("clock", stretch=day // 28, quarter=play.started % 86400 // 900, seconds=seconds)
        grains = {"day": day, "week": week_of(day), "month": month_of(play.started), "all": 0}
        for kind, name in (("person", play.person), ("show", play.show), ("platform", play.platform)):
            for grain, at in grains.items():
                db.all("tally", kind=kind, grain=grain, at=at, name=name, seconds=seconds)
        db.all("state", row_id=play.row_id, started=play.started)


@pytest.mark.parametrize("name", BOTH)
def test_a_stored_history_is_kept_and_counts_as_before(name: str, tmp_path: Path) -> None:
    (folder := tmp_path / "before").mkdir()
    with database(name, tmp_path, fresh=True) as db:
        stored_before(db.url, db.driver, folder, VirtualClock())
        with Desk.opened(db, {"rows": 1}) as desk:
            found = desk.syncing().run()
            assert (found.seen, found.new, found.changed) == (1, 0, 0)
            assert len(desk.rows()) == 1
            assert set(desk.counted().values()) == {1}
            assert desk.top("person", "day") == {}
