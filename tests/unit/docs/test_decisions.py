"""Decisions have one form, are numbered and listed, and name tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "docs" / "adr"
DECISIONS = sorted(FOLDER.glob("0*.md"))
SECTIONS = ["Context", "Decision", "Consequences", "Rejected", "Tests", "Revisit when"]
SOURCES = [path for path in (ROOT / "tests").rglob("*.py") if path != Path(__file__)]
TESTS = {name for path in SOURCES for name in re.findall(r"def (test_\w+)", path.read_text())}
FILES = {path.stem for path in SOURCES}


@pytest.mark.parametrize("decision", DECISIONS, ids=lambda path: path.stem[:4])
def test_a_decision_has_its_number_in_its_title_and_fits_on_a_page(decision: Path) -> None:
    lines = decision.read_text().splitlines()

    assert lines[0].startswith(f"# {decision.stem[:4]} ")
    assert len(lines) <= 60


@pytest.mark.parametrize("decision", DECISIONS, ids=lambda path: path.stem[:4])
def test_a_decision_has_every_section_in_order(decision: Path) -> None:
    assert re.findall(r"^## (.+)$", decision.read_text(), re.MULTILINE) == SECTIONS


@pytest.mark.parametrize("decision", DECISIONS, ids=lambda path: path.stem[:4])
def test_the_tests_of_a_decision_exist(decision: Path) -> None:
    tests = decision.read_text().partition("## Tests\n")[2].partition("\n## ")[0]
    named = set(re.findall(r"`(?:[\w/]+/)?(test_\w+)(?:\.py)?`", tests))

    assert tests.strip()
    assert named <= TESTS | FILES
    assert [place for place in re.findall(r"`((?:tests|bench)/[\w./]+)`", tests) if not (ROOT / place).exists()] == []


def test_decisions_are_numbered_from_one_without_gaps() -> None:
    assert [int(path.stem[:4]) for path in DECISIONS] == list(range(1, len(DECISIONS) + 1))


def test_the_index_lists_every_decision_once_with_its_title() -> None:
    titles = {path.name: path.read_text().splitlines()[0].removeprefix("# ") for path in DECISIONS}
    index = (FOLDER / "README.md").read_text()

    listed = re.findall(r"^- \[(\d{4})\]\((.+?)\) (.+)$", index, re.MULTILINE)

    assert sorted((file, f"{number} {title}") for number, file, title in listed) == sorted(titles.items())
