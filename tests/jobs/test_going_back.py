"""A database that went back in time by itself: no lease from before is taken for a new one of the same number."""

from __future__ import annotations

import asyncio
import logging
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import apsw
import psycopg
import pytest

from tests.databases import BOTH, database
from tests.jobs.building import Flaky, at_work, worker
from tidegate.clock import VirtualClock
from tidegate.jobs import claim, insert, restore
from tidegate.jobs.claim import ReadyKey
from tidegate.jobs.context import Context
from tidegate.jobs.heartbeat import HeartbeatMark, HeartbeatResult, beat
from tidegate.jobs.job import NewJob
from tidegate.jobs.queue import Queue
from tidegate.jobs.restore import JUMP
from tidegate.store.base import Store, Tx
from tidegate.store.migrate import core_migrations, migrate
from tidegate.store.sql import statements

ABOUT = {"id": "w", "host": "h", "pid": 1, "queues": "[]", "stopping": 0, "outdated": 0}
WAITING = """select count(*) from pg_locks join pg_stat_activity using (pid) where locktype = 'advisory' and not granted
    and application_name = current_setting('application_name')"""
NOW_SAYS = """-- name: now_says
update tg_job set fence = :fence, lease_by = :by, state = :state,
    lease_until = case when :state = 'running' then lease_until else null end,
    claimed_at = case when :state = 'running' then claimed_at else null end,
    finished_at = case when :state = 'done' then claimed_at else null end;"""
FORGET = "-- name: forget_workers\ndelete from tg_worker;"


def copied(source: Path, to: Path) -> None:
    """As `.backup` of the sqlite3 shell does, and `.restore`: nobody tells Tidegate of it."""
    with (
        closing(apsw.Connection(str(source))) as here,
        closing(apsw.Connection(str(to))) as there,
        there.backup("main", here, "main") as copy,
    ):
        copy.step()


def epoch(store: Store) -> int:
    return int(store.read(lambda tx: tx.query("worker_beat", {"id": ""}))[0][1] or 0)


