"""Statements of the application, in the transaction that settles its job, and what it does after the commit."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.jobs.building import Flaky, at_work, work_for, worker
from tidegate.clock import VirtualClock
from tidegate.guard.backoff import Backoff
from tidegate.jobs.context import Context
from tidegate.jobs.job import JobState
from tidegate.jobs.outcome import Done
from tidegate.jobs.queue import Queue
from tidegate.store.base import BoundStatement
from tidegate.store.sql import statements

EVEN = Backoff(10, factor=1, jitter=0, cap=10)
STATEMENTS = """
-- name: make_books
create table if not exists books_title (id integer primary key, title text not null unique, fence integer);
-- name: add_book
insert into books_title (id, title, fence) values (:id, :title, :fence);
-- name: books
select id, title, fence from books_title order by id;
"""
STEAL = "-- name: steal\nupdate tg_job set fence = fence + 1 where id = :id;"


@pytest.fixture
def books(q: Queue) -> Queue:
    q.db("books", statements=STATEMENTS).all("make_books")
    q.store.add(statements(STEAL, q.store.dialect))
    return q


def test_what_the_handler_adds_is_written_with_its_result(books: Queue, clock: VirtualClock) -> None:
    @books.job()
    async def store(title: str, job: Context) -> Done[int]:
        return Done(job.id, writes=[books.db("books").bind("add_book", id=job.id, title=title, fence=job.fence)])

    put = store.enqueue("Emma")
    clock.run(work_for(1, books))

    assert put.result() == put.id
    assert books.db("books").all("books") == [(put.id, "Emma", 1)]


def test_nothing_is_written_when_the_lease_is_lost(books: Queue, clock: VirtualClock) -> None:
    @books.job()
    async def store(title: str, job: Context) -> Done[None]:
        books.store.write(lambda tx: tx.query("steal", {"id": job.id}))
        return Done(writes=[books.db("books").bind("add_book", id=job.id, title=title, fence=job.fence)])

    put = store.enqueue("Emma")
    clock.run(work_for(1, books))

    assert books.db("books").all("books") == []
    assert books.get(put).state is JobState.RUNNING


def test_a_write_that_the_database_refuses_takes_the_result_with_it_and_nobody_elses(
    books: Queue, clock: VirtualClock
) -> None:
    begun: list[tuple[str, float]] = []

    @books.job(attempts=2, backoff=EVEN)
    async def store(title: str, job: Context) -> Done[str]:
        begun.append((title, round(clock.monotonic())))
        await asyncio.sleep(0.1)  # all of them end at the same time, and are settled together
        return Done(title, writes=[books.db("books").bind("add_book", id=job.id, title=title, fence=job.fence)])

    put = store.enqueue_many([("Emma",), ("Persuasion",), ("Emma",), ("Lady Susan",)])
    clock.run(work_for(60, books))

    assert [title for _, title, _ in books.db("books").all("books")] == ["Emma", "Persuasion", "Lady Susan"]
    assert [books.get(each).state for each in put] == [JobState.DONE, JobState.DONE, JobState.FAILED, JobState.DONE]
    assert begun == [("Emma", 0), ("Persuasion", 0), ("Emma", 0), ("Lady Susan", 0), ("Emma", 10)]


@pytest.mark.parametrize("mistake", ["params", "type"])
def test_a_mistake_in_a_write_does_not_stop_the_worker(books: Queue, clock: VirtualClock, mistake: str) -> None:
    @books.job(attempts=1)
    async def store(title: str, job: Context) -> Done[None]:
        wrong: Any = (
            BoundStatement("books.add_book", {"id": job.id}) if mistake == "params" else "drop table books_title"
        )
        return Done(writes=[wrong])

    @books.job()
    async def other(n: int) -> None: ...

    put, beside = store.enqueue("Emma"), other.enqueue(1)
    clock.run(work_for(30, books))

    assert (books.get(put).state, books.get(beside).state) == (JobState.FAILED, JobState.DONE)


def test_a_statement_that_nobody_loaded_is_an_error_of_the_handler(books: Queue, clock: VirtualClock) -> None:
    @books.job(attempts=1)
    async def store(title: str) -> Done[None]:
        return Done(writes=[books.db("books").bind("ad_book", title=title)])

    put = store.enqueue("Emma")
    clock.run(work_for(1, books))

    assert (books.get(put).state, books.get(put).error_code) == (JobState.FAILED, "unexpected")


def test_writes_are_not_doubled_when_the_answer_to_the_settle_is_lost(books: Queue, clock: VirtualClock) -> None:
    @books.job()
    async def store(title: str, job: Context) -> Done[None]:
        await asyncio.sleep(1)
        return Done(writes=[books.db("books").bind("add_book", id=None, title=f"{title} {job.id}", fence=job.fence)])

    put = store.enqueue_many([(each,) for each in ["Emma"] * 20])
    flaky = Flaky(books.store)
    flaky.unheard = lambda n: n % 2 == 0

    async def main() -> None:
        async with at_work(worker(books, store, store=flaky, concurrency=3)):
            await asyncio.sleep(60)

    clock.run(main())
    assert {books.get(each).state for each in put} == {JobState.DONE}
    assert sorted(title for _, title, _ in books.db("books").all("books")) == sorted(f"Emma {each.id}" for each in put)


def test_what_comes_after_is_done_once_result_and_writes_can_be_read(books: Queue, clock: VirtualClock) -> None:
    seen: list[Any] = []

    @books.job()
    async def store(title: str, job: Context) -> Done[int]:
        def after() -> None:
            seen.append((books.get(job.id).state, books.db("books").all("books")))

        write = books.db("books").bind("add_book", id=job.id, title=title, fence=job.fence)
        return Done(job.id, writes=[write], after=after)

    put = store.enqueue("Emma")
    clock.run(work_for(1, books))

    assert seen == [(JobState.DONE, [(put.id, "Emma", 1)])]


def test_nothing_comes_after_a_result_that_came_too_late(books: Queue, clock: VirtualClock) -> None:
    seen: list[int] = []

    @books.job()
    async def store(title: str, job: Context) -> Done[str]:
        if job.attempt == 1:
            books.store.write(lambda tx: tx.query("steal", {"id": job.id}))
        return Done(title, after=lambda: seen.append(job.attempt))

    put = store.enqueue("Emma")
    clock.run(work_for(120, books))

    assert (books.get(put).state, seen) == (JobState.DONE, [2])


def test_what_comes_after_waits_for_a_commit_that_succeeds(books: Queue, clock: VirtualClock) -> None:
    seen: list[float] = []
    flaky = Flaky(books.store)

    @books.job()
    async def store(title: str) -> Done[str]:
        flaky.undone = lambda _: clock.monotonic() < 5
        return Done(title, after=lambda: seen.append(clock.monotonic()))

    put = store.enqueue("Emma")

    async def main() -> None:
        async with at_work(worker(books, store, store=flaky)):
            await asyncio.sleep(20)

    clock.run(main())
    assert books.get(put).state is JobState.DONE
    assert len(seen) == 1
    assert seen[0] >= 5


def test_nothing_comes_after_a_write_that_the_database_refuses(books: Queue, clock: VirtualClock) -> None:
    seen: list[str] = []

    @books.job(attempts=1)
    async def store(title: str, job: Context) -> Done[None]:
        write = books.db("books").bind("add_book", id=job.id, title=title, fence=job.fence)
        await asyncio.sleep(0.1)  # both end at the same time, and are settled together
        return Done(writes=[write], after=lambda: seen.append(f"{title} {job.id}"))

    first, second = store.enqueue_many([("Emma",), ("Emma",)])
    clock.run(work_for(5, books))

    assert (books.get(first).state, books.get(second).state) == (JobState.DONE, JobState.FAILED)
    assert seen == [f"Emma {first.id}"]


def test_what_comes_after_may_fail_and_the_worker_goes_on(
    books: Queue, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[int] = []

    @books.job()
    async def store(n: int) -> Done[int]:
        await asyncio.sleep(0.1)  # both end at the same time, and are settled together
        return Done(n, after=lambda: seen.append(10 // n))

    put = store.enqueue_many([(0,), (5,)])
    clock.run(work_for(5, books))

    assert [books.get(each).state for each in put] == [JobState.DONE, JobState.DONE]
    assert seen == [2]
    (record,) = [each for each in caplog.records if each.msg.startswith("after_raised")]
    assert (record.levelname, record.args) == ("ERROR", (store.kind.name, put[0].id))
