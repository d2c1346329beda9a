"""Worker processes to be killed, paused and stopped. They are forked from a process that has imported all they need."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerProcess

from tests.acceptance.program import Orders, work

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["tests.acceptance.program", "psycopg", "psycopg_pool", "apsw"])


@dataclass
class Stopped:
    """How one stop went."""

    code: int | None
    seconds: float


@dataclass
class Crew:
    """Some worker processes, always as many as there should be."""

    orders: Orders
    size: int
    at_work: list[ForkServerProcess] = field(default_factory=list)
    killed: set[int] = field(default_factory=set)
    paused: dict[int, float] = field(default_factory=dict)  # until when, by process
    unexpected: list[tuple[int, int | None]] = field(default_factory=list)

    def fill(self) -> None:
        """Replaces whoever is gone."""
        for process in [each for each in self.at_work if not each.is_alive()]:
            self.at_work.remove(process)
            if process.pid not in self.killed:
                self.unexpected.append((process.pid or 0, process.exitcode))
        while len(self.at_work) < self.size:
            process = _FORKS.Process(target=work, args=(self.orders,), daemon=True)
            process.start()
            self.at_work.append(process)

    def kill(self, process: ForkServerProcess) -> None:
        assert process.pid is not None
        self.killed.add(process.pid)
        self.paused.pop(process.pid, None)
        process.kill()
        process.join(60)

    def pause(self, process: ForkServerProcess, seconds: float) -> None:
        assert process.pid is not None
        os.kill(process.pid, signal.SIGSTOP)
        self.paused[process.pid] = time.monotonic() + seconds

    def resume(self, *, everybody: bool = False) -> None:
        """Lets those go on whose pause is over."""
        for pid, until in list(self.paused.items()):
            if everybody or time.monotonic() >= until:
                del self.paused[pid]
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def stop(self, process: ForkServerProcess, patience: float) -> Stopped:
        """Asks it to stop, and waits; one that does not is killed."""
        began = time.monotonic()
        process.terminate()
        process.join(patience)
        took = time.monotonic() - began
        if process.is_alive():
            self.kill(process)
            return Stopped(None, took)
        self.at_work.remove(process)
        return Stopped(process.exitcode, took)

    def free(self) -> list[ForkServerProcess]:
        """Those that are neither paused nor gone."""
        return [each for each in self.at_work if each.is_alive() and each.pid not in self.paused]


@contextlib.contextmanager
def crew(orders: Orders, size: int) -> Iterator[Crew]:
    found = Crew(orders, size)
    try:
        found.fill()
        yield found
    finally:
        found.resume(everybody=True)
        for process in found.at_work:
            process.kill()
        for process in found.at_work:
            process.join(60)
