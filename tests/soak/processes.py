"""What runs: a server and two workers that are sampled, one that is killed again and again, and the people."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import httpx2
import psutil

from tests.acceptance.pg_server import own_server
from tests.processes import COMMAND
from tests.soak.sampling import DATABASE

ROOT = Path(__file__).parents[2]
KILL_EVERY = 90.0  # seconds
STOP_EVERY = 7  # kills; then a worker that is sampled stands still beyond its lease
STOP_FIRST = 4  # kills with each of which one does: what runs for ever has been in other hands soon, too
STOPPED = 40.0  # seconds
PATIENCE = 600.0  # seconds for the server to start


@dataclass
class Running:
    folder: Path
    url: str
    port: int
    sampled: dict[str, psutil.Process] = field(default_factory=dict)
    people: subprocess.Popen[str] | None = None
    started: list[subprocess.Popen[str]] = field(default_factory=list)
    kills: int = 0
    stops: int = 0
    told: str = ""  # what the people say at the end

    def start(self, name: str, *command: str, **pipes: int) -> subprocess.Popen[str]:
        with self._log(name) as log:
            made = subprocess.Popen(
                command, cwd=self.folder, env=self._environment(), text=True, stderr=log, **({"stdout": log} | pipes)
            )  # type: ignore[call-overload]
        self.started.append(made)
        return made  # type: ignore[no-any-return]

    def dead(self) -> list[str]:
        """Those that have ended by themselves; without people nothing happens, and what does nothing does not grow."""
        ended = [name for name, each in self.sampled.items() if each.status() == psutil.STATUS_ZOMBIE]
        gone = self.people is not None and self.people.poll() is not None
        return [*ended, "people"] if gone else ended

    def break_processes(self, stop: threading.Event) -> None:
        """Kills one worker again and again; now and then another stands still until it has lost its leases."""
        victim = self._victim()
        while not stop.wait(KILL_EVERY):
            victim.kill()
            victim.wait()
            self.kills += 1
            if self.kills <= STOP_FIRST or self.kills % STOP_EVERY == 0:
                self.stops += 1
                worker = self.sampled["worker 2" if self.stops % 2 else "worker 1"]
                worker.send_signal(signal.SIGSTOP)
                stop.wait(STOPPED)
                worker.send_signal(signal.SIGCONT)
            victim = self._victim()

    def _victim(self) -> subprocess.Popen[str]:
        """It takes none of the jobs that run for ever: whoever gets them next would seem to grow."""
        return self.start("victim", COMMAND, "worker", "--queues", "plain,convert,tautulli")

    def end(self) -> None:
        for each in self.started:
            if each.poll() is None:
                each.terminate()
        for each in self.started:
            with contextlib.suppress(subprocess.TimeoutExpired):
                each.wait(40)
            if each.poll() is None:
                each.kill()
                each.wait()

    def _log(self, name: str) -> IO[str]:
        return (self.folder / f"{name.replace(' ', '-')}.log").open("a")

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TIDEGATE_")}
        paths = [str(self.folder), str(ROOT / "src"), str(ROOT)]
        return {**kept, "PYTHONPATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1"}


@contextlib.contextmanager
def running(folder: Path, database: str, *, leaks: bool) -> Iterator[Running]:
    """Everything, up and at work; at the end all of it is stopped."""
    with contextlib.ExitStack() as stack:
        postgres = database == "postgres"
        url = stack.enter_context(own_server()).url if postgres else f"sqlite:///{folder / DATABASE}"
        _announce(folder)
        there = Running(folder, url, _free_port())
        stack.callback(there.end)
        there.people = people = _people(there, leaks=leaks)
        for name, verb in {"server": "serve", "worker 1": "worker", "worker 2": "worker"}.items():
            there.sampled[name] = psutil.Process(there.start(name, COMMAND, verb).pid)
        _answering(f"http://127.0.0.1:{there.port}/health/ready")
        assert people.stdin is not None
        people.stdin.write("begin\n")
        people.stdin.flush()
        stop = threading.Event()
        breaking = threading.Thread(target=there.break_processes, args=(stop,))
        breaking.start()
        try:
            yield there
        finally:
            stop.set()
            breaking.join()
            with contextlib.suppress(subprocess.TimeoutExpired):
                there.told = people.communicate(timeout=60)[0].strip()


def or_all_ends(work: Callable[[], object]) -> None:
    """Does it, in a thread of its own; when that fails the whole process ends, which somebody sees."""
    try:
        work()
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def _people(there: Running, *, leaks: bool) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.soak.people", str(there.folder), there.url, str(there.port)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    people = there.start("people", *command, *(["leak"] if leaks else []), **pipes)
    assert people.stdout is not None
    if people.stdout.readline().strip() != "ready":
        raise RuntimeError((there.folder / "people.log").read_text())
    return people


def _answering(address: str) -> None:
    """Waits for the server; on a machine that has much else to do that may take minutes."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        with contextlib.suppress(httpx2.TransportError):
            if httpx2.get(address).is_success:
                return
        time.sleep(0.5)
    raise RuntimeError(f"{address} does not answer")


def _announce(folder: Path) -> None:
    """The plain application is found as one that is installed."""
    about = folder / "plain-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: plain\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[tidegate.apps]\nplain = tests.soak.application:app\n")


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
