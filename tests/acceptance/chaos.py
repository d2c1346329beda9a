"""Kills, pauses and stops worker processes at random moments while they work, then asks the checker.

    python -m tests.acceptance.chaos --db sqlite:////tmp/chaos.db --kills 100 --pauses 5

The seed is printed; with it the same moments are drawn again.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from tests.acceptance.checker import Verdict, check, integrity, rows
from tests.acceptance.crew import Crew, Stopped, crew
from tests.acceptance.planted import PLANTS
from tests.acceptance.program import Effect, Orders, Program
from tidegate.errors import StoreError

_BATCH = 20
_OPEN = "select count(*) from tg_job where state not in ('done', 'failed', 'cancelled')"
_AT_WORK = "select pid from tg_worker"


@dataclass(frozen=True)
class Plan:
    """What is done to the workers. Leases are short, so that a run does not take all day."""

    url: str
    kills: int = 0
    pauses: int = 0
    stops: int = 0
    restarts: int = 0  # of the database
    workers: int = 4
    lease: float = 8.0
    every: float = 0.1  # seconds between two blows, on average
    longest: float = 0.06  # seconds that a job takes at most
    backlog: int = 400
    seed: int = 0
    plant: str = ""
    jobs: int = 0  # as many are put in, however slow the machine is
    patience: float = 120.0  # seconds that the last jobs may take
    direct: str = ""  # the URL past a pooler, where *url* goes through one

    @property
    def checked_at(self) -> str:
        """The URL for the checker, which uses no code of ours."""
        return self.direct or self.url

    @property
    def numbers(self) -> dict[str, Any]:
        return {
            "lease": self.lease, "renew_every": self.lease / 4, "margin": self.lease / 4, "sweep_every": 0.3,
            "poll_every": 0.3, "grace": 30.0,
        }  # fmt: skip


@dataclass
class Run:
    """How it went."""

    verdict: Verdict
    seconds: float = 0.0
    stops: list[Stopped] = field(default_factory=list)
    kills: int = 0
    pauses: int = 0
    wrong: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return self.verdict.ok and not self.wrong and all(stop.code == 0 for stop in self.stops)

    def __str__(self) -> str:
        told = [f"{self.seconds:.0f} s, {self.kills} kills, {self.pauses} pauses, {len(self.stops)} stops"]
        if self.stops:
            slowest = max(stop.seconds for stop in self.stops)
            codes = sorted({str(stop.code) for stop in self.stops})
            told.append(f"the slowest stop took {slowest:.2f} s, exit codes: {', '.join(codes)}")
        return "\n".join([*told, str(self.verdict), *(f"BROKEN {each}" for each in self.wrong)])


class Feeder:
    """Puts jobs in as long as the chaos lasts, so that there is always something to do."""

    def __init__(self, program: Program, plan: Plan) -> None:
        self._program, self._plan = program, plan
        self._next = 0
        self.put: set[int] = set()

    def feed(self) -> None:
        """Tops up; what the database did not answer to is put in again, and is the same job."""
        with contextlib.suppress(StoreError, psycopg.Error):
            for _ in range(0, self._plan.backlog - still_open(self._plan.checked_at), _BATCH):
                batch = [_effect(n, self._plan.longest) for n in range(self._next, self._next + _BATCH)]
                for i, kind in enumerate(self._program.kinds):
                    mine = [each for each in batch if each.n % 2 == i]
                    self.put.update(job.id for job in kind.enqueue_many([(each,) for each in mine]))
                self._next += _BATCH

    @contextlib.contextmanager
    def feeding(self) -> Iterator[None]:
        enough = threading.Event()

        def run() -> None:
            while not enough.wait(0.05):
                self.feed()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            yield
        finally:
            enough.set()
            thread.join()


def _effect(n: int, longest: float) -> Effect:
    # Drawn from its own number: a batch that is put in twice is the same batch.
    dice = random.Random(n)
    return Effect(n, lasts=dice.random() * longest, stumbles=dice.random() < 0.05)


def still_open(url: str) -> int:
    return int(rows(url, _OPEN)[0][0])


def rampage(plan: Plan, folder: Path, restart: Callable[[], None] = lambda: None) -> Run:
    """One run; *restart* crashes the database and starts it again."""
    dice = random.Random(plan.seed)
    orders = Orders(
        url=plan.url, effects=str(folder / "effects.txt"), log=str(folder / "workers.log"), numbers=plan.numbers,
        plant=plan.plant,
    )  # fmt: skip
    Path(orders.effects).touch()
    program = Program(orders)
    assert not program.q.store.read(lambda tx: tx.query("newest"))[0][0], "the database is not empty"
    feeder = Feeder(program, plan)
    feeder.feed()
    run = Run(Verdict())
    began = time.monotonic()
    with crew(orders, plan.workers) as people:
        with feeder.feeding():
            for blow in _blows(plan, dice):
                time.sleep(dice.expovariate(1 / plan.every))
                people.resume()
                people.fill()
                if blow == "restart":
                    restart()
                else:
                    _strike(blow, plan, people, dice, run)
            while len(feeder.put) < plan.jobs:
                time.sleep(0.05)
                people.fill()
        _finish(plan, people, run)
        # A paused worker may hold a lock that all the others wait for, and no heart beats without a database.
        strict = not (plan.pauses or plan.restarts or plan.plant)
        gone = people.killed if strict else None
        run.verdict = check(plan.checked_at, Path(orders.effects), put=feeder.put, gone=gone)
        run.wrong += [f"a worker ends only when it is told to: {pid}, code {code}" for pid, code in people.unexpected]
    run.wrong += [f"the file is sound: {each}" for each in integrity(plan.checked_at)]
    run.seconds = time.monotonic() - began
    program.q.close()
    return run


def _blows(plan: Plan, dice: random.Random) -> list[str]:
    blows = ["kill"] * plan.kills + ["pause"] * plan.pauses + ["stop"] * plan.stops + ["restart"] * plan.restarts
    dice.shuffle(blows)
    return blows


def _strike(blow: str, plan: Plan, people: Crew, dice: random.Random, run: Run) -> None:
    while not (free := [each for each in people.free() if blow == "kill" or each.pid in _at_work(plan.checked_at)]):
        time.sleep(0.02)
        people.resume()
        people.fill()
    victim = dice.choice(free)
    match blow:
        case "kill":
            people.kill(victim)
            run.kills += 1
        case "pause":
            people.pause(victim, plan.lease * (1.1 + dice.random()))
            run.pauses += 1
        case "stop":
            run.stops.append(people.stop(victim, plan.numbers["grace"] + 60))
    people.fill()


def _at_work(url: str) -> set[int]:
    return {pid for (pid,) in rows(url, _AT_WORK)}


def _finish(plan: Plan, people: Crew, run: Run) -> None:
    """Until every job has ended, or has had time enough to."""
    end = time.monotonic() + plan.patience
    while time.monotonic() < end:
        people.resume()
        people.fill()
        with contextlib.suppress(StoreError, psycopg.Error):
            if not people.paused and not still_open(plan.checked_at):
                return
        time.sleep(0.1)
    run.wrong.append(f"all jobs finish: {still_open(plan.checked_at)} are still open after {plan.patience:g} s")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--db", help="an empty database; a new SQLite file by default")
    for name, default in (
        ("kills", 100),
        ("pauses", 0),
        ("stops", 0),
        ("workers", 4),
        ("seed", time.time_ns() % 10**6),
    ):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--jobs", type=int, default=0, help="enqueue at least this many")
    parser.add_argument("--direct", default="", help="the URL past the pooler, if --db has pooled=true")
    parser.add_argument("--lease", type=float, default=8.0)
    parser.add_argument("--every", type=float, default=0.1, help="seconds between two blows, on average")
    parser.add_argument("--longest", type=float, default=0.06, help="seconds that a job takes at most")
    parser.add_argument("--plant", choices=sorted(PLANTS), default="", help="a bug that must be caught")
    given = vars(parser.parse_args())
    folder = Path(tempfile.mkdtemp(prefix="tidegate-chaos-"))
    given["url"] = given["url"] or f"sqlite:///{folder / 'jobs.db'}"
    print(f"seed {given['seed']}, files in {folder}")  # noqa: T201
    run = rampage(Plan(**given), folder)
    print(run)  # noqa: T201
    return 0 if run.ok else 1


if __name__ == "__main__":
    sys.exit(main())
