"""What durable jobs cost and what a kill does: Tidegate beside other queues.

Queues take turns in each round, and medians count. A rate is that of the job bodies, from the first to the last, so
that the start of a worker is left out. CPU is that of the workers and the servers together.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from bench.peers import servers, version
from bench.peers.queue_jobs import MARK, SLEEP
from tools import comparison, figures, why_not

ONE, SLEEPING, STARTS, KILLED, KILLS = 1_000, 4_000, 60, 2_000, 10
DRAIN_SECONDS, STUCK_SECONDS = 30.0, 60.0
AT_ONCE = 3  # kill tests at a time: they count outcomes, not time
MODES = frozenset({"one", "two", "sleep"})
Results = defaultdict[str, list[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """*module* is one of queue_libraries; *package* its distribution."""

    name: str
    module: str
    package: str
    store: str
    jobs: int  # of a drain
    copies: int = 1  # processes of the mode "two": 1 where a worker starts its own
    bulk: bool = False  # whether one call can put in many
    modes: frozenset[str] = MODES

    @property
    def title(self) -> str:
        bold = "**Tidegate**" if self.package == "tidegate" else f"{self.name} {version(self.package)}"
        return f"{bold}, {self.store}"


def _library(name: str, store: str, jobs: int, **more: Any) -> Library:
    return Library(name=name, module=f"{name.lower()}_jobs", package=name.lower(), store=store, jobs=jobs, **more)


LIBRARIES = [
    _library("Tidegate", "SQLite", 10_000, copies=2, bulk=True),
    _library("Huey", "SQLite", 10_000),
    _library("Tidegate", "PostgreSQL", 10_000, copies=2, bulk=True),
    _library("pgqueuer", "PostgreSQL", 10_000, copies=2, bulk=True),
    _library("Procrastinate", "PostgreSQL", 2_000, copies=2, bulk=True),
    _library("Huey", "Redis", 10_000),
    _library("Celery", "Redis", 2_000),
    _library("RQ", "Redis", 2_000, bulk=True, modes=MODES - {"sleep"}),
    _library("SAQ", "Redis", 5_000),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kills:
    """What became of *jobs*; *landed* counts the kills that came while some had run and some had not."""

    jobs: int
    lost: int  # never run, and not in the store
    twice: int  # run more than once
    stuck: int  # never run, and still in the store
    landed: int


@dataclass(slots=True)
class Peer:
    """One queue with a store and a folder of its own."""

    library: Library
    servers: servers.Servers
    folder: Path
    number: int
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def database(self) -> str:
        return f"peer_{self.number}"

    @property
    def marks_file(self) -> Path:
        return self.folder / "marks"

    def empty(self) -> None:
        """A new store without a job, and no marks."""
        for path in self.folder.iterdir():
            path.unlink()
        self.environment = {
            **os.environ, "PEERS_MARKS": str(self.marks_file), "PEERS_STORE": self.library.store,
            "PEERS_SQLITE": str(self.folder), "PYTHONUNBUFFERED": "1",
        }  # fmt: skip
        if self.library.store == "PostgreSQL":
            self.environment["PEERS_POSTGRES"] = self.servers.emptied(self.database)
        if self.library.store == "Redis":
            self.environment["PEERS_REDIS"] = f"redis://127.0.0.1:{self.servers.redis_port}/{self.number}"
        self.client("setup")

    def client(self, *said: object) -> Any:
        with self.log.open("a") as log:
            done = subprocess.run(
                self.command(*said), env=self.environment, stdout=subprocess.PIPE, stderr=log, text=True, check=False
            )
        for line in done.stdout.splitlines():
            if line.startswith("JSON "):
                return json.loads(line.removeprefix("JSON "))
        raise RuntimeError(f"{self.library.title}: {said} failed: {self.log_end()}")

    def command(self, *said: object) -> list[str]:
        return [sys.executable, "-m", "bench.peers.queue_client", self.library.module, *map(str, said)]

    @property
    def log(self) -> Path:
        return self.folder.with_suffix(".log")

    def log_end(self) -> str:
        return self.log.read_text(errors="replace")[-800:]

    def fill(self, kind: str, first: int, count: int) -> float | None:
        """Jobs a second, where one call can put in many."""
        seconds = self.client("many" if self.library.bulk else "one", kind, first, count)["seconds"]
        if self.library.store == "PostgreSQL":
            self.servers.analyze(self.database)
        return count / float(seconds) if self.library.bulk else None

    @contextlib.contextmanager
    def workers(self, mode: str) -> Iterator[list[subprocess.Popen[bytes]]]:
        """Workers that are killed at the end, with all their children."""
        copies = self.library.copies if mode == "two" else 1
        with self.log.open("a") as log:
            command, environment = self.command("work", mode), self.environment
            started = [
                subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
                for _ in range(copies)
            ]
        try:
            yield started
        finally:
            for pid in [pid for each in started for pid in tree(each.pid)]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for each in started:
                each.wait()

    def marks(self) -> list[tuple[int, float]]:
        """Number and time of each job body that ran, in the order in which they ended."""
        content = self.marks_file.read_bytes() if self.marks_file.exists() else b""
        return [*MARK.iter_unpack(content[: len(content) // MARK.size * MARK.size])]

    def ran(self) -> int:
        return len({number for number, _ in self.marks()})

    def wait(self, count: int, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end and len(self.marks()) < count:
            time.sleep(0.02)

    def remaining(self) -> int:
        return int(self.client("remaining")["count"])

    def drain(self, mode: str, jobs: int) -> tuple[float, float]:
        """Jobs a second, and microseconds of CPU for each."""
        with self.workers(mode) as started:
            self.wait(1, DRAIN_SECONDS)
            roots = [each.pid for each in started] + list(self.servers.pids)
            first, before = len(self.marks()), spent(roots)
            self.wait(jobs, DRAIN_SECONDS)
            marks = self.marks()
            cpu = spent(roots) - before
        times = sorted(at for _, at in marks)
        if len(times) < 2:
            raise RuntimeError(f"{self.library.title}: no job ran within {DRAIN_SECONDS:g} s: {self.log_end()}")
        lead = SLEEP if mode == "sleep" else 0.0
        return len(times) / (times[-1] - times[0] + lead), 1e6 * cpu / max(1, len(marks) - first)


def tree(pid: int) -> list[int]:
    try:
        return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
    except psutil.NoSuchProcess:
        return []


def spent(roots: list[int]) -> float:
    """CPU seconds of processes and their children, of those that ended, too."""
    total = 0.0
    for pid in {pid for root in roots for pid in tree(root)}:
        with contextlib.suppress(psutil.NoSuchProcess):
            total += sum(psutil.Process(pid).cpu_times()[:4])
    return total


def measure(peer: Peer, found: Results) -> None:
    """Enqueue, drain and wait, once each."""
    library = peer.library
    peer.empty()
    found["one"].append(ONE / peer.client("one", "nothing", 0, ONE)["seconds"])
    if (bulk := peer.fill("nothing", ONE, library.jobs - ONE)) is not None:
        found["bulk"].append(bulk)
    for mode in ("one", "two", "sleep"):
        if mode not in library.modes:
            continue
        jobs = SLEEPING if mode == "sleep" else library.jobs
        if mode != "one":
            peer.empty()
            peer.fill("sleep" if mode == "sleep" else "nothing", 0, jobs)
        rate, cpu = peer.drain(mode, jobs)
        found[f"drain {mode}"].append(rate)
        found[f"cpu {mode}"].append(cpu)


def measure_starts(peer: Peer, found: Results) -> None:
    """Milliseconds from the enqueue in one process to the start in another that is idle."""
    peer.empty()
    with peer.workers("two"):
        time.sleep(5)
        sent = peer.client("one", "nothing", 0, STARTS, 0.2)["sent"]
        peer.wait(STARTS, 15)
    began = dict(reversed(peer.marks()))
    found["starts"] += [1000 * (began[number] - at) for number, at in enumerate(sent) if number in began]


def kill_test(peer: Peer, jobs: int = KILLED) -> Kills:
    """Kills the workers again and again while jobs run, then looks at what is missing."""
    dice, landed = random.Random(11), 0
    peer.empty()
    peer.fill("kill", 0, jobs)
    for _ in range(KILLS):
        before, began = peer.ran(), time.monotonic()
        with peer.workers("default"):
            now = before
            # Until it has done its share; one that does nothing waits for the jobs of a dead one.
            while now < min(before + jobs // (KILLS + 2), jobs) and time.monotonic() - began < 40:
                time.sleep(0.02)
                now = peer.ran()
            time.sleep(dice.uniform(0, 0.1))
        landed += before < peer.ran() < jobs
    if landed < KILLS * 0.8 and jobs == KILLED:  # it was done before the kills were
        return kill_test(peer, 10 * KILLED)
    with peer.workers("default"):
        end = time.monotonic() + STUCK_SECONDS
        while time.monotonic() < end and not (peer.ran() == jobs and peer.remaining() == 0):
            time.sleep(1)
        left = peer.remaining()
    missing = jobs - peer.ran()
    stuck = min(missing, left)
    return Kills(jobs=jobs, lost=missing - stuck, twice=len(peer.marks()) - peer.ran(), stuck=stuck, landed=landed)


def run(rounds: int) -> bool:
    """Prints the tables, and writes them into their pages when asked to; whether every queue could be measured."""
    results: dict[str, Results] = {}
    failed: list[str] = []
    with TemporaryDirectory(prefix="peers-") as name, servers.running() as stores:
        peers = [Peer(library, stores, Path(name) / str(number), number) for number, library in enumerate(LIBRARIES)]
        peers = [peer for peer in peers if peer.library.store != "Redis" or stores.redis_port is not None]
        for peer in peers:
            peer.folder.mkdir()
        results = {peer.library.title: defaultdict(list) for peer in peers}
        for step in [measure] * rounds + [measure_starts]:
            for peer in list(peers):
                say(f"{step.__name__}: {peer.library.title}")
                try:
                    step(peer, results[peer.library.title])
                except RuntimeError as error:  # the others are still worth a table
                    failed.append(f"{peer.library.title} is left out: {error}")
                    say(failed[-1])
                    peers.remove(peer)
                    del results[peer.library.title]
        say(f"kill tests, {AT_ONCE} at a time")
        with ThreadPoolExecutor(AT_ONCE) as pool:
            kills = dict(zip(results, pool.map(kill_test, peers), strict=True))
    for block, markdown in (
        ("queues", rate_table(results)),
        ("queue-starts", start_table(results)),
        ("queue-kills", kill_table(kills)),
        ("job-cost", cost_table(results)),
    ):
        print(f"{markdown}\n")
        if figures.asked():
            figures.write(block, markdown)
    if figures.asked():
        comparison.write()
        why_not.write()
    return not failed


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def cell(values: list[float], unit: str = "") -> str:
    return f"{statistics.median(values):,.0f}{unit}" if values else "-"


def rate_table(results: dict[str, Results]) -> str:
    columns = ("one", "bulk", "drain one", "drain two", "drain sleep")
    rows = [
        (title, *(cell(found[column]) for column in columns), cell(found["cpu one"], " us"))
        for title, found in results.items()
    ]
    head = ["queue", "enqueue one", "bulk", "drain, one process", "drain, two", "sleep 50 ms", "CPU of a drain"]
    return figures.table(head, rows)


def start_table(results: dict[str, Results]) -> str:
    rows = []
    for title, found in results.items():
        starts = sorted(found["starts"])
        rows.append((title, f"{statistics.median(starts):.1f} ms", f"{starts[int(len(starts) * 0.95)]:.0f} ms"))
    return figures.table(["queue", "start, median", "start, 95 %"], rows)


def kill_table(kills: dict[str, Kills]) -> str:
    rows = [(title, f"{k.jobs:,}", f"{k.landed} of {KILLS}", k.lost, k.twice, k.stuck) for title, k in kills.items()]
    return figures.table(["queue", "jobs", "kills amid jobs", "lost", "twice", "stuck"], rows)


def cost_table(results: dict[str, Results]) -> str:
    """Tidegate's own rows, as the page about scaling uses them."""
    what = {"one": "enqueue one by one", "drain one": "drain, one process", "drain two": "drain, two processes"}
    rows = []
    for title, found in results.items():
        if "Tidegate" in title:
            store = title.partition(", ")[2]
            rows += [(store, name, cell(found[column], " jobs/s")) for column, name in what.items()]
            rows.append((store, "CPU of a drained job, worker and server", cell(found["cpu one"], " us")))
    return figures.table(["store", "what", "found"], rows, left=2)
