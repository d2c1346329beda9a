"""A rolling deploy under fire: the next version migrates the database while workers of this one are at work.

The next version is a copy of the source with one more migration.
"""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import apsw
import psycopg

from tests.acceptance.checker import rows
from tests.chaos.copies import tidegate
from tests.chaos.crew import Crew, Seat
from tests.chaos.orders import Orders

_SOURCE = Path(__file__).parents[2] / "src"
_BETWEEN = 1.5  # seconds between two workers that are replaced
_STARTED_AFTER = 15.0  # seconds, on a slow machine
_AGAIN = 0.5  # seconds between two tries to migrate
_MIGRATION = "-- Of a version that does not exist.\nalter table tg_job add column of_version_{n} integer;\n"

Until = Callable[[float, Callable[[], None]], None]


def make_version(n: int, folder: Path) -> Path:
    """The source of a version with *n* more migrations than this one."""
    source = folder / f"version-{n}"
    shutil.copytree(_SOURCE, source, dirs_exist_ok=True)
    steps = source / "tidegate" / "store" / "migrations"
    last = max(int(file.name[:4]) for file in steps.glob("[0-9]*.sql"))
    for each in range(1, n + 1):
        (steps / f"{last + each:04}_version_{each}.sql").write_text(_MIGRATION.format(n=each))
    return source


@dataclass
class Rollout:
    """The versions of one run."""

    url: str
    orders: Orders
    crew: Crew
    until: Until
    over: threading.Event
    done: int = 0
    replaced: int = 0  # outdated workers that were asked to stop
    _migrating: threading.Thread | None = None
    _old: list[Seat] = field(default_factory=list)
    _migrated: bool = False

    def begin(self) -> bool:
        """False while the one before is not over."""
        if self._migrating is not None:
            return False
        version = self.crew.version + 1
        self.crew.environment = {"PYTHONPATH": str(make_version(version, Path(self.orders.folder)))}
        self.crew.version = version
        self._migrating = threading.Thread(target=self._migrate, daemon=True)
        self._migrating.start()
        return True

    def tend(self) -> None:
        """Once the schema is new, replaces the old workers one after another."""
        if self._migrating is None or not self._migrated:
            return
        try:
            newest = int(rows(self.url, "select coalesce(max(id), 0) from tg_job")[0][0])
        except (apsw.Error, psycopg.Error):
            return
        old = [seat for seat in self.crew.workers if seat.process and seat.version < self.crew.version]
        with self.orders.outdated.open("a") as file:
            file.writelines(f"{seat.process.pid} {newest}\n" for seat in old if seat.process)
        for i, seat in enumerate(old, 1):
            self.until(_BETWEEN * i, lambda seat=seat, process=seat.process: self._replace(seat, process))  # type: ignore[misc]
        if self.crew.enqueuer.version < self.crew.version:
            self.crew.kill(self.crew.enqueuer)  # it puts nothing in any more, and would be spared for that
        self.done += 1
        self._migrating, self._migrated = None, False

    def _replace(self, seat: Seat, process: subprocess.Popen[bytes]) -> None:
        if seat.process is process and seat.free:
            # One that still starts knows no signals yet.
            (self.crew.stop if time.monotonic() - seat.started > _STARTED_AFTER else self.crew.kill)(seat)
            self.replaced += 1

    def _migrate(self) -> None:
        while not self.over.is_set():
            try:
                tidegate("db", "migrate", "--db", self.url, environment=self.crew.environment)
            except (RuntimeError, subprocess.SubprocessError):
                time.sleep(_AGAIN)  # the database is full, away or starting
            else:
                self._migrated = True
                return
