"""Jobs that many threads put in at a time, on PostgreSQL: together, and yet each for itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import cast

import psycopg
import pytest

from tests.databases import POSTGRES, Database
from tests.postgres import server_url
from tests.store.jobs import Jobs, new
from tidegate import Queue
from tidegate.errors import StoreBusy
from tidegate.jobs.insert import InsertBatcher, InsertResult
from tidegate.jobs.job import NewJob
from tidegate.store.base import Store

pytestmark = pytest.mark.parametrize("db", [POSTGRES], indirect=True)
THREADS = 8
PATIENT = "options=-c%20lock_timeout%3D0%20-c%20statement_timeout%3D0%20"


@contextmanager
def held_up(db: Database) -> Iterator[None]:
    """Nobody can put a job in until the end."""
    with psycopg.connect(db.url) as other:
        other.execute("lock table tg_job in share row exclusive mode")
        yield


@pytest.fixture
def gathering(db: Database, jobs: Jobs) -> Iterator[InsertBatcher]:
    """On connections that wait as long as a slow machine may take."""
    store = Database(db.name, db.url.replace("options=", PATIENT)).open(jobs.clock)
    yield InsertBatcher(store)
    store.close()


def soon(true: Callable[[], bool]) -> None:
    ends = time.monotonic() + 60
    while not true():
        assert time.monotonic() < ends
        time.sleep(0.005)


def blocked(db: Database) -> bool:
    """Whether somebody waits for what somebody else has locked."""
    waits = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and application_name = %s"
    with psycopg.connect(server_url()) as server:
        return bool(server.execute(waits, (db.url.rpartition("application_name=")[2],)).fetchall()[0][0])


def behind_one_another(db: Database, gathering: InsertBatcher, jobs: list[NewJob]) -> list[Future[InsertResult]]:
    """Puts each in by a thread of its own: the first alone, the others while it is at it."""
    pool = ThreadPoolExecutor(len(jobs))
    with held_up(db):
        found = [pool.submit(gathering.put, jobs[0])]
        soon(lambda: blocked(db))
        found += [pool.submit(gathering.put, job) for job in jobs[1:]]
        soon(lambda: gathering.waiting == len(jobs) - 1)
    pool.shutdown()
    return found


def transactions(db: Database) -> list[int]:
    """How many jobs each has put in."""
    with psycopg.connect(db.url) as server:
        return [n for (n,) in server.execute("select count(*) from tg_job group by xmin::text order by 1")]


def test_what_comes_while_one_is_at_it_goes_in_one_transaction(db: Database, gathering: InsertBatcher) -> None:
    found = behind_one_another(db, gathering, [new(args=f"{i}") for i in range(THREADS)])

    assert len({each.result().id for each in found}) == THREADS
    assert all(each.result().created for each in found)
    assert transactions(db) == [1, THREADS - 1]


def test_each_gets_the_job_that_it_has_put_in(db: Database, gathering: InsertBatcher) -> None:
    found = behind_one_another(db, gathering, [new(args=f"{i}") for i in range(THREADS)])

    with psycopg.connect(db.url) as server:
        args: dict[int, str] = dict(server.execute("select id, args from tg_job").fetchall())
    assert [args[each.result().id] for each in found] == [f"{i}" for i in range(THREADS)]


def test_one_that_cannot_be_stored_does_not_touch_the_others(db: Database, gathering: InsertBatcher) -> None:
    wanted = [new(args=f"{i}") for i in range(THREADS - 1)]
    found = behind_one_another(db, gathering, [*wanted, new(lane="a\0b")])

    with pytest.raises(ValueError, match="NUL"):
        found.pop().result()
    assert len({each.result().id for each in found}) == THREADS - 1
    assert sum(transactions(db)) == THREADS - 1


def test_a_job_that_waits_for_a_twin_keeps_nobody_waiting(db: Database) -> None:
    """The twin is in a transaction that somebody has left open."""
    with Queue(db.url.replace("options=", PATIENT)) as q:

        @q.job(unique=lambda number: number)
        def once(number: int) -> None: ...

        @q.job()
        def plain(number: int) -> None: ...

        with psycopg.connect(db.url) as mine, ThreadPoolExecutor() as pool:
            first = once.options(connection=mine).enqueue(1)
            second = pool.submit(once.enqueue, 1)
            soon(lambda: blocked(db))

            assert plain.enqueue(1).created
            assert not second.done()
            mine.commit()
            assert second.result().id == first.id


class Interrupted:
    """Stands for a database: the first write waits for a word, and the thread of the second one is interrupted."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.writes = 0

    def write(self, work: object) -> list[InsertResult]:
        self.writes += 1
        assert self.go.wait(60)
        if self.writes > 1:
            raise KeyboardInterrupt
        return [InsertResult(1, created=True)]


def test_the_others_hear_it_when_the_thread_that_leads_is_interrupted(db: Database) -> None:
    store = Interrupted()
    gathering = InsertBatcher(cast("Store", store))
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(gathering.put, new())
        soon(lambda: store.writes == 1)
        second = pool.submit(gathering.put, new())
        soon(lambda: gathering.waiting == 1)
        third = pool.submit(gathering.put, new())
        soon(lambda: gathering.waiting == 2)
        store.go.set()

        assert first.result().created
        with pytest.raises(KeyboardInterrupt):
            second.result()
        with pytest.raises(StoreBusy, match="may be there"):
            third.result()
