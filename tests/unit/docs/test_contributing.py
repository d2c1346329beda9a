"""CONTRIBUTING says what is there: the layers, the folders of tests, the targets of make."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()


def test_the_layers_are_those_that_are_checked() -> None:
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    shown = PAGE.partition("below its own:\n\n```\n")[2].partition("```")[0]
    rows = [line.split("   ")[0].strip() for line in shown.splitlines() if not line.startswith(" ")]

    assert rows == [re.sub(r"[()]", "", layer) for layer in contract["layers"]]


def test_every_folder_of_tests_is_in_the_table_and_no_other() -> None:
    there = {f"tests/{path.name}" for path in (ROOT / "tests").iterdir() if any(path.rglob("*.py"))}

    assert set(re.findall(r"`(tests/\w+)`", PAGE)) == there


def test_every_target_of_make_that_is_named_is_there() -> None:
    known = set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))

    assert set(re.findall(r"`make ([a-z-]+)", PAGE)) <= known
