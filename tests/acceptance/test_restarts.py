"""The database crashes and comes back, again and again, while workers are at it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.chaos import Plan, Run, rampage
from tests.acceptance.pg_server import own_server


def crashed(folder: Path, times: int, seed: int) -> Run:
    with own_server() as server:
        plan = Plan(url=server.url, restarts=times, every=1.0, seed=seed, patience=150)
        run = rampage(plan, folder, server.crash_and_restart)
    print(run)  # noqa: T201
    return run


@pytest.mark.parametrize("crashes", [1, pytest.param(5, marks=pytest.mark.full)])
def test_all_jobs_finish_although_the_database_crashes(tmp_path: Path, crashes: int) -> None:
    run = crashed(tmp_path, crashes, seed=6)

    assert run.ok, run
    assert run.verdict.poisoned == 0


@pytest.mark.long
@pytest.mark.timeout(600)
def test_all_jobs_finish_although_the_database_crashes_twenty_times(tmp_path: Path) -> None:
    run = crashed(tmp_path, 20, seed=7)

    assert run.ok, run
    assert run.verdict.poisoned == 0
