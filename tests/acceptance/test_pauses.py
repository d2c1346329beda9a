"""Workers stand still for longer than their leases: what they bring afterwards is refused, and on record."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import apsw
import psutil
import pytest

from tests.acceptance.chaos import Plan, rampage, still_open
from tests.acceptance.checker import Verdict, check, rows
from tests.acceptance.crew import Crew, crew
from tests.acceptance.program import Effect, Orders, Program
from tests.databases import Database

# How many results of the first attempts have come, whatever became of them.
SETTLED = """select (select count(*) from tg_job where state = 'done')
    + (select count(*) from tg_event where kind = 'stale_result')"""
BUSY = """select 1 from pg_stat_activity
    where application_name = current_setting('application_name') and state <> 'idle' and pid <> pg_backend_pid()"""


@pytest.mark.full
def test_what_paused_workers_bring_too_late_is_refused(db: Database, tmp_path: Path) -> None:
    run = rampage(Plan(url=db.url, kills=10, pauses=8, lease=1.5, seed=5), tmp_path)
    print(run)  # noqa: T201

    assert run.ok, run
    assert run.verdict.lost_attempts > 0


# Jobs whose worker was lost run alone for ten seconds each.
@pytest.mark.parametrize("jobs", [1, pytest.param(4, marks=pytest.mark.full)])
def test_a_late_result_is_refused_and_recorded(db: Database, tmp_path: Path, jobs: int) -> None:
    verdict = overtaken(db, tmp_path, jobs, until=lambda found: found.done == found.late_results == jobs)

    assert verdict.ok, verdict
    assert verdict.late_results == jobs


@pytest.mark.parametrize(
    ("plant", "broken"),
    [
        ("unfenced", "only the newest lease's result counts"),
        pytest.param("by-id-alone", "the numbers are right", marks=pytest.mark.full),
    ],
)
def test_the_checker_catches_a_settle_without_its_fence(db: Database, tmp_path: Path, plant: str, broken: str) -> None:
    verdict = overtaken(db, tmp_path, 1, plant, until=lambda found: broken in found.wrong)

    assert broken in verdict.wrong, verdict


def overtaken(db: Database, folder: Path, jobs: int, plant: str = "", *, until: Callable[[Verdict], bool]) -> Verdict:
    """One worker stands still with jobs under way, another takes them over, and the first comes back before it."""
    numbers = {"lease": 4.0, "renew_every": 0.5, "margin": 0.5, "sweep_every": 0.1, "poll_every": 0.1, "grace": 5.0}
    effects, go = folder / "effects.txt", folder / "go"
    orders = Orders(url=db.url, effects=str(effects), log=str(folder / "log.txt"), numbers=numbers, plant=plant)
    program = Program(orders)
    _, blocks = program.kinds
    with crew(orders, 1) as people:
        put = blocks.enqueue_many([(Effect(n, until=str(go)),) for n in range(jobs)])
        wait_until(lambda: len(begun(effects)) == jobs)
        stand_still(people, db.url)
        people.size = 2
        people.fill()
        wait_until(lambda: sum(fence == 2 for _, fence in begun(effects)) == jobs)
        Path(f"{go}1").touch()
        people.resume(everybody=True)
        wait_until(lambda: rows(db.url, SETTLED)[0][0] == jobs)
        Path(f"{go}2").touch()
        wait_until(lambda: still_open(db.url) == 0 and until(check(db.url, effects, put=[job.id for job in put])))
        verdict = check(db.url, effects, put=[job.id for job in put])
    program.q.close()
    return verdict


def stand_still(people: Crew, url: str) -> None:
    """Stops the one who is at work between two transactions: inside of one it would hold up everybody."""
    (slow,) = people.at_work
    assert slow.pid is not None

    def stopped() -> bool:
        people.pause(slow, 600)
        wait_until(lambda: psutil.Process(slow.pid).status() == psutil.STATUS_STOPPED)
        if nobody_writes(url):
            return True
        people.resume(everybody=True)
        return False

    wait_until(stopped)


def nobody_writes(url: str) -> bool:
    if not url.startswith("sqlite"):
        return not rows(url, BUSY)
    connection = apsw.Connection(url.removeprefix("sqlite:///"))
    try:
        connection.execute("begin immediate")
    except apsw.BusyError:
        return False
    else:
        return True
    finally:
        connection.close()


def begun(effects: Path) -> list[tuple[int, int]]:
    if not effects.exists():
        return []
    lines = [line.split() for line in effects.read_text().splitlines()]
    return [(int(line[0]), int(line[1])) for line in lines]


def wait_until(true: Callable[[], bool], patience: float = 60) -> None:
    end = time.monotonic() + patience
    while not true():
        assert time.monotonic() < end, "it did not come to that in time"
        time.sleep(0.02)
