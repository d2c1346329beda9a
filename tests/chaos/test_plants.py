"""The fire catches bugs that are planted for it, with real processes on both databases."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.__main__ import say
from tests.chaos.campaign import Outcome, Plan, run
from tests.chaos.judge import FILES, LOST, ORPHANS, STALE
from tests.chaos.report import again, table

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]


def under_fire(database: str, folder: Path, plant: str, only: str) -> Outcome:
    often = 5.0 if only else 1.0
    plan = Plan(database, 20.0, 3, folder, plant=plant, often=often, only=only, late=600.0, patience=600.0)
    outcome = run(plan, say)
    say(f"{table([outcome])}\n{again(database, outcome.plan)}")
    return outcome


@pytest.mark.parametrize(
    ("database", "plant", "only", "broken"),
    [
        ("sqlite", "unfenced-settle", "pause a worker", STALE),
        ("postgres", "unfenced-settle", "pause a worker", STALE),
        ("postgres", "lost-commit", "kill the enqueuer", LOST),
        ("sqlite", "orphan-file", "pause a worker", ORPHANS),
        ("sqlite", "file-after-commit", "kill a worker", FILES),
        ("postgres", "own-wall-clock", "step a clock", LOST),
    ],
)
def test_a_planted_bug_is_caught(database: str, tmp_path: Path, plant: str, only: str, broken: str) -> None:
    assert broken in under_fire(database, tmp_path, plant, only).wrong


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_without_a_planted_bug_every_promise_holds(database: str, tmp_path: Path) -> None:
    outcome = under_fire(database, tmp_path, "", "")

    assert not outcome.wrong
    assert outcome.verdict.done > 0
