"""How long final jobs are kept: by queue, for all other queues, and by default."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.jobs.building import days_pass
from tidegate import Queue
from tidegate.clock import VirtualClock
from tidegate.errors import NotFound
from tidegate.testing import work_for


@pytest.mark.parametrize(
    ("retention", "gone_after"),
    [
        ({}, {"mail": 7, "sync": 7}),
        ({"*": {"done": "2d"}}, {"mail": 2, "sync": 2}),
        ({"*": {"done": "2d"}, "mail": {"done": "4d"}}, {"mail": 4, "sync": 2}),
        ({"mail": {"failed": "1d"}}, {"mail": 7, "sync": 7}),
    ],
    ids=["defaults", "all", "one apart", "another state"],
)
def test_a_done_job_is_kept_as_long_as_its_queue_says(
    tmp_path: Path, retention: dict[str, dict[str, str]], gone_after: dict[str, int]
) -> None:
    clock = VirtualClock()
    with Queue(f"sqlite:///{tmp_path / 'jobs.db'}", clock=clock, inline=True, retention=retention) as q:

        @q.job(queue="mail")
        async def send(n: int) -> None: ...

        @q.job(queue="sync")
        async def pull(n: int) -> None: ...

        jobs = {"mail": send.enqueue(1).id, "sync": pull.enqueue(1).id}
        clock.run(days_pass(0.5, q))  # half a day to spare for the sweeps
        seen = dict.fromkeys(jobs, 0)
        for day in range(1, 9):
            clock.run(days_pass(1, q))
            for queue, id_ in jobs.items():
                if seen[queue] == 0 and not _there(q, id_):
                    seen[queue] = day
        assert seen == gone_after


def test_each_queue_is_pruned_by_a_worker_that_serves_it(tmp_path: Path) -> None:
    clock = VirtualClock()
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    with (
        Queue(url, clock=clock, inline=True, retention={"mail": {"done": "30m"}}) as mail,
        Queue(url, clock=clock, inline=True, retention={"sync": {"done": "10m"}}) as sync,
    ):

        @mail.job(queue="mail")
        async def send(n: int) -> None: ...

        @sync.job(queue="sync")
        async def pull(n: int) -> None: ...

        jobs = [(mail, send.enqueue(1).id), (sync, pull.enqueue(1).id)]

        async def main() -> None:
            first = asyncio.create_task(work_for(mail, "42m"))
            await asyncio.sleep(120)  # it leads, and goes on doing so
            second = asyncio.create_task(work_for(sync, "40m"))
            await asyncio.sleep(5 * 60)
            assert [_there(q, id_) for q, id_ in jobs] == [True, True]
            await asyncio.sleep(15 * 60)
            assert [_there(q, id_) for q, id_ in jobs] == [True, False]
            await asyncio.gather(first, second)
            assert [_there(q, id_) for q, id_ in jobs] == [False, False]

        clock.run(main())


def test_what_a_cycle_has_done_goes_too(tmp_path: Path) -> None:
    clock = VirtualClock()
    kept = {"*": {"done": "10m"}}
    with Queue(f"sqlite:///{tmp_path / 'jobs.db'}", clock=clock, inline=True, retention=kept) as q:

        @q.job(queue="visits")
        async def visit(n: int) -> None: ...

        @q.job(queue="mail")
        async def send(n: int) -> None: ...

        q.batch_only("visits")
        made = visit.enqueue(1).id
        clock.run(q.adrain("visits"))
        clock.run(work_for(q, "8m"))
        assert _there(q, made)
        clock.run(work_for(q, "6m"))
        assert not _there(q, made)


def test_a_program_that_only_works_in_cycles_removes_what_is_old_too(tmp_path: Path) -> None:
    clock = VirtualClock()
    kept = {"*": {"done": "10m"}}
    with Queue(f"sqlite:///{tmp_path / 'jobs.db'}", clock=clock, inline=True, retention=kept) as q:

        @q.job(queue="visits")
        async def visit(n: int) -> None: ...

        made = [each.id for each in visit.enqueue_many([(each,) for each in range(500)])]  # more than one slice
        clock.run(q.adrain())
        clock.advance("8m")
        clock.run(q.adrain())
        assert all(_there(q, id_) for id_ in made)
        clock.advance("6m")
        clock.run(q.adrain())
        assert not any(_there(q, id_) for id_ in made)
        assert len(q.store.read(lambda tx: tx.query("rollups", {"scope": "all", "name": "", "since": 0}))) == 3


def test_a_cycle_that_was_stopped_does_nothing_more(tmp_path: Path) -> None:
    clock, stop = VirtualClock(), asyncio.Event()
    with Queue(f"sqlite:///{tmp_path / 'jobs.db'}", clock=clock, inline=True, retention={"*": {"done": "1m"}}) as q:

        @q.job()
        async def visit(n: int) -> None: ...

        made = visit.enqueue(1).id
        clock.run(q.adrain())
        clock.advance("1h")
        stop.set()
        clock.run(q.adrain(stop=stop))
        assert _there(q, made)


def _there(q: Queue, id_: int) -> bool:
    try:
        return q.get(id_).state == "done"
    except NotFound:
        return False
