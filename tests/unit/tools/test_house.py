from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent

import pytest

from tools import house
from tools.house import Module


def tree(root: Path, files: dict[str, str]) -> dict[str, Module]:
    """Modules of a made-up source tree; a name without a folder is in `src/tidegate`."""
    for name, text in files.items():
        path = root / "src" / (name if "/" in name else f"tidegate/{name}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))
    return house.read_modules(root / "src")


def module(text: str) -> Module:
    return Module("tidegate.sample", Path("sample.py"), dedent(text))


def test_modules_have_the_names_that_imports_use(tmp_path: Path) -> None:
    modules = tree(tmp_path, {"__init__.py": "", "jobs/queue.py": "", "tidegate_apps/feeds/__init__.py": ""})

    assert set(modules) == {"tidegate", "jobs.queue", "tidegate_apps.feeds"}


def test_lines_are_counted_as_the_formatter_writes_them(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.ruff]\nline-length = 40\n")
    long_call = "value = call(first_argument, second_argument, third_argument)"
    tree(
        tmp_path, {"a.py": f"{long_call}  # noqa: E501  # fmt: skip\n", "b.py": f"# fmt: off\n{long_call}\n# fmt: on\n"}
    )

    # Without these comments, each call takes five lines.
    assert house.formatted_lines(tmp_path) == 10
    assert "fmt: skip" in (tmp_path / "src/tidegate/a.py").read_text()


def test_a_class_name_is_doubled_when_two_modules_define_it_at_the_top(tmp_path: Path) -> None:
    modules = tree(
        tmp_path,
        {
            "a.py": "class Row: ...\nclass Only: ...\nclass Holder:\n    class Inner: ...\n",
            "b.py": "class Row: ...\ndef f():\n    class Only: ...\nclass Inner: ...\n",
            "c.py": "class Twice: ...\nclass Twice: ...\n",
        },
    )

    assert house.doubled_classes(modules.values()) == {"Row": ["tidegate.a", "tidegate.b"]}


def test_gerunds_are_counted_and_topic_nouns_are_not(tmp_path: Path) -> None:
    modules = tree(
        tmp_path,
        {
            "claiming.py": "",
            "parsing.py": "",
            "settings.py": "",
            "tidegate/telling/__init__.py": "",
            "ping_pong.py": "",
        },
    )

    assert house.gerunds(modules) == ["tidegate.claiming", "tidegate.telling"]


@pytest.mark.parametrize(
    "text",
    [
        "import tidegate.b",
        "from tidegate.b import name",
        "from tidegate import b",
        "def f():\n    from tidegate.b import name",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from tidegate.b import name",
    ],
)
def test_every_way_to_import_a_module_counts(tmp_path: Path, text: str) -> None:
    modules = tree(tmp_path, {"__init__.py": "", "a.py": text, "b.py": "import sys\nname = 'tidegate.a'\n"})

    assert house.import_graph(modules) == {"tidegate": set(), "tidegate.a": {"tidegate.b"}, "tidegate.b": set()}


def test_a_name_from_a_package_is_an_import_of_the_package(tmp_path: Path) -> None:
    modules = tree(tmp_path, {"__init__.py": "name = 1", "a.py": "from tidegate import name"})

    assert house.import_graph(modules)["tidegate.a"] == {"tidegate"}


def test_modules_with_one_importer_have_neither_none_nor_two() -> None:
    graph = {"top": {"one", "two"}, "other": {"two"}, "one": set(), "two": set()}

    assert house.with_one_importer(graph) == ["one"]


def test_a_cycle_is_counted_once_however_many_modules_it_has() -> None:
    graph = {"a": {"b"}, "b": {"c", "a"}, "c": {"a"}, "d": {"a", "e"}, "e": {"d"}, "f": {"a"}}

    assert house.import_cycles(graph) == [["a", "b", "c"], ["d", "e"]]


def test_the_documented_imports_are_left_out_of_cycles_and_their_opposites_are_not() -> None:
    target, reporter = "tidegate.guard.target", "tidegate.targets.reporter"

    assert house.import_cycles({target: {reporter}, reporter: {target}}) == []
    assert house.import_cycles({target: {"other"}, "other": {target}}) == [["other", target]]


@pytest.mark.parametrize(
    "text",
    [
        "def f(a, b): return g(a, b)",
        "def f(a): g(a)",
        "async def f(a): return await g(a)",
        "def f(a):\n    '''What it does.'''\n    return g(a, 1)",
        "def f(self, *args, **kwargs): return self.g(*args, **kwargs)",
        "def f(a, *, b): return g(x=a, y=b.c)",
        "class C:\n    def f(self, a): return self.inner.f(a)",
    ],
)
def test_a_function_whose_only_call_takes_its_parameters_forwards(text: str) -> None:
    assert len(house.forwarding(module(text))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "def f(a): return a",
        "def f(a): return g(a) + 1",
        "def f(a, b): return g(a)",
        "def f(a): return a.g()",
        "def f(self): return self.inner.f()",
        "def f(a):\n    a = h(a)\n    return g(a)",
        "def f(): return g(1)",
        "def f(a): '''Abstract.'''",
    ],
)
def test_a_function_that_does_more_or_passes_less_does_not_forward(text: str) -> None:
    assert house.forwarding(module(text)) == []


