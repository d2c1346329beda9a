"""A job that kills its process, among innocent ones: only that one fails."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tests.acceptance.checker import rows
from tests.databases import Database

PROGRAM = """
    import asyncio, ctypes, os, sys, time
    from tidegate import Backoff, Queue

    q = Queue(sys.argv[1])

    @q.job(backoff=Backoff(0.1))
    def innocent(n: int) -> int:
        time.sleep(0.3)
        return n

    @q.job(backoff=Backoff(0.1))
    async def innocent_too(n: int) -> int:
        await asyncio.sleep(0.3)
        return n

    @q.job()
    def segfault(n: int) -> None:
        time.sleep(0.1)
        ctypes.string_at(0)

    @q.job()
    async def leaves(n: int) -> None:
        await asyncio.sleep(0.1)
        os._exit(1)

    @q.job()
    async def interrupts(n: int) -> None:
        raise KeyboardInterrupt

    if sys.argv[2] == "put":
        innocent.enqueue_many([(n,) for n in range(8)])
        {poison}.enqueue(0)
        innocent_too.enqueue_many([(n,) for n in range(7)])
    else:
        q.run_worker(20, lease=2.0, renew_every=0.4, margin=0.4, sweep_every=0.3, poll_every=0.2)
"""
OPEN = "select count(*) from tg_job where state not in ('done', 'failed', 'cancelled')"
JOBS = "select kind, state, error_code, deaths, deaths_alone from tg_job"


@pytest.mark.parametrize("poison", ["segfault", pytest.param("leaves", marks=pytest.mark.full)])
def test_of_a_job_that_kills_its_worker_and_its_neighbours_only_that_job_fails(
    db: Database, tmp_path: Path, poison: str
) -> None:
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(PROGRAM).format(poison=poison))
    subprocess.run([sys.executable, str(program), db.url, "put"], check=True)
    died = 0
    end = time.monotonic() + 240
    worker = subprocess.Popen([sys.executable, str(program), db.url, "work"], stderr=subprocess.DEVNULL)
    try:
        while rows(db.url, OPEN)[0][0] and time.monotonic() < end:
            if worker.poll() is not None:
                died += 1
                worker = subprocess.Popen([sys.executable, str(program), db.url, "work"], stderr=subprocess.DEVNULL)
            time.sleep(0.1)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 0
    finally:
        worker.kill()
        worker.wait()

    found = rows(db.url, JOBS)
    assert [(state, code, alone) for kind, state, code, _, alone in found if kind.endswith(poison)] == [
        ("failed", "worker_lost", 3)
    ]
    innocent = [each for each in found if not each[0].endswith(poison)]
    assert {state for _, state, *_ in innocent} == {"done"}
    assert max(deaths for _, _, _, deaths, _ in innocent) <= 1
    assert died == 4


def test_ctrl_c_stops_a_worker_whose_handlers_raise_interrupts_of_their_own(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(PROGRAM).format(poison="interrupts"))
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    subprocess.run([sys.executable, str(program), url, "put"], check=True)
    worker = subprocess.Popen([sys.executable, str(program), url, "work"], stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 60
        while rows(url, "select count(*) from tg_job where last_code = 'unexpected'")[0][0] < 1:
            assert time.monotonic() < end
            time.sleep(0.1)
        assert worker.poll() is None
        worker.send_signal(signal.SIGINT)
        assert worker.wait(60) == 0
    finally:
        worker.kill()
        worker.wait()
