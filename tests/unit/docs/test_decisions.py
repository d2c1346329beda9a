"""Decisions are found by their number, and what holds them is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DECISIONS = sorted((ROOT / "docs" / "adr").glob("0*.md"))
SOURCES = [path for path in (ROOT / "tests").rglob("*.py") if path != Path(__file__)]
TESTS = {name for path in SOURCES for name in re.findall(r"def (test_\w+)", path.read_text())}
FILES = {path.stem for path in SOURCES}


@pytest.mark.parametrize("decision", DECISIONS, ids=lambda path: path.stem[:4])
def test_a_decision_has_its_number_in_its_title_and_fits_on_a_page(decision: Path) -> None:
    lines = decision.read_text().splitlines()

    assert lines[0].startswith(f"# {decision.stem[:4]} ")
    assert len(lines) <= 60


@pytest.mark.parametrize("decision", DECISIONS, ids=lambda path: path.stem[:4])
def test_the_tests_that_hold_a_decision_are_there(decision: Path) -> None:
    held_by = decision.read_text().partition("## Held by\n")[2].partition("\n## ")[0]
    named = set(re.findall(r"`(?:[\w/]+/)?(test_\w+)(?:\.py)?`", held_by))

    assert held_by.strip()
    assert named <= TESTS | FILES
    assert [place for place in re.findall(r"`((?:tests|bench)/[\w./]+)`", held_by) if not (ROOT / place).exists()] == []


def test_every_number_of_a_decision_is_given_once() -> None:
    numbers = [path.stem[:4] for path in DECISIONS]

    assert len(set(numbers)) == len(numbers)
