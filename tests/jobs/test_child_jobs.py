"""Jobs whose handlers run in child processes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.jobs import risky
from tidegate import JobFailed
from tidegate.children.pool import Limits
from tidegate.clock import VirtualClock
from tidegate.guard.backoff import Backoff
from tidegate.guard.target import Target
from tidegate.jobs.function import Enqueued
from tidegate.jobs.job import Job
from tidegate.jobs.queue import Queue
from tidegate.targets import table

AT_ONCE = Backoff(0.001, cap=0.001, jitter=0)


@pytest.fixture
def q(tmp_path: Path) -> Iterator[Queue]:
    with Queue(f"sqlite:///{tmp_path / 'jobs.db'}") as found:
        yield found


@asynccontextmanager
async def worker(q: Queue, **numbers: Any) -> AsyncIterator[asyncio.Event]:
    stop = asyncio.Event()
    task = asyncio.create_task(q.arun_worker(2, stop=stop, **numbers))
    try:
        yield stop
    finally:
        stop.set()
        await task


async def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end
        await asyncio.sleep(0.01)


def gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


async def finished(job: Enqueued[Any]) -> Job:
    return await job.wait("120s")


async def test_a_handler_in_a_child_knows_its_job_and_its_result_is_kept(q: Queue) -> None:
    counted = q.job(process=True)(risky.counted)
    known = q.job(process=True)(risky.known)
    parent = counted.enqueue(risky.Page("a b"))
    child = known.options(after=parent).enqueue(7)
    async with worker(q):
        await finished(child)

    page = await parent.aresult()
    assert page == risky.Page("A B", words={"a": 1, "b": 1})
    id_, attempt, fence, key, saved, parents = await child.aresult()
    assert (id_, attempt, fence, saved) == (child.id, 1, 1, {})
    assert str(key).endswith(f"-{child.id}")
    assert parents == {str(parent.id): {"name": "A B", "day": "2024-02-29", "words": {"a": 1, "b": 1}}}


async def test_a_death_fails_its_attempt_and_the_next_finds_what_was_saved(q: Queue) -> None:
    save_and_die = q.job(process=True, backoff=AT_ONCE)(risky.save_and_die)
    save_later = q.job(process=True, backoff=AT_ONCE)(risky.save_later)
    jobs = [save_and_die.enqueue(42), save_later.enqueue(43)]
    async with worker(q):
        assert [(await finished(job)).attempt for job in jobs] == [2, 2]

    assert [await job.aresult() for job in jobs] == [42, 43]
    assert [event.code for event in q.events(jobs[0]) if event.kind == "again"] == ["child_died"]


@pytest.mark.parametrize(
    ("handler", "args", "code"),
    [
        (risky.leave, 1, "child_died"),
        (risky.crash, None, "child_died"),
        (risky.hoard, None, "child_memory"),
        (risky.spin, None, "child_time"),
        (risky.fails, "network", "network"),
        (risky.fails, "fail", "NOT_PDF"),
    ],
)
async def test_a_job_that_keeps_failing_in_its_child_has_a_code_that_says_how(
    handler: Any, args: Any, code: str, q: Queue
) -> None:
    limits = Limits(memory_mb=256, time=1 if handler is risky.spin else 120)
    job = q.job(process=limits, attempts=2, backoff=AT_ONCE)(handler).enqueue(args)
    well = q.job(process=True)(risky.counted).enqueue(risky.Page("x"))
    async with worker(q):
        failed, fine = await finished(job), await finished(well)

    assert (failed.state, failed.error_code) == ("failed", code)
    assert failed.attempt == (1 if code == "NOT_PDF" else 2)
    assert fine.state == "done"


async def test_a_function_in_a_child_asks_for_the_current_context(q: Queue) -> None:
    job = q.job(process=True)(risky.asks_for_its_context).enqueue()
    async with worker(q):
        assert (await finished(job)).result == job.id


async def test_a_bug_in_a_child_is_shown_with_its_class_and_line(q: Queue) -> None:
    job = q.job(process=True, attempts=1)(risky.fails).enqueue("bug")
    async with worker(q):
        await finished(job)

    with pytest.raises(JobFailed) as failed:
        await job.aresult()
    file, _, line = failed.value.where.partition(":")
    first = risky.fails.__code__.co_firstlineno
    assert (failed.value.error_type, file) == ("KeyError", "risky.py")
    assert first < int(line) < first + 30


async def test_a_child_cannot_do_anything_after_the_commit_and_that_is_said(q: Queue) -> None:
    job = q.job(process=True, attempts=1)(risky.with_a_word_after).enqueue(7)
    async with worker(q):
        failed = await finished(job)

    assert (failed.state, failed.error_code) == ("failed", "unexpected")


def test_nor_can_it_in_virtual_time(tmp_path: Path) -> None:
    clock = VirtualClock()
    with Queue(f"sqlite:///{tmp_path / 'virtual.db'}", clock=clock, inline=True) as virtual:
        job = virtual.job(process=True, attempts=1)(risky.with_a_word_after).enqueue(7)
        clock.run(virtual.adrain())

        assert (job.get().state, job.get().error_code) == ("failed", "unexpected")


async def test_a_death_says_nothing_about_the_target(q: Queue) -> None:
    target = Target("gateway", "jobs", backoff=Backoff("1h", cap="1h"))
    job = q.job(target=target, process=True, attempts=1)(risky.leave).enqueue(1)
    after = q.job(target=target, process=True)(risky.counted).enqueue(risky.Page("x"))
    async with worker(q):
        await finished(job)
        assert (await finished(after)).state == "done"


async def test_a_person_who_cancels_a_running_job_has_its_child_killed(q: Queue, tmp_path: Path) -> None:
    said = tmp_path / "pids"
    job = q.job(process=True)(risky.hang).enqueue(str(said))
    async with worker(q, renew_every=0.05):
        await until(lambda: said.exists() and len(said.read_text().split()) == 2)
        assert q.cancel(job) == "asked"
        assert (await finished(job)).state == "cancelled"

    await until(lambda: all(gone(int(pid)) for pid in said.read_text().split()))


async def test_a_stop_kills_what_still_runs_after_the_grace_time_and_gives_the_job_back(
    q: Queue, tmp_path: Path
) -> None:
    said = tmp_path / "pids"
    job = q.job(process=True)(risky.hang).enqueue(str(said))
    async with worker(q, grace=0.1) as stop:
        await until(lambda: said.exists() and len(said.read_text().split()) == 2)
        stop.set()

    assert job.state() == "queued"
    await until(lambda: all(gone(int(pid)) for pid in said.read_text().split()))


async def test_no_child_is_left_when_the_worker_has_stopped(q: Queue) -> None:
    job = q.job(process=True)(risky.pid).enqueue(None)
    async with worker(q):
        await finished(job)

    assert gone(await job.aresult())


async def test_under_virtual_time_the_handler_runs_right_here(tmp_path: Path) -> None:
    import os

    with Queue(f"sqlite:///{tmp_path / 'jobs.db'}", clock=VirtualClock(), inline=True) as q:
        job = q.job(process=True)(risky.pid).enqueue(None)
        later = q.job(process=True)(risky.counted_later).enqueue(risky.Page("x"))
        await q.adrain()

        assert await job.aresult() == os.getpid()
        assert await later.aresult() is not None


SCRIPT = """
from tidegate.jobs.queue import Queue
from tidegate.children.pool import Limits

