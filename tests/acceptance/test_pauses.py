"""Workers stand still for longer than their leases: what they bring afterwards is refused, and on record."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.chaos import Plan, rampage, still_open
from tests.acceptance.checker import Verdict, check
from tests.acceptance.crew import crew
from tests.acceptance.program import Effect, Orders, Program
from tests.databases import Database

JOBS = 4


def test_what_paused_workers_bring_too_late_is_refused(db: Database, tmp_path: Path) -> None:
    run = rampage(Plan(url=db.url, kills=10, pauses=8, lease=1.5, seed=5), tmp_path)
    print(run)  # noqa: T201

    assert run.ok, run
    assert run.verdict.lost_attempts > 0


def test_a_late_result_is_refused_and_recorded(db: Database, tmp_path: Path) -> None:
    verdict = overtaken(db, tmp_path)

    assert verdict.ok, verdict
    assert verdict.late_results == JOBS


@pytest.mark.parametrize(
    ("plant", "broken"),
    [("unfenced", "only the newest lease's result counts"), ("by-id-alone", "the numbers are right")],
)
def test_the_checker_catches_a_settle_without_its_fence(db: Database, tmp_path: Path, plant: str, broken: str) -> None:
    verdict = overtaken(db, tmp_path, plant)

    assert broken in verdict.wrong, verdict


def overtaken(db: Database, folder: Path, plant: str = "") -> Verdict:
    """One worker stands still with jobs under way, another takes them over, and the first comes back."""
    numbers = {"lease": 1.0, "renew_every": 0.25, "margin": 0.25, "sweep_every": 0.1, "poll_every": 0.1, "grace": 5.0}
    effects = folder / "effects.txt"
    orders = Orders(url=db.url, effects=str(effects), log=str(folder / "log.txt"), numbers=numbers, plant=plant)
    program = Program(orders)
    _, blocks = program.kinds
    with crew(orders, 1) as people:
        put = blocks.enqueue_many([Effect(n, lasts=2.0) for n in range(JOBS)])
        wait_until(lambda: len(begun(effects)) == JOBS)
        time.sleep(0.1)  # between two turns: who stands still in a transaction would hold up everybody
        (slow,) = people.at_work
        assert slow.pid is not None
        os.kill(slow.pid, signal.SIGSTOP)
        people.paused[slow.pid] = time.monotonic() + 60
        people.size = 2
        people.fill()
        wait_until(lambda: sum(fence == 2 for _, fence in begun(effects)) == JOBS)
        time.sleep(0.3)
        people.resume(everybody=True)
        wait_until(lambda: still_open(db.url) == 0)
        time.sleep(2.5)  # whoever is still at work may bring something, too
        verdict = check(db.url, effects, put=[job.id for job in put])
    program.q.close()
    return verdict


def begun(effects: Path) -> list[tuple[int, int]]:
    if not effects.exists():
        return []
    lines = [line.split() for line in effects.read_text().splitlines()]
    return [(int(line[0]), int(line[1])) for line in lines]


def wait_until(true: Callable[[], bool], patience: float = 30) -> None:
    end = time.monotonic() + patience
    while not true():
        assert time.monotonic() < end, "it did not come to that in time"
        time.sleep(0.02)
