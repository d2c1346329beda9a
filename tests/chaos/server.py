"""A PostgreSQL whose disk can be full, and whose wall clock can be stepped."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.acceptance.pg_server import Server
from tests.chaos.clocks import Clock, clock_library
from tests.chaos.disks import SmallDisk, small_disk

_SIZE = "1g"  # the copies are put back on it, too
_SETTINGS = "min_wal_size = '4MB'\nmax_wal_size = '16MB'\n"
FULL = "No space left on device"
_AGAIN = 1.0  # seconds between two tries to start it


@dataclass
class ServerUnderFire:
    """A server, and what can be done to it beside a crash."""

    server: Server
    words: Path  # what it says: on a disk that is never full
    disk: SmallDisk | None
    clock: Clock | None
    why_no_clock: str = ""
    full: bool = False
    revived: int = 0  # times that somebody had to start it again
    _tried: float = 0.0

    def fill(self) -> None:
        assert self.disk is not None
        self.disk.fill(())
        self.full = True

    def free(self) -> None:
        assert self.disk is not None
        self.disk.free(())
        self.full = False

    def tend(self) -> None:
        """Starts it when it has given up for want of room, as an operator does who has made some."""
        if self.full or self.server.running or time.monotonic() - self._tried < _AGAIN:
            return
        self._tried = time.monotonic()
        with contextlib.suppress(subprocess.SubprocessError):  # the next time, then
            self.server.crash_and_restart()
            self.revived += 1

    def said(self, what: str) -> int:
        """How often it has."""
        return self.words.read_text(errors="replace").count(what)


@contextlib.contextmanager
def server_under_fire(*, mount: bool = True) -> Iterator[ServerUnderFire]:
    # Short: the name of its socket is limited to about a hundred bytes. Open: it runs as a user of its own.
    place = Path(tempfile.mkdtemp(prefix="tidegate-pg-"))
    place.chmod(0o755)
    try:
        with small_disk(place / "data", mount=mount, size=_SIZE) as disk:
            server = Server(place / "data", _SETTINGS, small_log=True)
            try:
                library, why = clock_library(place)
                clock = None if library is None else Clock(library, place / "clock")
                server.environment = {} if clock is None else clock.environment
                server.words = place / "words"
                server.words.touch()
                server.words.chmod(0o666)
                server.crash_and_restart()
                small = disk if isinstance(disk, SmallDisk) else None
                yield ServerUnderFire(server, server.words, small, clock, why)
            finally:
                server.stop()
    finally:
        shutil.rmtree(place, ignore_errors=True)
