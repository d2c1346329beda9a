"""The fire catches bugs that are planted for it, with real processes on both databases."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.__main__ import say
from tests.chaos.campaign import Outcome, Plan, run
from tests.chaos.judge import FILES, LOST, ORPHANS, STALE
from tests.chaos.report import again, table

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


def under_fire(database: str, folder: Path, plant: str, seed: int) -> Outcome:
    outcome = run(Plan(database, 30.0, seed, folder, plant=plant, often=2.0), say)
    say(f"{table([outcome])}\n{again(database, outcome.plan)}")
    return outcome


@pytest.mark.parametrize(
    ("database", "plant", "broken"),
    [
        ("sqlite", "unfenced-settle", STALE),
        ("postgres", "unfenced-settle", STALE),
        ("postgres", "lost-commit", LOST),
        ("sqlite", "orphan-file", ORPHANS),
        ("sqlite", "file-after-commit", FILES),
    ],
)
def test_a_planted_bug_is_caught(database: str, tmp_path: Path, plant: str, broken: str) -> None:
    assert broken in under_fire(database, tmp_path, plant, seed=3).wrong


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_without_a_planted_bug_every_promise_holds(database: str, tmp_path: Path) -> None:
    outcome = under_fire(database, tmp_path, "", seed=4)

    assert not outcome.wrong
    assert outcome.verdict.done > 0
