"""Workers are killed at random moments: nothing is lost, nothing is doubled, no stale fence is accepted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import pgbouncer, postgres
from tests.acceptance.chaos import Plan, Run, rampage
from tests.databases import Database


def killed(db: Database, folder: Path, times: int, seed: int, jobs: int) -> Run:
    run = rampage(Plan(url=db.url, kills=times, seed=seed, jobs=jobs), folder)
    print(run)  # noqa: T201
    return run


@pytest.mark.parametrize(("kills", "jobs"), [(10, 300), pytest.param(100, 1000, marks=pytest.mark.full)])
def test_kills_lose_nothing_and_double_no_result(db: Database, tmp_path: Path, kills: int, jobs: int) -> None:
    run = killed(db, tmp_path, kills, seed=17, jobs=jobs)

    assert run.ok, run
    assert run.kills == kills
    assert run.verdict.jobs >= jobs
    assert run.verdict.repeats > 0  # the harness did hit work that was under way


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_a_thousand_kills_lose_nothing_and_double_no_result(db: Database, tmp_path: Path) -> None:
    run = killed(db, tmp_path, 1000, seed=18, jobs=4000)

    assert run.ok, run
    assert run.verdict.jobs >= 4000


def killed_behind_a_pooler(folder: Path, times: int, seed: int, jobs: int) -> Run:
    """Three workers share four server connections: each transaction gets whichever is free."""
    with postgres.schema() as direct, pgbouncer.running(postgres.server_url(), pool_size=4) as pooler:
        run = rampage(
            Plan(
                url=pooler.url(direct), direct=direct, kills=times, workers=3, backlog=min(jobs, 1000), longest=0.01,
                seed=seed, jobs=jobs, lease=4.0,
            ),
            folder,
        )  # fmt: skip
    print(run)  # noqa: T201
    return run


def test_kills_behind_a_pooler_lose_nothing_and_double_no_result(tmp_path: Path) -> None:
    run = killed_behind_a_pooler(tmp_path, 5, seed=19, jobs=300)

    assert run.ok, run
    assert run.kills == 5
    assert run.verdict.jobs >= 300


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_20_000_jobs_behind_a_pooler_survive_kills(tmp_path: Path) -> None:
    run = killed_behind_a_pooler(tmp_path, 100, seed=20, jobs=20_000)

    assert run.ok, run
    assert run.verdict.jobs >= 20_000
    assert run.verdict.repeats > 0
