"""Importing Tidegate is cheap and needs nothing but Python."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "tidegate"
PURE = ("_lazy.py", "clock", "errors.py", "events.py", "faults", "logs.py", "rules", "threads.py", "validation.py")
LIGHT = ("durations.py", "guard", "process.py", "serialization")
ROUNDS = 9

NEW_MODULES = """
import sys
before = set(sys.modules)
import tidegate
print(*sorted(set(sys.modules) - before))
"""
COST = """
import time
start = time.process_time()
import {module}
print(time.process_time() - start)
"""


def fresh(code: str, pycache: Path) -> str:
    """What *code* prints in an interpreter that ignores the environment and keeps its bytecode in *pycache*."""
    command = [sys.executable, "-I", "-X", f"pycache_prefix={pycache}", "-c", code]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def imported(source: Path, nodes: Callable[[ast.AST], Iterable[ast.AST]]) -> set[str]:
    """Top-level names of all that *source* imports in *nodes*."""
    names: set[str] = set()
    for node in nodes(ast.parse(source.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return {name.partition(".")[0] for name in names}


def test_import_tidegate_loads_only_itself_and_the_standard_library(tmp_path: Path) -> None:
    new = {name.partition(".")[0] for name in fresh(NEW_MODULES, tmp_path).split()}

    assert "tidegate" in new
    assert new - {"tidegate"} <= sys.stdlib_module_names


def test_import_tidegate_leaves_asyncio_alone(tmp_path: Path) -> None:
    assert "asyncio" not in fresh(NEW_MODULES, tmp_path).split()


@pytest.mark.alone
def test_import_tidegate_costs_no_more_than_import_asyncio(tmp_path: Path) -> None:
    costs: dict[str, list[float]] = {"tidegate": [], "asyncio": []}
    for module in costs:
        fresh(COST.format(module=module), tmp_path)  # compiles to bytecode, which is not what is measured
    for _ in range(ROUNDS):
        for module, measured in costs.items():
            measured.append(float(fresh(COST.format(module=module), tmp_path)))

    assert min(costs["tidegate"]) <= 1.0 * min(costs["asyncio"])


@pytest.mark.parametrize("part", PURE)
def test_the_pure_packages_name_nothing_outside_the_standard_library(part: str) -> None:
    for source in sources(part):
        assert imported(source, ast.walk) - {"tidegate"} <= sys.stdlib_module_names, source.name


@pytest.mark.parametrize("part", LIGHT)
def test_a_guarded_call_loads_nothing_outside_the_standard_library(part: str) -> None:
    for source in sources(part):
        assert imported(source, at_start) - {"tidegate"} <= sys.stdlib_module_names, source.name


def sources(part: str) -> list[Path]:
    found = [PACKAGE / part] if part.endswith(".py") else sorted((PACKAGE / part).rglob("*.py"))
    assert found
    return found


def at_start(tree: ast.AST) -> Iterator[ast.AST]:
    """What runs while a module is loaded."""
    for node in ast.iter_child_nodes(tree):
        checked = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        if not checked and not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node
            yield from at_start(node)