q = Queue("sqlite:///jobs.db")

@q.job(process=Limits(time="30s"), attempts=1)
def double(n: int) -> int:
    return 2 * n

{guard}
    job = double.enqueue(21)
    drained = q.drain()
    found = job.get()
    print(drained.done, found.result, found.error_code)
"""


@pytest.mark.parametrize(
    ("guard", "out", "err"),
    [("if __name__ == '__main__':", "1 42 None", ""), ("if True:", "0 None unexpected", "if __name__ == '__main__'")],
)
def test_a_script_declares_its_jobs_and_runs_them_in_children(
    guard: str, out: str, err: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(each for each in sys.path if each))
    (tmp_path / "script.py").write_text(SCRIPT.format(guard=guard))
    found = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )

    assert found.stdout.strip() == out
    assert err in found.stderr


async def test_a_child_that_had_nothing_to_send_says_nothing_of_its_target(q: Queue) -> None:
    target = Target("svc", breaker={"max_requests": 1})
    call = q.job(process=True, target=target)(risky.unless_sent)

    async with worker(q):
        for sent, totals in ((False, (0, 0, 0)), (True, (1, 0, 0))):
            assert (await finished(call.enqueue(sent))).result == 7
            row = q.store.read(lambda tx: table.target(tx, "svc"))
            assert row is not None
            assert row.breaker.totals == totals
