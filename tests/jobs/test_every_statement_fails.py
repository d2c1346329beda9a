"""The database fails at the n-th statement, for every n until nothing fails any more: nothing is lost or doubled."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.acceptance import checker
from tests.databases import POSTGRES, database
from tests.jobs.building import work_for
from tidegate.clock import VirtualClock
from tidegate.errors import StoreBusy, StoreDamaged, StoreError, StoreFull, StoreMissing
from tidegate.guard import Tuning
from tidegate.guard.backoff import Backoff
from tidegate.jobs import claim
from tidegate.jobs.claim import ReadyKey
from tidegate.jobs.context import Context
from tidegate.jobs.function import JobFunction
from tidegate.jobs.queue import Queue
from tidegate.store.base import Params, Row, Store, Tx

T = TypeVar("T")

# Locked, full, a disk that cannot be written, and one that breaks off in a way that nobody knows.
ERRORS: Sequence[Callable[[], StoreError]] = (
    lambda: StoreBusy("database is locked"),
    lambda: StoreFull("database or disk is full"),
    lambda: StoreBusy("disk I/O error"),
    lambda: StoreError("something else"),
    lambda: StoreMissing("the file is not there"),
    lambda: StoreDamaged("database disk image is malformed"),
)


# Putting in, claiming, settling, heartbeats and what is done for all: each must be among what fails.
STATEMENTS = {
    "enqueue_one", "fronts", "pick", "claim", "settle", "attempt_events", "renew", "promote", "lost_leases",
    "take_back", "old_jobs", "forget", "tally",
}  # fmt: skip


@dataclass
class Fault:
    """Which statement fails, and how. Commits count, too: before they are done, and when they are and nobody hears."""

    at: int
    error: Callable[[], StoreError]
    met: int = 0
    names: set[str] = field(default_factory=set)  # of the statements that it could have struck

    @property
    def struck(self) -> bool:
        return self.met >= self.at

    def strike(self) -> None:
        self.met += 1
        if self.met == self.at:
            raise self.error()


class FailingTx:
    def __init__(self, tx: Tx, fault: Fault) -> None:
        self._tx, self._fault = tx, fault

    def query(self, name: str, params: Params | None = None) -> list[Row]:
        self._fault.names.add(name)
        self._fault.strike()
        return self._tx.query(name, params)

    def query_many(self, name: str, rows: Sequence[Params], params: Params | None = None) -> list[Row]:
        self._fault.names.add(name)
        self._fault.strike()
        return self._tx.query_many(name, rows, params)

    query_as, query_many_as, first = Tx.query_as, Tx.query_many_as, Tx.first
    scalar, scalar_or_none, scalars = Tx.scalar, Tx.scalar_or_none, Tx.scalars

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tx, name)


class FailingStore:
    """A store of which one statement fails, once."""

    def __init__(self, store: Store, fault: Fault) -> None:
        self._store, self._fault = store, fault

    def write(self, work: Callable[[Tx], T]) -> T:
        def inside(tx: Tx) -> T:
            result = work(FailingTx(tx, self._fault))
            self._fault.strike()  # before the commit
            return result

        result = self._store.write(inside)
        self._fault.strike()  # after it
        return result

    def read(self, work: Callable[[Tx], T]) -> T:
        return self._store.read(lambda tx: work(FailingTx(tx, self._fault)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class SwallowingStore(FailingStore):
    """Planted: a commit that failed is taken for one that was made."""

    def write(self, work: Callable[[Tx], T]) -> T:
        results, seen = list[T](), Fault(10**9, self._fault.error)

        def inside(tx: Tx) -> T:
            results.append(work(FailingTx(tx, seen)))
            if "enqueue_one" in seen.names:
                self._fault.strike()
            return results[-1]

        try:
            return self._store.write(inside)
        except StoreError:
            if not results:
                raise
            return results[-1]

    def read(self, work: Callable[[Tx], T]) -> T:
        return self._store.read(work)


class FailingQueue(Queue):
    failing: type[FailingStore] = FailingStore

    def __init__(self, url: str, clock: VirtualClock, fault: Fault | None) -> None:
        super().__init__(
            url, clock=clock, inline=True, tuning=Tuning(rng=lambda: 0.5), retention={"short": {"done": "20s"}}
        )
        self._fault = fault

    def _database(self) -> Store:
        found = super()._database()
        return found if self._fault is None else self.failing(found, self._fault)


class Program:
    """Jobs that succeed, that fail once, that a schedule puts in, and that are soon forgotten."""

    def __init__(self, q: Queue, effects: Path) -> None:
        self.q = q

        def began(job: Context) -> dict[str, int]:
            with effects.open("a") as file:
                file.write(f"{job.id} {job.fence} {job.attempt} {os.getpid()}\n")
            return {"fence": job.fence}

        often = Backoff(0.5, cap=1.0, jitter=0.0)

        @q.job(name="steady", queue="main", attempts=50, backoff=often)
        def steady(n: int, job: Context) -> dict[str, int]:
            return began(job)

        @q.job(name="stumbles", queue="main", attempts=50, backoff=often)
        def stumbles(n: int, job: Context) -> dict[str, int]:
            found = began(job)
            if job.attempt == 1:
                raise ConnectionError("it stumbles once")
            return found

        @q.job(name="short", queue="short", attempts=50, backoff=often)
        def short(n: int, job: Context) -> dict[str, int]:
            return began(job)

        q.schedule("* * * * *", steady, (7,), name="each minute")
        self.kinds: tuple[JobFunction[[int], Any], ...] = (steady, stumbles, short)

    def put(self, n: int) -> list[int]:
        """The ids that were acknowledged and are kept."""
        found: list[int] = []
        for kind in self.kinds:
            try:
                made = kind.enqueue(n)
            except StoreError:
                continue
            found += [made.id] if kind.kind.queue == "main" else []
        return found


async def works(q: Queue, seconds: float) -> None:
    """A worker that is begun again when it ends of an error, as a service manager does."""
    end = q.clock.monotonic() + seconds
    while (left := end - q.clock.monotonic()) > 0:
        try:
            await work_for(left, q, lease=6.0, renew_every=2.0, margin=1.0, sweep_every=3.0, poll_every=1.0)
        except StoreError:
            await asyncio.sleep(1)


class SwallowingQueue(FailingQueue):
    failing = SwallowingStore


def run(folder: Path, fault: Fault, url: str = "", failing: type[FailingQueue] = FailingQueue) -> tuple[str, list[int]]:
    """The whole of it with one failure, and then without, until everything has ended."""
    clock, url, effects = VirtualClock(), url or f"sqlite:///{folder}/jobs.db", folder / "effects"
    effects.touch()
    put: list[int] = []

    async def under_fault(program: Program) -> None:
        put.extend(program.put(1))
        # One of them is lost with its worker.
        with contextlib.suppress(StoreError):
            program.q.store.write(lambda tx: claim.claim(tx, ReadyKey("main", "", ""), 1, "dead", 6.0))
        await works(program.q, 75)
        put.extend(program.put(2))
        await works(program.q, 20)

    async def in_peace(program: Program) -> None:
        await works(program.q, 150)

    try:
        with failing(url, clock, fault) as q:
            clock.run(under_fault(Program(q, effects)))
    except StoreError:
        assert fault.struck
    with FailingQueue(url, clock, None) as q:
        clock.run(in_peace(Program(q, effects)))
    return url, put


def judge(folder: Path, url: str, put: list[int]) -> None:
    assert len(set(put)) == len(put), "one number was given out for two jobs"
    verdict = checker.check(url, folder / "effects", put=put)
    assert verdict.ok, str(verdict)
    if url.startswith("sqlite"):
        assert checker.integrity(url) == []
    assert checker.rows(url, "select count(*) from tg_job where queue = 'short'") == [(0,)]
    assert checker.rows(url, "select count(*) from tg_event where job not in (select id from tg_job)") == [(0,)]


def every(
    folder: Path, step: int, errors: Sequence[Callable[[], StoreError]], database: Callable[[Path], str] | None = None
) -> int:
    """Runs it for every *step*-th statement, with the errors in turn; returns how many runs that were."""
    at, runs = 1, 0
    while True:
        place = folder / str(at)
        place.mkdir()
        fault = Fault(at, errors[runs % len(errors)])
        judge(place, *run(place, fault, "" if database is None else database(place)))
        runs += 1
        if not fault.struck:
            return runs
        at += step


def test_without_a_failure_the_scenario_does_all_that_is_to_fail(tmp_path: Path) -> None:
    fault = Fault(10**9, ERRORS[0])
    url, put = run(tmp_path, fault)

    judge(tmp_path, url, put)
    assert (len(put), fault.met > 300) == (4, True)
    kinds = {kind for (kind,) in checker.rows(url, "select distinct kind from tg_event")}
    assert {"done", "again", "lost"} <= kinds
    assert fault.names >= STATEMENTS
    assert checker.rows(url, "select count(*) > 6 from tg_job") == [(1,)]  # those of the schedule


def test_a_failure_at_one_in_many_statements_loses_and_doubles_nothing(tmp_path: Path) -> None:
    assert every(tmp_path, 61, ERRORS) > 5


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("error", range(len(ERRORS)))
def test_a_failure_at_any_statement_loses_and_doubles_nothing(tmp_path: Path, error: int) -> None:
    assert every(tmp_path, 1, ERRORS[error : error + 1]) > 300


@pytest.mark.parametrize("at", [1, 2])  # each of the first two jobs that are put in
def test_a_commit_that_failed_and_is_taken_for_one_that_was_made_is_found(tmp_path: Path, at: int) -> None:
    url, put = run(tmp_path, Fault(at, ERRORS[3]), failing=SwallowingQueue)

    with pytest.raises(AssertionError):
        judge(tmp_path, url, put)


def on_postgres(held: contextlib.ExitStack) -> Callable[[Path], str]:
    return lambda folder: held.enter_context(database(POSTGRES, folder)).url


@pytest.mark.full
@pytest.mark.timeout(600)
def test_a_failure_at_one_in_many_statements_loses_and_doubles_nothing_on_postgres(tmp_path: Path) -> None:
    with contextlib.ExitStack() as held:
        assert every(tmp_path, 173, ERRORS[:4], on_postgres(held)) > 2


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("error", range(4))  # a server has no file that could be missing or damaged
def test_a_failure_at_any_statement_loses_and_doubles_nothing_on_postgres(tmp_path: Path, error: int) -> None:
    with contextlib.ExitStack() as held:
        assert every(tmp_path, 1, ERRORS[error : error + 1], on_postgres(held)) > 300
