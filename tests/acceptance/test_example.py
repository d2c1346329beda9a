"""The example, on SQLite and, with only the URL changed, on PostgreSQL: a killed worker changes nothing in the end."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.acceptance.chaos import still_open
from tests.acceptance.checker import rows
from tests.databases import Database

EXAMPLE = Path(__file__).parents[2] / "examples" / "jobs.py"
ORDERS = 120
TOTAL = sum(1999 * (1 + number % 7) for number in range(ORDERS))
EXPECTED = f"{{'done': {2 * ORDERS}}}, {ORDERS} mails, {TOTAL / 100:.2f} in all\n"


def example(db: Database, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, EXAMPLE, db.url, *words], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def worker(db: Database) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, EXAMPLE, db.url, "work", "4"], stdout=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def finished(db: Database) -> int:
    return int(rows(db.url, "select count(*) from tg_job where state = 'done'")[0][0])


def wait_for(db: Database, done: int) -> None:
    end = time.monotonic() + 150
    while finished(db) < done:
        assert time.monotonic() < end, f"only {finished(db)} of {done} are done; {still_open(db.url)} are open"
        time.sleep(0.02)


def kill_at_work(db: Database, process: subprocess.Popen[bytes]) -> None:
    """Kills it while it holds a job; it is stopped to see whether it does."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        process.send_signal(signal.SIGSTOP)
        if rows(db.url, f"select id from tg_job where state = 'running' and lease_by like '%-{process.pid}-%'"):
            process.kill()
            return
        process.send_signal(signal.SIGCONT)
        time.sleep(0.01)
    raise AssertionError("it never held a job")


@pytest.mark.parametrize("victim", [None, 0, 1])
def test_two_workers_come_to_the_same_end_whoever_is_killed(db: Database, victim: int | None) -> None:
    assert example(db, "put", str(ORDERS)) == f"{ORDERS} orders are in\n"
    with worker(db) as one, worker(db) as other:
        wait_for(db, ORDERS // 4)
        assert one.poll() is other.poll() is None
        if victim is not None:
            kill_at_work(db, (one, other)[victim])
        wait_for(db, 2 * ORDERS)

    assert example(db, "report", str(ORDERS)) == EXPECTED
    deaths = rows(db.url, "select sum(deaths) from tg_job")[0][0]
    assert bool(deaths) == (victim is not None)
    assert example(db, "put", str(ORDERS)) == f"{ORDERS} orders are in\n"  # and once more changes nothing
    assert example(db, "report", str(ORDERS)) == EXPECTED


def test_the_example_says_how_it_is_used(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLE], capture_output=True, text=True, timeout=120, cwd=tmp_path, check=False
    )
    assert done.returncode == 1
    assert "put 200" in done.stderr
    assert list(tmp_path.iterdir()) == []
