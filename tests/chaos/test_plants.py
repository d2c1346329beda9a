"""The fire catches bugs that are planted for it, with real processes on both databases."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.__main__ import say
from tests.chaos.campaign import Outcome, Plan, run
from tests.chaos.judge import FILES, GUILTY, LOST, ORPHANS, STALE
from tests.chaos.report import again, table
from tests.chaos.schedule import KINDS

pytestmark = [pytest.mark.long, pytest.mark.timeout(5400)]

SECONDS = 20.0
BLOWS = 8  # of the one kind that shows a bug
TRIES = 3  # a bug that shows itself by chance may do so in the next run


def under_fire(database: str, folder: Path, plant: str, only: str, seed: int = 3) -> Outcome:
    """Blows wait until there is somebody at work whom they can hit, for as long as a busy machine needs."""
    often = BLOWS * KINDS[only].every / SECONDS if only else 1.0
    plan = Plan(database, SECONDS, seed, folder, plant=plant, often=often, only=only, late=900.0, patience=900.0)
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
        ("sqlite", "blameless-parents", "kill a worker", GUILTY),
        ("postgres", "blameless-parents", "kill a worker", GUILTY),
        ("sqlite", "hasty-conviction", "pause a worker", GUILTY),
        ("postgres", "hasty-conviction", "silence the wire", GUILTY),
        ("postgres", "own-wall-clock", "step a clock", LOST),
        ("postgres", "orphan-file", "step the server's clock", ORPHANS),
    ],
)
def test_a_planted_bug_is_caught(database: str, tmp_path: Path, plant: str, only: str, broken: str) -> None:
    found = (under_fire(database, tmp_path / str(seed), plant, only, seed).wrong for seed in range(3, 3 + TRIES))
    assert any(broken in wrong for wrong in found)


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_without_a_planted_bug_every_promise_holds(database: str, tmp_path: Path) -> None:
    outcome = under_fire(database, tmp_path, "", "")

    assert not outcome.wrong
    assert outcome.verdict.done > 0


def test_a_full_disk_of_the_server_is_felt_and_breaks_no_promise(tmp_path: Path) -> None:
    outcome = under_fire("postgres", tmp_path, "", "fill the server's disk")
    if "THE DISK OF THE SERVER IS NOT FILLED" in outcome.notes:
        pytest.skip("only root may mount a small disk")

    assert not outcome.wrong
    assert outcome.figures["times that PostgreSQL said its disk is full"] > 0
    assert outcome.verdict.done > 0
