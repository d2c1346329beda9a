"""The page of public names lists what each public module offers."""

from __future__ import annotations

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest

from tests.unit.faults.test_codes import tables

APPLICATIONS = Path(__file__).parents[3] / "src" / "tidegate_apps"
ROWS = [(row[0], re.findall(r"\w+", row[2])) for row in tables("reference/names.md")["module"]]


@pytest.mark.parametrize(("module", "names"), ROWS)
def test_the_page_lists_exactly_the_public_names_of_a_module(module: str, names: list[str]) -> None:
    assert sorted(names) == sorted(import_module(module).__all__)


def test_applications_import_only_modules_of_the_page() -> None:
    imported = {
        node.module
        for source in APPLICATIONS.rglob("*.py")
        for node in ast.walk(ast.parse(source.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "tidegate"
    }

    assert "tidegate.apps" in imported
    assert imported <= {module for module, _ in ROWS}