@pytest.mark.parametrize(
    "text",
    [
        "def f(row): return row[3]",
        "def f(job_row): return job_row[3]",
        "def f(found): return found[0][0]",
        "def f(values: Row): return values[1]",
        "def f(tx): return [x[1] for x in tx.all('jobs')]",
        "def f(tx):\n    found = tx.all('jobs', {})\n    for x in found:\n        print(x[1])",
        "def f(tx):\n    found = tx.one('job')\n    return found[1]",
        "async def f(db):\n    if x := await db.aone('job'):\n        print(x[1])",
        "def f(tx):\n    [x] = tx.all('job')\n    return x[1]",
        "value = row[1]",
    ],
)
def test_a_column_read_by_its_position_is_a_read_by_number(text: str) -> None:
    assert len(house.row_reads(module(text))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "def f(row): return row.id, row['id'], row[name], row[1:]",
        "def f(match): return match[1]",
        "def f(tx):\n    rows = tx.all('jobs')\n    return rows[0]",
        "def f(values): return [x[1] for x in values.all()]",
    ],
)
def test_other_subscripts_are_not_reads_by_number(text: str) -> None:
    assert house.row_reads(module(text)) == set()


def test_two_reads_on_a_line_are_one_line() -> None:
    assert house.row_reads(module("def f(row):\n    return row[0] + row[1]\n")) == {2}


def test_a_target_is_met_below_or_at_its_limit() -> None:
    assert [house.counted("x", value, "< 15").ok for value in (14, 15)] == [True, False]
    assert [house.counted("x", value, "<= 71,000").ok for value in (71_000, 71_001)] == [True, False]


def test_the_figures_of_a_tree_are_printed_for_people_and_for_programs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_text("\n" * 78_001)
    tree(
        tmp_path,
        {
            "a.py": "from typing import Any\nfrom tidegate import b\n\nvalue: Any = 1\nAnything = 2\n",
            "b.py": "def f(x):\n    return g(x)\n\n\nvalue = row[0]  # fmt: skip\n",
        },
    )

    assert house.main(["--json"], tmp_path) == 0
    figures = {figure["name"]: figure for figure in json.loads(capsys.readouterr().out)["figures"]}
    assert {name: figure["value"] for name, figure in figures.items() if not name.startswith("walk")} == {
        "source files": "2",
        "source lines, formatted without fmt: skip": "10",
        "doubled class names": "0",
        "modules ending in -ing": "0",
        "modules with one importer": "1",
        "forwarding functions": "1",
        "hidden import cycles": "0",
        "reads of rows by number": "1",
        "lines with Any": "2",
        "lines with fmt: skip": "1",
        "test lines": "78,001",
    }
    short = {name for name, figure in figures.items() if not figure["ok"]}
    assert short == {"test lines", *(name for name in figures if name.startswith("walk"))}
    assert figures["forwarding functions"]["items"] == [f"{tmp_path}/src/tidegate/b.py:1"]

    assert house.main(["--list", "forwarding"], tmp_path) == 0
    printed = capsys.readouterr().out.splitlines()
    assert f"    {tmp_path}/src/tidegate/b.py:1" in printed
    assert sum(line.endswith((" ok", " short")) for line in printed) == len(figures)


def test_a_walk_meets_its_target_if_it_is_short_and_right(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pyproject.toml").write_text("")
    tree(tmp_path, {"a.py": "def first():\n    second()\n", "b.py": "def second(): ...\n"})
    page = tmp_path / "docs/explanation/architecture.md"
    page.parent.mkdir(parents=True)

    def feed_poll(steps: str) -> tuple[int, str, bool]:
        page.write_text(f"## Walk: Feed poll\n\n{steps}")
        code = house.main(["--json"], tmp_path)
        found = json.loads(capsys.readouterr().out)["figures"]
        return next((code, one["value"], one["ok"]) for one in found if one["name"].startswith("walk: feed poll"))

    first, second = "| 1 | | `a.py` | `first` | |\n", "| 2 | 1 | `b.py` | `second` | |\n"
    assert feed_poll(first + second) == (0, "1 / 2", True)
    assert feed_poll(first) == (0, "0 / 1", False)
    assert feed_poll(first + second.replace("second", "third")) == (1, "1 / 2", False)
    long = first + second + "".join(f"| {n} | 1 | `b.py` | `second` | |\n" for n in range(3, 27))
    assert feed_poll(long) == (0, "25 / 2", False)
