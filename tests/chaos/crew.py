"""The processes of a run: `tidegate worker` four times, and the enqueuer; replaced as soon as they are gone."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.clocks import Clock
from tests.chaos.orders import CALLED, LEAVES, NAME, NUMBERS, THE_ENQUEUER
from tests.processes import COMMAND
from tidegate.cli.exits import Exit

_ROOT = Path(__file__).parents[2]
WORKER = (COMMAND, "worker", "tests.chaos.program:q", "--concurrency", "6")
ENQUEUER = (sys.executable, "-m", "tests.chaos.enqueuer")
# Seconds after which a stop is over, by the worker's own numbers; and what a loaded machine may add.
_LONGEST_STOP = NUMBERS["grace"] * 1.25 + 2.0 + 180.0
_OF_A_JOB = (LEAVES, -signal.SIGSEGV)
# Of a worker that is started while its database cannot be reached, or has no room: whoever starts it tries again.
_NO_DATABASE = (Exit.UNREACHABLE, Exit.CONFIGURATION)


@dataclass
class Seat:
    """A place for one process, with the clock of its machine."""

    name: str
    command: Sequence[str]
    clock: Clock | None
    log: Path
    process: subprocess.Popen[bytes] | None = None
    paused_until: float | None = None
    killed: bool = False
    started: float = 0.0
    version: int = 0

    @property
    def free(self) -> bool:
        return self.process is not None and self.process.poll() is None and self.paused_until is None


@dataclass
class Crew:
    """All seats, and those who were asked to leave."""

    orders: Path
    workers: list[Seat]
    enqueuer: Seat
    started: Sequence[Seat] = ()  # the workers, also after they were asked to leave
    leaving: list[tuple[subprocess.Popen[bytes], float]] = field(default_factory=list)
    stops: Counter[int] = field(default_factory=Counter)  # by exit code
    not_started: int = 0  # workers
    starts: int = 0  # of workers
    wrong: list[str] = field(default_factory=list)
    closing: bool = False
    closed: bool = False  # nobody is started for now
    version: int = 0  # of whoever is started next
    environment: dict[str, str] = field(default_factory=dict)  # of that version

    @property
    def seats(self) -> list[Seat]:
        return [*self.workers, *([] if self.closing else [self.enqueuer])]

    def tend(self) -> None:
        """Wakes those whose pause is over, and replaces those who are gone."""
        now = time.monotonic()
        for seat in self.seats:
            if seat.paused_until is not None and now >= seat.paused_until:
                self.wake(seat)
            if seat.process is not None and seat.process.poll() is not None:
                self._ended(seat)
            if seat.process is None and now - seat.started > 0.5 and not self.closed:
                self._start(seat)
        for process, until in list(self.leaving):
            if process.poll() is not None:
                if process.returncode not in _OF_A_JOB:
                    self.stops[process.returncode] += 1
                    if process.returncode:
                        self._note("killed", process)
                self.leaving.remove((process, until))
            elif now > until:
                self._kill(process)
                self.wrong.append(f"a stop comes to its end: process {process.pid} had to be killed")
                self.leaving.remove((process, until))

    def _start(self, seat: Seat) -> None:
        named = {name: value for name, value in os.environ.items() if not name.startswith("TIDEGATE_")}
        named |= {NAME: str(self.orders), CALLED: seat.name, **({} if seat.clock is None else seat.clock.environment)}
        named |= self.environment
        with seat.log.open("ab") as log:
            seat.process = subprocess.Popen(seat.command, cwd=_ROOT, env=named, stdout=log, stderr=log)
        seat.killed, seat.started, seat.version = False, time.monotonic(), self.version
        self.starts += seat is not self.enqueuer

    def _ended(self, seat: Seat) -> None:
        assert seat.process is not None
        code = seat.process.returncode
        of_a_job = code in _OF_A_JOB and seat is not self.enqueuer
        if not of_a_job and not seat.killed:
            if code in _NO_DATABASE and seat is not self.enqueuer:
                self.not_started += 1
            else:
                self.wrong.append(f"{seat.name} ends only when it is told to: code {code}, see {seat.log}")
        seat.process = seat.paused_until = None

    def _note(self, what: str, process: subprocess.Popen[bytes]) -> None:
        with (self.orders.parent / f"{what}.txt").open("a") as file:
            file.write(f"{process.pid}\n")

    def _kill(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        if process.wait() not in _OF_A_JOB:  # of a job: it was gone by then
            self._note("killed", process)

    def free(self) -> list[Seat]:
        """Workers that are neither paused nor gone."""
        return [seat for seat in self.workers if seat.free]

    def pids(self) -> list[int]:
        return [seat.process.pid for seat in self.seats if seat.process is not None]

    def kill(self, seat: Seat) -> None:
        if seat.process is not None:
            seat.killed = True
            self._kill(seat.process)
            seat.process = seat.paused_until = None

    def pause(self, seat: Seat, seconds: float) -> None:
        self.signal(seat, signal.SIGSTOP)
        if seat.process is not None:
            self._note("paused", seat.process)
        seat.paused_until = time.monotonic() + seconds

    def wake(self, seat: Seat) -> None:
        self.signal(seat, signal.SIGCONT)
        seat.paused_until = None

    def signal(self, seat: Seat, number: signal.Signals) -> None:
        if seat.process is not None:
            seat.process.send_signal(number)

    def stop(self, seat: Seat) -> None:
        """Asks it to end; nobody waits for it."""
        assert seat.process is not None
        seat.process.terminate()
        self.leaving.append((seat.process, time.monotonic() + _LONGEST_STOP))
        seat.process = None

    def close(self) -> None:
        """Kills everybody; nobody is started until it is open again."""
        self.closed = True
        for seat in self.seats:
            self.kill(seat)
        for process, _ in self.leaving:
            self._kill(process)
        self.leaving.clear()

    def no_more_jobs(self) -> None:
        self.kill(self.enqueuer)
        self.closing = True

    def leave(self) -> None:
        """Everybody is asked to; nobody is replaced."""
        for seat in self.free():
            self.stop(seat)
        self.workers.clear()


@contextlib.contextmanager
def crew(orders: Path, clocks: Sequence[Clock | None], enqueuers: Clock | None, logs: Path) -> Iterator[Crew]:
    workers = [Seat(f"worker-{i}", WORKER, clock, logs / f"worker-{i}.log") for i, clock in enumerate(clocks, 1)]
    found = Crew(orders, [*workers], Seat(THE_ENQUEUER, ENQUEUER, enqueuers, logs / "enqueuer.log"), started=workers)
    try:
        found.tend()
        yield found
    finally:
        for seat in (*found.workers, found.enqueuer):
            found.kill(seat)
        for process, _ in found.leaving:
            process.kill()
            process.wait()
