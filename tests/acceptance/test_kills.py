"""Workers are killed at random moments: nothing is lost, nothing is doubled, no stale fence is accepted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.chaos import Plan, Run, rampage
from tests.databases import Database


def killed(db: Database, folder: Path, times: int, seed: int, jobs: int) -> Run:
    run = rampage(Plan(url=db.url, kills=times, seed=seed, jobs=jobs), folder)
    print(run)  # noqa: T201
    return run


def test_a_hundred_kills_lose_nothing_and_double_no_result(db: Database, tmp_path: Path) -> None:
    run = killed(db, tmp_path, 100, seed=17, jobs=1000)

    assert run.ok, run
    assert run.kills == 100
    assert run.verdict.jobs >= 1000
    assert run.verdict.repeats > 0  # the harness did hit work that was under way


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_a_thousand_kills_lose_nothing_and_double_no_result(db: Database, tmp_path: Path) -> None:
    run = killed(db, tmp_path, 1000, seed=18, jobs=4000)

    assert run.ok, run
    assert run.verdict.jobs >= 4000
