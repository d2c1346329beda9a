"""What applications need of a queue beside the usual: places that are given up, jobs that are kept, blame."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.databases import APSW, POSTGRES, STDLIB, Database
from tests.jobs.building import days_pass, work_for
from tests.jobs.gating import queue_on, working
from tidegate import Fail, Queue, Target, classify
from tidegate.clock import VirtualClock
from tidegate.errors import NotFound
from tidegate.jobs.job import JobState
from tidegate.testing import Status, StatusError

everywhere = pytest.mark.parametrize("db", [APSW, STDLIB, POSTGRES], indirect=True)


@everywhere
def test_a_final_job_gives_up_its_place_and_stays(db: Database) -> None:
    clock = VirtualClock()
    with queue_on(db, clock) as q:

        @q.job(unique=lambda n: n, while_={"queued", "running", "done"})
        async def make(n: int) -> str:
            return "made"

        first = make.enqueue(1)
        assert not q.release_unique(first), "a job that is not final keeps its place"
        clock.run(work_for(1, q))
        assert not make.enqueue(1).created

        assert q.release_unique(first)
        second = make.enqueue(1)
        assert second.created
        assert q.get(first).state is JobState.DONE
        assert not q.release_unique(first), "it held none any more"
        assert not make.enqueue(1).created


@everywhere
def test_a_job_that_failed_may_say_what_that_means_for_its_target(db: Database) -> None:
    clock = VirtualClock()
    with queue_on(db, clock) as q:

        @q.job(target=Target("svc", backoff=None))
        async def call(n: int) -> None:
            raise Fail("bad_request", status=401, fault=classify(StatusError(Status(401))))

        first, second = call.enqueue(1), call.enqueue(2)
        clock.run(work_for(60, q, concurrency=1))

        assert (q.get(first).state, q.get(first).error_code) == (JobState.FAILED, "bad_request")
        assert (q.get(second).state, q.get(second).attempt) == (JobState.QUEUED, 0), "the gate is shut"
        assert str(q.explain(second)[0].reason) == "fatal"
        assert q.target("svc").key("").clear()
        clock.run(work_for(60, q, concurrency=1))
        assert q.get(second).state is JobState.FAILED


@pytest.mark.parametrize(("said", "days"), [({}, 20), ({"mail": {"done": "2d"}}, 2)])
def test_a_queue_keeps_its_jobs_as_its_program_says_unless_the_settings_name_it(
    tmp_path: Path, said: dict[str, dict[str, str]], days: int
) -> None:
    clock = VirtualClock()
    with Queue(f"sqlite:///{tmp_path / 'jobs.db'}", clock=clock, inline=True, retention=said) as q:

        @q.job(queue="mail")
        async def send(n: int) -> None: ...

        q.set_retention("mail", done="20d")
        job = send.enqueue(1)
        clock.run(days_pass(days - 1, q))
        assert q.get(job).state is JobState.DONE
        clock.run(days_pass(2, q))
        with pytest.raises(NotFound):
            q.get(job)


def test_what_is_kept_is_checked() -> None:
    with Queue("sqlite:///never-opened.db") as q, pytest.raises(ValueError, match="'queued'"):
        q.set_retention("mail", queued="1d")


def test_a_job_that_an_application_puts_in_with_its_own_rows_wakes_a_worker_at_once(tmp_path: Path) -> None:
    clock = VirtualClock()
    with Queue(f"sqlite:///{tmp_path / 'jobs.db'}", clock=clock, inline=True) as q:
        db = q.db("shop", statements="-- name: one\nselect 1;")

        @q.job()
        async def send(n: int) -> None: ...

        async def main() -> JobState:
            async with working(q, poll_every=1800.0):
                await asyncio.sleep(60)
                job = db.write(lambda tx: send.options(connection=tx).enqueue(1))
                await asyncio.sleep(1)
                return q.get(job).state

        assert clock.run(main()) is JobState.DONE
