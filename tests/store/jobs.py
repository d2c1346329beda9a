"""Short words for what tests do with a store, and what must be true of it at any time."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from tests.databases import Database
from tidegate.jobs import actions, claim, insert, outcome
from tidegate.jobs import settle as job_settle
from tidegate.jobs.claim import ReadyKey, ReadyTarget, Renewed
from tidegate.jobs.insert import InsertResult
from tidegate.jobs.job import AttemptOutcome, Claimed, Job, JobEvent, NewJob, while_mask
from tidegate.jobs.settle import Settled, settle
from tidegate.store.base import Row, Store
from tidegate.store.migrate import core_migrations, migrate
from tidegate.store.sql import compiled
from tidegate.store.sqlite import SqliteStore

LEASE = 30.0
LIVE = frozenset({"queued", "running"})
Q = ReadyTarget("q", "")


class Clock:
    """Stands still until it is moved."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


def new(key: object = None, while_: AbstractSet[str] = LIVE, **fields: Any) -> NewJob:
    """A job that is asked for; *key* makes it unique."""
    if key is not None:
        fields |= {"unique_key": str(key), "unique_while": while_mask(while_)}
    return NewJob(**{"queue": "q", "kind": "k", "args": "null", **fields})


@dataclass(slots=True)
class Jobs:
    """A store and its clock."""

    store: Store
    clock: Clock

    def migrate(self) -> None:
        migrate(self.store, core_migrations())

    # -- putting in ----------------------------------------------------------------------------------------------

    def put(self, *wanted: NewJob) -> list[InsertResult]:
        if len(wanted) == 1:
            return [self.store.write(lambda tx: insert.enqueue_one(tx, wanted[0]))]
        return self.store.write(lambda tx: insert.enqueue(tx, wanted))

    def one(self, key: object = None, **fields: Any) -> int:
        """One new job's id."""
        (taken,) = self.put(new(key, **fields))
        assert taken.created
        return taken.id

    def child(self, *parents: int, **fields: Any) -> int:
        return self.one(parents=parents, **fields)

    def refuse(self, code: str = "bad_request", message: str = "No.", **fields: Any) -> int:
        return self.store.write(lambda tx: insert.refuse(tx, new(**fields), code, message))

    # -- taking --------------------------------------------------------------------------------------------------

    def fronts(self, *queues: str) -> list[ReadyTarget]:
        """Those of these queues, or of all that there are."""
        names = queues or [row[0] for row in self.sql("select distinct queue from tg_job")]
        return self.store.read(lambda tx: claim.ready(tx, names).targets)

    def lanes(self, front: ReadyTarget = Q, after: str | None = None, most: int = 100) -> list[ReadyKey]:
        return self.store.read(lambda tx: claim.ready_keys(tx, front, after, most))

    def claim(
        self, n: int = 100, worker: str = "w", lane: str = "", queue: str = "q", target: str = ""
    ) -> list[Claimed]:
        place = ReadyKey(queue, target, lane)
        return self.store.write(lambda tx: claim.claim(tx, place, n, worker, LEASE))

    def take(self, id_: int, worker: str = "w") -> Claimed:
        """Claims everything up to this one job, which must be ready."""
        job = self.get(id_)
        if job.suspect:
            return self.take_suspect(id_, worker)
        found = self.claim(10_000, worker, job.lane, job.queue, job.target)
        (mine,) = [each for each in found if each.id == id_]
        return mine

    def suspects(self) -> list[int]:
        return self.store.read(lambda tx: [each.id for each in claim.suspects(tx, None)])

    def take_suspect(self, id_: int, worker: str = "w") -> Claimed:
        lanes = self.store.read(lambda tx: {each.id: each.lane for each in claim.suspects(tx, None)})
        (mine,) = self.store.write(lambda tx: claim.claim_suspect(tx, lanes[id_], id_, worker, LEASE))
        return mine

    def clear(self, *held: Claimed) -> None:
        self.store.write(lambda tx: claim.clear_suspects(tx, [(job.id, job.fence) for job in held]))

    def renew(self, *held: Claimed, lease: float = LEASE) -> list[Renewed]:
        return self.store.write(lambda tx: claim.renew(tx, held, lease))

    def save(self, job: Claimed, saved: str) -> bool:
        return self.store.write(lambda tx: claim.save(tx, job.id, job.fence, saved))

    def promote(self) -> int:
        return self.store.write(claim.promote)

    def take_back(self) -> int:
        rule = claim.LostRule("worker_lost")
        return self.store.write(lambda tx: claim.rescue_lost(tx, rule, "Three times.", {}, LEASE))

    def survive(self, worker: str = "w", *, renews: Claimed | None = None) -> None:
        """A heartbeat of a worker that was not heard of for a while."""
        held = [] if renews is None else [renews]
        self.renew(*held)
        self.store.write(lambda tx: claim.survive(tx, worker, {(job.id, job.fence) for job in held}))

    def expire(self) -> int:
        return self.store.write(lambda tx: claim.expire(tx, "expired", "Too old."))

    def die(self, *held: Claimed) -> None:
        """The worker of these jobs is heard of no more, and they are taken back."""
        self.clock.advance(LEASE + 1)
        taken = self.take_back()
        self.clock.advance(LEASE + 1)  # of those that this would fail, the worker might have come back
        assert taken + self.take_back() == len(held)

    # -- ending --------------------------------------------------------------------------------------------------

    def settle(self, *outcomes: AttemptOutcome, worker: str = "w") -> Settled:
        return self.store.write(lambda tx: settle(tx, outcomes, worker))

    def done(self, *ids: int, result: str | None = None) -> None:
        """Claims and finishes these."""
        held = {job.id: job for job in self._all_ready()}
        self.settle(*(outcome.done(held[id_], result) for id_ in ids))
        self._give_back(held, ids)

    def fail(self, *ids: int, code: str = "bad_request") -> None:
        held = {job.id: job for job in self._all_ready()}
        self.settle(*(outcome.failed(held[id_], code, "No.") for id_ in ids))
        self._give_back(held, ids)

    def _all_ready(self) -> list[Claimed]:
        lanes = [lane for front in self.fronts() for lane in self.lanes(front, most=1000)]
        found = [job for lane in lanes for job in self.claim(10_000, "w", lane.lane, lane.queue, lane.target)]
        return [*found, *map(self.take_suspect, self.suspects())]

    def _give_back(self, held: dict[int, Claimed], ended: tuple[int, ...]) -> None:
        rest = [job for id_, job in held.items() if id_ not in ended]
        self.settle(*(outcome.released(job, unsent=True) for job in rest))

    # -- people --------------------------------------------------------------------------------------------------

    def get(self, id_: int) -> Job:
        found = self.store.read(lambda tx: actions.get(tx, id_))
        assert found is not None
        return found

    def stage(self, *ids: int) -> str:
        return " ".join(self.get(id_).stage for id_ in ids)

    def events(self, id_: int) -> list[JobEvent]:
        return self.store.read(lambda tx: actions.events(tx, id_))

    def history(self, id_: int) -> str:
        return " ".join(event.kind for event in self.events(id_))

    def retry(self, id_: int) -> bool:
        return self.store.write(lambda tx: actions.requeue_job(tx, id_, "ada"))

    def cancel(self, id_: int) -> str | None:
        return self.store.write(lambda tx: actions.cancel_job(tx, id_, "ada"))

    def forget(self, id_: int) -> bool:
        return self.store.write(lambda tx: actions.delete_job(tx, id_))

    def prune(self, stage: Any, before: float, most: int = 100, queue: str = "q") -> int:
        return self.store.write(lambda tx: actions.prune(tx, queue, stage, before, most))

    # -- numbers -------------------------------------------------------------------------------------------------

    def sql(self, text: str) -> list[Row]:
        """Rows of a statement that is not in the book."""
        return rows(self.store, text)

    def tallies(self) -> dict[tuple[str, str], int]:
        return self.store.read(job_settle.read)

    def check(self) -> None:
        """What must be true of every store, whatever was done to it."""
        counted = Counter[tuple[str, str]]()
        for queue, stage, n in self.sql("select queue, state, count(*) from tg_job group by queue, state"):
            counted[queue, stage] = n
        kept = {key: n for key, n in self.tallies().items() if n and ":" not in key[1] and "total" not in key[1]}
        assert kept == dict(counted)
        wrong = self.sql(
            "select id, parents_open from tg_job where state = 'blocked' and parents_open <> ("
            " select count(*) from tg_link as link join tg_job as parent on parent.id = link.parent"
            " where link.child = tg_job.id and parent.state <> 'done')"
        )
        assert not wrong
        assert not self.sql("select job from tg_event where job not in (select id from tg_job)")
        assert not self.sql("select id from tg_job where attempt > most_attempts")


@contextlib.contextmanager
def jobs_on(db: Database, clock: Clock) -> Iterator[Jobs]:
    """A migrated store on that clock, which must be in order when the block has ended."""
    found = Jobs(db.open(clock), clock)
    try:
        found.migrate()
        yield found
        found.check()
    finally:
        found.store.close()


def rows(store: Store, text: str) -> list[Row]:
    name = f"test.{abs(hash(text))}"
    with contextlib.suppress(ValueError):  # asked before
        store.add([compiled(name, text, store.dialect)])
    return store.read(lambda tx: tx.query(name))


def sqlite(jobs: Jobs) -> SqliteStore:
    assert isinstance(jobs.store, SqliteStore)
    return jobs.store
