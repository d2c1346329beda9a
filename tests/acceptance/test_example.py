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
from tests.text import numbers

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
def worker(db: Database, lease: int) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, EXAMPLE, db.url, "work", str(lease)], stdout=subprocess.DEVNULL)
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


def kill_at_work(db: Database, process: subprocess.Popen[bytes]) -> bool:
    """Kills it while it holds a job, and says so; on a slow machine the other may have had them all."""
    held = f"select id from tg_job where state = 'running' and lease_by like '%-{process.pid}-%'"
    while still_open(db.url):
        if rows(db.url, held):
            process.send_signal(signal.SIGSTOP)
            time.sleep(0.2)  # what the server has of it already is done by now
            if rows(db.url, held):
                process.kill()
                return True
            process.send_signal(signal.SIGCONT)
        time.sleep(0.01)
    process.kill()
    return False


@pytest.mark.parametrize(
    "victim", [pytest.param(None, marks=pytest.mark.full), pytest.param(0, marks=pytest.mark.full), 1]
)
def test_two_workers_come_to_the_same_end_whoever_is_killed(db: Database, victim: int | None) -> None:
    assert example(db, "put", str(ORDERS)) == f"{ORDERS} orders are in\n"
    lease = 60 if victim is None else 6  # nobody loses one who is not killed; then nobody wants to wait for long
    with worker(db, lease) as one, worker(db, lease) as other:
        wait_for(db, ORDERS // 8)
        assert one.poll() is other.poll() is None
        killed = victim is not None and kill_at_work(db, (one, other)[victim])
        wait_for(db, 2 * ORDERS)

    assert example(db, "report", str(ORDERS)) == EXPECTED
    deaths = rows(db.url, "select sum(deaths) from tg_job")[0][0]
    assert bool(deaths) == killed
    assert example(db, "put", str(ORDERS)) == f"{ORDERS} orders are in\n"  # and once more changes nothing
    assert example(db, "report", str(ORDERS)) == EXPECTED


def test_the_report_tells_of_what_is_there_though_fewer_orders_were_put_in(db: Database) -> None:
    example(db, "put", "3")

    report = example(db, "report")
    assert report.startswith("{'queued': 6}")
    assert numbers(report) == [6, 0, 0, 0]  # jobs, mails, and 0.00 in all


def test_the_example_says_how_it_is_used(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLE], capture_output=True, text=True, timeout=120, cwd=tmp_path, check=False
    )
    assert done.returncode == 1
    assert "put 200" in done.stderr
    assert list(tmp_path.iterdir()) == []
