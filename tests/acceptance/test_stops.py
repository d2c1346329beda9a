"""Workers are asked to stop at random moments; a second signal, and what hangs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tests.acceptance.chaos import Plan, Run, rampage
from tests.acceptance.checker import rows
from tests.databases import Database


def asked_to_stop(db: Database, folder: Path, times: int, seed: int) -> Run:
    run = rampage(plan := Plan(url=db.url, stops=times, lease=30.0, seed=seed), folder)
    print(run)  # noqa: T201
    assert run.ok, run
    assert len(run.stops) == times
    assert max(stop.seconds for stop in run.stops) < plan.numbers["grace"]  # nobody was waited for to the end
    assert run.verdict.lost_attempts == 0
    return run


def test_a_worker_that_is_asked_to_stop_ends_well_and_loses_nothing(db: Database, tmp_path: Path) -> None:
    asked_to_stop(db, tmp_path, 20, seed=3)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_hundred_workers_that_are_asked_to_stop_end_well_and_lose_nothing(db: Database, tmp_path: Path) -> None:
    asked_to_stop(db, tmp_path, 100, seed=4)


PROGRAM = """
    import asyncio, logging, sys, time
    from tidegate.jobs.queue import Queue
    from tidegate.jobs.context import Context

    logging.basicConfig()
    q = Queue(sys.argv[1])

    @q.job()
    def hangs(n: int) -> None:
        print("begun", flush=True)
        time.sleep(600)

    @q.job()
    async def blocks(n: int) -> None:
        print("begun", flush=True)
        time.sleep(600)

    @q.job()
    async def slow(n: int) -> str:
        print("begun", flush=True)
        await asyncio.sleep(1.5)
        return "finished"

    @q.job()
    async def endless(n: int, job: Context) -> None:
        print("begun", flush=True)
        while not job.stopping:
            await asyncio.sleep(0.05)
        print("stopping", flush=True)
        await asyncio.sleep(600)

    @q.job()
    async def stubborn(n: int) -> None:
        print("begun", flush=True)
        while True:
            try:
                await asyncio.sleep(600)
            except asyncio.CancelledError:
                pass

    {kind}.enqueue(1)
    print(q.run_worker(grace={grace}))
"""


class Process:
    """One program with one job that is under way."""

    def __init__(self, folder: Path, kind: str, grace: float) -> None:
        self.url = f"sqlite:///{folder / 'jobs.db'}"
        text = textwrap.dedent(PROGRAM).format(kind=kind, grace=grace)
        self.process = subprocess.Popen(
            [sys.executable, "-c", text, self.url], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.line() == "begun\n"

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def signal(self, number: int = signal.SIGTERM) -> None:
        os.kill(self.process.pid, number)

    def ended(self, patience: float = 120) -> tuple[int, float, str]:
        """Its exit code, how many seconds that took, and what it said."""
        began = time.monotonic()
        _, said = self.process.communicate(timeout=patience)
        return self.process.returncode, time.monotonic() - began, said

    def job(self) -> tuple[str, int, str | None]:
        found: tuple[str, int, str | None] = rows(self.url, "select state, attempt, result from tg_job")[0]
        return found


def test_what_runs_may_finish(tmp_path: Path) -> None:
    process = Process(tmp_path, "slow", grace=60)
    process.signal()
    code, took, _ = process.ended()

    assert code == 0
    assert took < 60
    assert process.job() == ("done", 1, '"finished"')


def test_a_second_signal_ends_the_process_at_once(tmp_path: Path) -> None:
    process = Process(tmp_path, "endless", grace=600)
    process.signal()
    assert process.line() == "stopping\n"
    process.signal()
    code, _, _ = process.ended()

    assert code == -signal.SIGTERM
    assert process.job() == ("running", 1, None)  # until its lease ends


def test_control_c_is_a_stop_too(tmp_path: Path) -> None:
    process = Process(tmp_path, "slow", grace=60)
    process.signal(signal.SIGINT)
    code, _, _ = process.ended()

    assert (code, process.job()) == (0, ("done", 1, '"finished"'))


def test_a_thread_that_hangs_does_not_keep_the_process(tmp_path: Path) -> None:
    process = Process(tmp_path, "hangs", grace=0.5)
    process.signal()
    code, _, _ = process.ended()

    assert code == 0
    assert process.job() == ("ready", 1, None)  # given back: what the thread might still have done counts no more


@pytest.mark.alone
@pytest.mark.parametrize("kind", ["blocks", "stubborn"])
def test_a_handler_that_cannot_be_cancelled_is_ended_with_the_process(tmp_path: Path, kind: str) -> None:
    process = Process(tmp_path, kind, grace=0.5)
    process.signal()
    code, _, said = process.ended()

    assert code == 1
    assert "stop_took_too_long" in said
    # Where the loop still turned, the job was given back in time; where it stood still, its lease will end.
    assert process.job() == ("ready" if kind == "stubborn" else "running", 1, None)