def test_a_result_from_before_is_refused_and_the_job_is_done_again(
    q: Queue, clock: VirtualClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    runs = list[int]()

    @q.job()
    async def slow(n: int, job: Context) -> int:
        runs.append(job.fence)
        await asyncio.sleep(25)
        return len(runs)

    job = slow.enqueue(1)
    one, other = (worker(q, slow, concurrency=1, lease=60.0, renew_every=10.0) for _ in range(2))

    async def main() -> None:
        async with at_work(one), at_work(other):
            await asyncio.sleep(1)
            assert runs == [1]
            copied(tmp_path / "before.db", tmp_path / "jobs.db")
            await asyncio.sleep(200)

    copied(tmp_path / "jobs.db", tmp_path / "before.db")
    with caplog.at_level(logging.ERROR, "tidegate.worker"):
        clock.run(main())
    assert q.get(job).fence > JUMP
    assert runs[-1] == q.get(job).fence
    assert job.result() == len(runs), "what an attempt from before returned is not taken for that of a later one"
    assert [event.fence for event in q.events(job) if event.kind == "done"] == [q.get(job).fence]
    assert epoch(q.store) == 1, "of two workers, one put it right"
    assert [record.message.split()[0] for record in caplog.records] == ["database_went_back"]


def test_beats_that_were_committed_and_not_heard_of_are_no_sign(q: Queue, clock: VirtualClock) -> None:
    @q.job()
    async def long(n: int) -> str:
        await asyncio.sleep(100)
        return "done"

    job = long.enqueue(1)
    flaky = Flaky(q.store)
    flaky.unheard = lambda n: n % 3 == 0

    async def main() -> None:
        async with at_work(worker(q, long, store=flaky, lease=60.0, renew_every=5.0)):
            await asyncio.sleep(300)

    clock.run(main())
    assert job.result() == "done"
    assert (q.get(job).fence, epoch(q.store)) == (1, 0)


def test_a_beat_that_arrives_when_its_worker_has_signed_off_is_no_sign(q: Queue, clock: VirtualClock) -> None:
    @q.job()
    async def nothing(n: int) -> None: ...

    flaky = Flaky(q.store)

    async def main() -> None:
        async with at_work(worker(q, nothing, store=flaky, renew_every=5.0)):
            await asyncio.sleep(20)
            flaky.slow = True
            await asyncio.sleep(12)
            flaky.slow = False

    clock.run(main())
    flaky.arrive()
    assert epoch(q.store) == 0
    assert not q.store.read(lambda tx: tx.query("workers")), "nor does it bring its worker back"


def test_who_was_silent_for_long_may_be_forgotten(q: Queue, clock: VirtualClock) -> None:
    q.store.add(statements(FORGET, q.store.dialect))

    @q.job()
    async def nothing(n: int) -> None: ...

    flaky = Flaky(q.store)

    async def main() -> None:
        async with at_work(worker(q, nothing, store=flaky)):
            await asyncio.sleep(60)
            flaky.away = True
            await asyncio.sleep(4000)
            q.store.write(lambda tx: tx.query("forget_workers"))
            flaky.away = False
            await asyncio.sleep(60)

    clock.run(main())
    assert epoch(q.store) == 0


@pytest.mark.parametrize("name", BOTH)
def test_it_is_put_right_once_and_not_where_somebody_has_done_so(name: str, tmp_path: Path) -> None:
    with database(name, tmp_path) as db, closing(db.open(VirtualClock().now)) as store:
        migrate(store, core_migrations())

        def beats(number: int, last: HeartbeatMark | None) -> tuple[HeartbeatMark, bool]:
            found = store.write(lambda tx: beat(tx, store.dialect, ABOUT, number, last))
            return found.beat, found.put_right is not None

        assert beats(1, None) == (HeartbeatMark(1, 0), False)
        assert beats(3, HeartbeatMark(1)) == (HeartbeatMark(3, 0), False), "the second was never heard of"
        assert beats(2, None) == (HeartbeatMark(2, 0), False), "it was held up on its way"
        assert beats(4, HeartbeatMark(3)) == (HeartbeatMark(4, 0), False)
        assert beats(7, HeartbeatMark(6)) == (HeartbeatMark(7, 1), True), "the sixth was committed, and is not known"
        assert beats(8, HeartbeatMark(7, 1)) == (HeartbeatMark(8, 1), False)
        assert beats(9, HeartbeatMark(8)) == (HeartbeatMark(9, 1), False), "another has put it right"
        store.write(lambda tx: restore.restored(tx, store.dialect))
        assert beats(10, HeartbeatMark(9, 1)) == (HeartbeatMark(10, 2), False), "a person has"
        assert beats(11, HeartbeatMark(10, 3)) == (HeartbeatMark(11, 3), True), "it went back behind the last time"


@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize(
    ("fence", "lease_by", "state", "went_back"),
    [
        (1, "w", "running", False),
        (0, None, "ready", True),  # the claim is not known: the next one gets the same fence
        (1, "other", "running", True),  # and has it
        (1, None, "done", False),  # settled a moment ago
        (2, "other", "running", False),  # the lease ended, and another worker has the job
    ],
)
def test_a_database_that_lacks_a_lease_of_a_worker_went_back(
    name: str, tmp_path: Path, fence: int, lease_by: str | None, state: str, went_back: bool
) -> None:
    with database(name, tmp_path) as db, closing(db.open(VirtualClock().now)) as store:
        migrate(store, core_migrations())
        taken = store.write(lambda tx: insert.enqueue_one(tx, NewJob(queue="q", kind="k", args="null")))
        (held,) = store.write(lambda tx: claim.claim(tx, ReadyKey("q", "", ""), 1, "w", 30.0))
        assert (held.id, held.fence) == (taken.id, 1)
        store.write(lambda tx: beat(tx, store.dialect, ABOUT, 1, None))
        store.add(statements(NOW_SAYS, store.dialect))
        store.write(lambda tx: tx.query("now_says", {"fence": fence, "by": lease_by, "state": state}))

        found = store.write(lambda tx: beat(tx, store.dialect, ABOUT, 2, HeartbeatMark(1), [held]))

        assert (found.put_right is not None) == went_back
        assert epoch(store) == went_back


def test_a_worker_that_holds_a_job_with_an_id_that_was_never_given_out_finds_that_the_server_went_back(
    tmp_path: Path,
) -> None:
    with database("postgres", tmp_path) as db, closing(db.open(VirtualClock().now)) as store:
        migrate(store, core_migrations())
        store.write(lambda tx: insert.enqueue_one(tx, NewJob(queue="q", kind="k", args="null")))
        (held,) = store.write(lambda tx: claim.claim(tx, ReadyKey("q", "", ""), 1, "w", 30.0))
        store.write(lambda tx: beat(tx, store.dialect, ABOUT, 1, None))

        def beats(number: int, id_: int) -> bool:
            job = held._replace(id=id_)
            return (
                store.write(
                    lambda tx: beat(tx, store.dialect, ABOUT, number, HeartbeatMark(number - 1), [job])
                ).put_right
                is not None
            )

        assert not beats(2, held.id)
        assert beats(3, held.id + 1)


def test_of_two_that_see_it_at_once_one_puts_it_right(tmp_path: Path) -> None:
    with (
        database("postgres", tmp_path) as db,
        closing(db.open(VirtualClock().now)) as store,
        ThreadPoolExecutor(2) as threads,
        psycopg.connect(db.url, autocommit=True) as looking,
    ):
        migrate(store, core_migrations())

        def both_wait(tx: Tx) -> list[Future[HeartbeatResult]]:
            tx.lock_migrations()
            found = [
                threads.submit(
                    store.write, lambda tx, me=me: beat(tx, store.dialect, {**ABOUT, "id": me}, 9, HeartbeatMark(8))
                )
                for me in ("one", "other")
            ]
            deadline = time.monotonic() + 60
            while looking.execute(WAITING).fetchone() != (2,):
                assert time.monotonic() < deadline
                time.sleep(0.01)
            return found

        ended = [each.result(60).put_right is not None for each in store.write(both_wait)]
        assert sorted(ended) == [False, True]
        assert epoch(store) == 1
