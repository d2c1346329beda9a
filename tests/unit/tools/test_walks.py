from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tools.house import WALKS
from tools.walks import (
    PAGE as ARCHITECTURE,
)
from tools.walks import (
    checked_walks,
    find_function,
    mentions,
    problems_of,
    problems_of_places,
    read_places,
    read_walks,
)

ROOT = Path(__file__).parents[3]
PAGE = """
# Architecture

| 1 | | `not/in/a/walk.py` | `f` | |

## Walk: a call

| step | called by | file | function | what it does |
| ---: | ---: | --- | --- | --- |
| 1 | | `guard/target.py` | `Target.call` | The caller enters. |
| 2 | 1 | `guard/pipeline.py` | `Pipeline.run` | Asks each gate. |
| 3 | 2* | `guard/pipeline.py` | `Pipeline.done` | A callback. |

## Glossary

| 7 | | `not/in/a/walk.py` | `f` | |

### Walk: a page

| 1 | | `tidegate_apps/feeds/pages.py` | `show` | |
"""
SOURCE = {
    "tidegate/guard/target.py": "class Target:\n    def call(self):\n        return self.pipeline.run()\n",
    "tidegate/guard/pipeline.py": "class Pipeline:\n    def run(self): ...\n    def done(self): ...\n",
    "tidegate_apps/feeds/pages.py": "def show(): ...\n",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in {
        **{f"src/{name}": text for name, text in SOURCE.items()},
        "docs/explanation/architecture.md": PAGE,
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def problems(root: Path, old: str, new: str) -> list[str]:
    steps = read_walks(PAGE.replace(old, new))["a call"]
    return [problem.rpartition(": ")[2] for problem in problems_of(steps, root / "src")]


def test_a_walk_has_the_rows_below_its_heading(root: Path) -> None:
    walks = checked_walks(root)

    assert [(walk.name, walk.hops, walk.files, walk.problems) for walk in walks] == [
        ("a call", 2, 2, ()),
        ("a page", 0, 1, ()),
    ]
    assert [(step.number, step.caller, step.file, step.function) for step in walks[0].steps][1:] == [
        (2, "1", "guard/pipeline.py", "Pipeline.run"),
        (3, "2*", "guard/pipeline.py", "Pipeline.done"),
    ]


def test_a_tree_without_the_page_has_no_walks(tmp_path: Path) -> None:
    assert checked_walks(tmp_path) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("guard/target.py", "guard/missing.py"),  # no such file
        ("Target.call", "Target.missing"),  # no such method
        ("Target.call", "call"),  # a method needs its class
        ("| 2 | 1 |", "| 4 | 1 |"),  # out of order
        ("| 1 | | `guard", "| 1 | 1 | `guard"),  # the first has no caller
        ("| 2 | 1 |", "| 2 | |"),  # the second has one
        ("| 2 | 1 |", "| 2 | 2* |"),  # an earlier one
        ("| 2 | 1 |", "| 2 | 0 |"),
        ("2*", "2"),  # `run` does not name `done`
        ("`guard/target.py` | `Target.call`", "| |"),  # an empty cell
    ],
)
def test_each_mistake_in_a_walk_is_one_problem(root: Path, old: str, new: str) -> None:
    assert PAGE.count(old) == 1
    assert len(problems(root, old, new)) == 1


def test_a_function_is_found_by_its_qualified_name() -> None:
    tree = ast.parse(
        "if True:\n    def f(): ...\n    def f(): 'last'\n"
        "class C:\n    def f(self):\n        def inner(): ...\n    async def g(self): ...\n"
    )
    found = find_function(tree, "f")

    assert found is not None
    assert ast.get_docstring(found) == "last"
    assert find_function(tree, "C.f.inner") is not None
    assert isinstance(find_function(tree, "C.g"), ast.AsyncFunctionDef)
    assert [find_function(tree, name) for name in ("g", "inner", "C", "C.h", "D.f")] == [None] * 5


@pytest.mark.parametrize(
    ("body", "callee", "seen"),
    [
        ("helper()", "helper", True),
        ("self.parts.run(1)", "Parts.run", True),
        ("thread(target=self.run)", "Loop.run", True),
        ("Pool(3)", "Pool.__init__", True),
        ("self.pool.get()", "Pool.__init__", False),
        ("print('helper')", "helper", False),
        ("helpers()", "helper", False),
    ],
)
def test_a_caller_mentions_what_it_calls_or_hands_on(body: str, callee: str, seen: bool) -> None:
    function = find_function(ast.parse(f"def f(self):\n    {body}\n"), "f")

    assert function is not None
    assert mentions(function, callee) is seen


def test_a_place_is_a_row_below_its_heading() -> None:
    page = (
        "# Page\n\n| a | `guard/x.py` | `f` |\n\n## Where is ...?\n\n| what | file | function |\n| --- | --- | --- |\n"
        "| the breaker | `guard/breaker.py` | `Breaker.fail` |\n\n## More\n\n| a | `guard/y.py` | `f` |\n"
    )

    assert read_places(page) == [("guard/breaker.py", "Breaker.fail")]


@pytest.mark.parametrize(
    ("file", "name", "problems"),
    [
        ("guard/target.py", "Target.call", 0),
        ("tidegate_apps/feeds/pages.py", "show", 0),
        ("guard/rules.py", "pack", 0),  # a value of the module
        ("guard/rules.py", "hidden", 1),  # a value of a function
        ("guard/target.py", "Target.missing", 1),
        ("guard/missing.py", "Target.call", 1),
    ],
)
def test_a_place_must_exist(root: Path, file: str, name: str, problems: int) -> None:
    (root / "src/tidegate/guard/rules.py").write_text("pack = 1\ndef f():\n    hidden = 2\n")

    assert len(list(problems_of_places([(file, name)], root / "src"))) == problems


def test_the_places_of_the_documentation_are_right() -> None:
    places = read_places((ROOT / ARCHITECTURE).read_text(encoding="utf-8"))

    assert len(places) >= 7
    assert list(problems_of_places(places, ROOT / "src")) == []


def test_the_documentation_has_every_walk_that_is_measured() -> None:
    assert {walk.name for walk in checked_walks(ROOT)} == set(WALKS)


def test_the_walks_of_the_documentation_are_right() -> None:
    assert {walk.name: walk.problems for walk in checked_walks(ROOT) if walk.problems} == {}
