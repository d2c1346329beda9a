"""Measured figures in the explanations are generated, and a reader can measure each of them again."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from tools import comparison
from tools.figures import BLOCKS, blocks, without_blocks
from tools.why_not import rows_of

ROOT = Path(__file__).parents[3]
PAGES = sorted((ROOT / "docs" / "explanation").glob("*.md"))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
STAMP = re.compile(r"Measured \d{4}-\d\d-\d\d \d\d:\d\d UTC by `([^`]+)` at commit [0-9a-f]{7,}( \+ changes)? on .+\.")
# How a sentence or a table by hand would state what was measured.
BY_HAND = re.compile(r"\b20\d\d-\d\d-\d\d\b|\| *found *\||\bmeasured on\b", re.IGNORECASE)
# Writers of blocks: what measures calls `write` or `gather` with the name.
WRITERS = [path for folder in ("bench", "tests", "tools") for path in (ROOT / folder).rglob("*.py")]


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def test_each_block_is_once_in_its_page_with_its_target() -> None:
    found = [(name, page.name, block.target) for page in PAGES for name, block in blocks(read(page)).items()]

    measured = [(name, source.page, source.target) for name, source in BLOCKS.items()]
    summary = (comparison.NAME, Path(comparison.PAGE).name, comparison.TARGET)
    assert sorted(found) == sorted([*measured, summary])


def test_the_comparison_has_the_figures_of_the_measured_tables() -> None:
    text = read(ROOT / comparison.PAGE)

    assert text == comparison.current(text)


def test_each_row_of_the_comparison_names_a_command_that_exists() -> None:
    page = read(ROOT / comparison.PAGE)
    summary = blocks(page)[comparison.NAME]
    rows = rows_of(comparison.NAME, page[summary.start : summary.end])

    assert len(rows) == len(comparison.ROWS)
    for row in rows.values():
        target, part = re.fullmatch(r"`make (\w+) PEERS=(\w+)`", row["measured by"]).groups()  # type: ignore[union-attr]
        assert target in TARGETS
        assert importlib.util.find_spec(f"bench.peers.{part}") is not None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_no_measured_figure_is_typed_by_hand(page: Path) -> None:
    assert BY_HAND.findall(without_blocks(read(page))) == []


@pytest.mark.parametrize("name", BLOCKS)
def test_each_block_has_a_table_and_the_stamp_of_its_command(name: str) -> None:
    text = read(ROOT / BLOCKS[name].path)
    block = blocks(text)[name]
    content = text[block.start : block.end].strip()

    assert content.startswith("| ")
    stamped = STAMP.fullmatch(content.splitlines()[-1])
    assert stamped is not None
    assert stamped[1] == BLOCKS[name].command


@pytest.mark.parametrize("name", BLOCKS)
def test_the_target_and_the_command_of_each_block_exist(name: str) -> None:
    source = BLOCKS[name]

    assert source.target in TARGETS
    tool, *words = source.command.split()
    if tool == "pytest":
        assert (ROOT / words[0]).is_file()
    else:
        assert (tool, words[0]) == ("python", "-m")
        found = importlib.util.find_spec(words[1])
        assert found is not None
        assert importlib.util.find_spec(f"{words[1]}.__main__") is not None


@pytest.mark.parametrize("name", BLOCKS)
def test_each_block_is_written_by_a_program(name: str) -> None:
    registry = {ROOT / "tools" / "figures.py", Path(__file__)}
    assert any(f'"{name}"' in read(path) for path in WRITERS if path not in registry)
