"""Jobs are put in, and what has become of them: everything wrong is said before anything is written."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import apsw
import pytest

from tests.unit.jobs.queueing import ARTIST, TARGET, Submission, handler, rows
from tidegate import Done, Fail, Queue, Target, rules
from tidegate.clock import VirtualClock
from tidegate.errors import NotFound, Rejected
from tidegate.jobs import Drained, Enqueued, JobState
from tidegate.targets import table

BAD_ARGS: list[tuple[Any, type[Exception], str]] = [
    ("artist", TypeError, r"handler\(a: Submission\): a: 'artist'"),
    ({"kind": "artist", "id": 1}, TypeError, "Submission"),
    (None, TypeError, "None"),
    (Submission("artist", "1"), TypeError, r"a\.id: '1'"),  # type: ignore[arg-type]
    (Submission("x" * 1_000_000, 1), ValueError, " 1000000 "),
]


@pytest.mark.parametrize(("args", "error", "message"), BAD_ARGS)
def test_arguments_that_do_not_fit_are_refused_before_anything_is_written(
    args: Any, error: type[Exception], message: str, q: Queue
) -> None:
    job = q.job(target=TARGET, key=lambda a: a.user, unique=lambda a: (a.kind, a.id))(handler)
    uses: list[Callable[[], object]] = [
        lambda: job.enqueue(args),
        lambda: asyncio.run(job.aenqueue(args)),
        lambda: job.enqueue_many([(ARTIST,), (args,)]),
        lambda: asyncio.run(job.aenqueue_many([(ARTIST,), {"a": args}])),
        lambda: job.refuse((args,), "not_found"),
    ]
    for use in uses:
        with pytest.raises(error, match=message):
            use()
    assert rows(q) == 0


OPTIONS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"priority": 1001}, ValueError, "priority: 1001"),
    ({"priority": "high"}, ValueError, "priority: 'high'"),
    ({"due": "soon"}, ValueError, "due: 'soon'"),
    ({"due": -1}, ValueError, "due: -1"),
    ({"due": float("nan")}, ValueError, "due: nan"),
    ({"due": [1]}, TypeError, "due:"),
    ({"after": ["artist"]}, TypeError, "after: 'artist'"),
    ({"after": [True]}, TypeError, "after: True"),
    ({"after": [999]}, ValueError, "after: .*999"),
    ({"connection": object()}, TypeError, "connection "),
]


@pytest.mark.parametrize(("options", "error", "message"), OPTIONS)
def test_bad_options_of_an_enqueue_are_refused_before_anything_is_written(
    options: dict[str, Any], error: type[Exception], message: str, q: Queue
) -> None:
    job = q.job()(handler)

    with pytest.raises(error, match=message):
        job.options(**options).enqueue(ARTIST)
    assert rows(q) == 0


def test_a_connection_of_another_library_is_refused(tmp_path: Path) -> None:
    with Queue(f"sqlite:///{tmp_path / 'jobs.db'}", driver="apsw") as q:
        job = q.job()(handler)
        other = sqlite3.connect(":memory:")
        with pytest.raises(TypeError, match=r"\bsqlite3\b.*\bapsw\b"):
            job.options(connection=other).enqueue(ARTIST)
        other.close()


def test_when_a_job_is_due_can_be_said_in_every_usual_way(q: Queue, clock: VirtualClock) -> None:
    job = q.job()(handler)
    now = clock.now()
    at = datetime.fromtimestamp(now + 60, UTC)
    for due in (60, 60.0, "1m", timedelta(minutes=1), at):
        assert job.options(due=due).enqueue(ARTIST).get().due_at == pytest.approx(now + 60)
    assert job.enqueue(ARTIST).get().due_at == pytest.approx(now)


def test_a_unique_job_is_there_once_and_the_twin_is_returned(q: Queue) -> None:
    job = q.job(unique=lambda a: (a.kind, a.id))(handler)
    first, twin, other = (
        job.enqueue(ARTIST),
        job.enqueue(Submission("artist", 1, "eve")),
        job.enqueue(Submission("x", 1)),
    )

    assert (first.created, twin.created, other.created) == (True, False, True)
    assert first.id == twin.id != other.id
    assert first == Enqueued(first.id, True, cast("Any", None), cast("Any", None))


def test_a_unique_of_none_is_no_unique(q: Queue) -> None:
    job = q.job(unique=lambda a: None)(handler)

    assert job.enqueue(ARTIST).id != job.enqueue(ARTIST).id


def test_long_and_strange_keys_are_told_apart(q: Queue) -> None:
    job = q.job(unique=lambda a: a.user, key=lambda a: a.user, target=TARGET)(handler)
    users = ["x" * 10_000, "x" * 9_999, "\ud800", "a\x00b", "", "naïve", "1"]
    found = [job.enqueue(Submission("artist", 1, user)) for user in users]

    assert all(each.created for each in found)
    assert len({each.get().lane for each in found}) == len(users)
    assert not any(job.enqueue(Submission("artist", 1, user)).created for user in users)


def test_a_unique_that_json_cannot_hold_is_refused(q: Queue) -> None:
    job = q.job(unique=lambda a: object())(handler)

    with pytest.raises(TypeError, match=r"unique: .*\bobject\b"):
        job.enqueue(ARTIST)


def test_a_job_can_be_refused_with_a_code_of_the_book_or_of_ones_own(q: Queue) -> None:
    job = q.job(target=Target("spotify", rules=rules.spotify))(handler)
    known, own = job.refuse((ARTIST,), "scope_missing"), job.refuse((ARTIST,), "NOT_PDF", "This is no PDF.")

    assert known.get().error_code == "scope_missing"
    assert known.get().error_message == rules.spotify.code_book["scope_missing"].message
    assert (own.state(), own.get().error_message) == (JobState.FAILED, "This is no PDF.")
    with pytest.raises(ValueError, match="code: ''"):
        job.refuse((ARTIST,), "")


# -- what has become of it -------------------------------------------------------------------------------------------


def test_a_handle_tells_what_has_become_of_its_job(q: Queue) -> None:
    job = q.job()(handler).enqueue(ARTIST)
    assert job.state() is JobState.QUEUED
    with pytest.raises(TimeoutError, match="queued"):
        job.result(timeout=0)
    with pytest.raises(RuntimeError, match="inline"):
        job.result()

    assert q.drain() == Drained(done=1, again=0, failed=0, held=0, remaining=0)
    found = q.get(job)
    assert (found.state, found.result) == (JobState.DONE, 1)
    assert found.args == {"a": {"kind": "artist", "id": 1, "user": "ada"}}
    assert (job.state(), job.result(), job.get()) == (JobState.DONE, 1, found)
    assert [event.kind for event in q.events(job)] == ["queued", "processing", "done"]


def test_a_result_comes_back_with_the_type_that_was_announced(q: Queue) -> None:
    @q.job()
    async def same(a: Submission) -> Submission:
        return a

    @q.job()
    async def inside(a: Submission) -> Done[Submission] | None:
        return Done(a)

    @q.job()
    async def other_than_announced(a: int) -> int:
        return cast("int", "text")

    jobs: list[Enqueued[Any]] = [same.enqueue(ARTIST), inside.enqueue(ARTIST)]
    odd = other_than_announced.enqueue(1)
    q.drain()

    assert [job.result() for job in jobs] == [ARTIST, ARTIST]
    assert (odd.state(), odd.get().result) == (JobState.DONE, "text")


def test_waiting_ends_with_the_job(q: Queue, clock: VirtualClock) -> None:
    @q.job()
    async def slow(a: int) -> int:
        await asyncio.sleep(100)
        return a

    async def main() -> None:
        job = slow.enqueue(7)
        stop = asyncio.Event()
        worker = asyncio.create_task(q.arun_worker(stop=stop))
        with pytest.raises(TimeoutError, match=r"job 1 .*\brunning\b.*\b10s"):
            await job.wait("10s")
        assert (await job.wait()).state is JobState.DONE
        assert (await job.wait(0)).result == 7
        stop.set()
        await worker

    clock.run(main())


def test_a_job_that_nobody_knows_is_a_key_error(q: Queue) -> None:
    for ask in (q.get, q.cancel):
        with pytest.raises(NotFound, match="job 7"):
            ask(7)
    with pytest.raises(TypeError, match="job: 'seven'"):
        q.get("seven")  # type: ignore[arg-type]
    assert q.events(7) == []
    assert (q.retry(7), q.forget(7)) == (False, False)


def test_people_act_on_jobs(q: Queue) -> None:
    @q.job(cancellable=False)
    async def stubborn(a: int) -> None: ...

    @q.job(attempts=1)
    async def fails(a: int) -> None:
        raise Fail("not_found")

    waiting = q.job()(handler).options(due="1h").enqueue(ARTIST)
    failed, kept = fails.enqueue(1), stubborn.options(due="1h").enqueue(1)
    q.drain()

    assert q.cancel(waiting) == "cancelled"
    assert waiting.state() is JobState.CANCELLED
    with pytest.raises(Rejected, match=r"'default\.stubborn'"):
        q.cancel(kept)
    assert q.retry(failed)
    assert failed.state() is JobState.QUEUED
    assert not q.retry(failed)
    assert not q.forget(kept)
    assert q.forget(waiting, by="ada")
    with pytest.raises(NotFound):
        q.get(waiting)
    assert not q.forget(waiting)
    (event,) = q.store.read(lambda tx: table.events(tx, "queue", "default", 10))
    assert (event.kind, event.actor, event.fields["job"]) == ("job_forgotten", "ada", waiting.id)


def test_a_due_time_may_be_unix_time_as_other_times_may(q: Queue) -> None:
    job = q.job()(handler)
    assert q.get(job.options(due=4_000_000_000).enqueue(ARTIST)).due_at == 4_000_000_000


def test_no_job_has_a_number_that_no_database_can_hold(q: Queue) -> None:
    q.job()(handler)
    for ask in (q.get, q.explain, q.cancel):
        with pytest.raises(NotFound, match="digits"):
            ask(2**63)


def test_names_of_queues_are_a_set_and_no_text(q: Queue) -> None:
    q.job()(handler)
    wrong: Any = "default"
    with pytest.raises(TypeError, match="queues: 'default'"):
        asyncio.run(q.arun_worker(queues=wrong))
    several: Any = ["default"]
    with pytest.raises(TypeError, match=r"queue: .'default'. "):
        q.drain(several)


@pytest.mark.parametrize("driver", ["apsw", "sqlite3"])
def test_a_task_puts_a_job_in_on_the_connection_of_its_own_thread(tmp_path: Path, driver: str) -> None:
    path = tmp_path / "jobs.db"
    connect: Any = {"apsw": apsw.Connection, "sqlite3": sqlite3.connect}[driver]
    with Queue(f"sqlite:///{path}", driver=driver) as queue:

        @queue.job(name="add")
        def add(a: int) -> None: ...

        add.enqueue(1)
        own = connect(str(path))
        own.execute("begin immediate")
        kept = asyncio.run(add.options(connection=own).aenqueue(2))
        own.execute("rollback")
        own.close()
        with pytest.raises(NotFound):
            queue.get(kept.id)
