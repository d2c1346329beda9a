"""The tool that changes one thing at a time, on small files."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tools.mutants.__main__ import ROOT
from tools.mutants.making import Mutant, mutants_of
from tools.mutants.report import Report, read_explained

SOURCE = """
LIMIT = 5


class Tank:
    def __init__(self, level: int = 2) -> None:
        self.level = level

    @property
    def full(self) -> bool:
        return self.level >= LIMIT


def wait(roll: float) -> float:
    if roll > 0.5:
        return cast("float", roll)
    return -roll


def above(most: int):
    def over(level: int) -> bool:
        return level > most

    return over


OVER = {"tank": above(3)}
"""


@pytest.fixture
def mutants(tmp_path: Path) -> list[Mutant]:
    (tmp_path / "tank.py").write_text(SOURCE, encoding="utf-8")
    return mutants_of(tmp_path, "tank.py")


def test_functions_methods_properties_and_defaults_are_changed_and_tables_are_not(mutants: list[Mutant]) -> None:
    changes = {(each.owner, each.function, each.old.strip(), each.new.strip()) for each in mutants}
    assert ("Tank", "full", "return self.level >= LIMIT", "return self.level > LIMIT") in changes
    assert ("Tank", "__init__", "self.level = level", "self.level = None") in changes
    assert any(new == "def __init__(self, level: int = 3) -> None:" for *_, new in changes)
    assert (None, "wait", "return -roll", "return +roll") in changes
    assert not any("LIMIT = " in new or "cast(" in new for *_, new in changes)


def test_a_mutant_knows_the_statement_that_a_test_must_reach(mutants: list[Mutant]) -> None:
    lines = SOURCE.splitlines()
    for each in mutants:
        assert lines[each.line - 1].strip() in {*each.old.split(" / "), "self.level = level"}
        assert lines[each.first - 1].strip().startswith("@property" if each.function == "full" else "def")


def test_a_survivor_is_explained_by_its_name_and_an_explanation_without_survivor_is_stale(
    mutants: list[Mutant], tmp_path: Path
) -> None:
    first, second, *others = mutants
    path = tmp_path / "explained.toml"
    path.write_text(
        f'[[survives]]\nin = "{first.where}"\nfrom = "{first.old}"\nto = ["{first.new}", "gone"]\nwhy = "the same"\n',
        encoding="utf-8",
    )
    results = {each.id: "killed" for each in others} | {first.id: "survived", second.id: "unreached"}
    report = Report(mutants, results, read_explained(path))
    assert (report.explained, report.unexplained) == ([first], [second])
    assert report.share == pytest.approx(100 * len(others) / len(mutants))
    assert report.stale == [f"{first.where}: {first.old} -> gone"]
    assert report.lines()[0].startswith(second.name)
    shown = [line.split(" | ") for line in report.markdown().splitlines()]
    assert shown[-1][1] == f"{len(mutants):,}"
    assert [shown[-1][3], shown[-1][4]] == ["1", "1 |"]


def test_every_explanation_speaks_of_code_that_exists_and_gives_a_reason() -> None:
    text = (ROOT / "tools" / "mutants" / "explained.toml").read_text(encoding="utf-8")
    for each in tomllib.loads(text)["survives"]:
        source = (ROOT / each["in"].partition(" ")[0]).read_text(encoding="utf-8")
        assert each["from"] in " / ".join(line.strip() for line in source.splitlines()), each
        assert each["why"], each


TESTS = """
import tank

seen = []

def test_a_tank_is_full_above_its_limit():
    assert tank.Tank(6).full
    assert not tank.Tank().full

def test_half_a_roll_waits():
    assert tank.wait(0.5) == -0.5

def test_three_is_not_over_three():
    assert not tank.OVER["tank"](3)
"""
ONCE = """
def test_that_passes_once():
    assert tank.Tank(7).full
    seen.append(1)
    assert len(seen) == 1
"""


def run(folder: Path, mutants: list[Mutant], tests: str) -> tuple[subprocess.CompletedProcess[str], dict[str, str]]:
    (folder / "tank.py").write_text(SOURCE.replace('cast("float", roll)', "roll"), encoding="utf-8")
    (folder / "test_tank.py").write_text(tests, encoding="utf-8")
    todo = [{**dataclasses.asdict(each), "explained": False} for each in mutants]
    (folder / "todo.json").write_text(json.dumps(todo), encoding="utf-8")
    options = [
        "-p",
        "tools.mutants.loop",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:schemathesis",
        "--mutants=todo.json",
        "--results=results.jsonl",
    ]
    command = [sys.executable, "-m", "pytest", "-q", "--rootdir=.", "-c", os.devnull, *options, "test_tank.py"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])}
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    lines = (folder / "results.jsonl").read_text(encoding="utf-8").splitlines()
    return ended, {each["id"]: each["result"] for each in map(json.loads, lines)}


def test_what_a_test_sees_is_killed_and_what_none_sees_survives(mutants: list[Mutant], tmp_path: Path) -> None:
    ended, results = run(tmp_path, mutants, TESTS)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    changes = {f"{each.old.strip()} -> {each.new.strip()}": results[each.id] for each in mutants}
    assert changes["return self.level >= LIMIT -> return self.level > LIMIT"] == "survived"
    assert changes["self.level = level -> self.level = None"] == "killed"
    assert changes["if roll > 0.5: -> if roll >= 0.5:"] == "killed"
    assert changes["return -roll -> return +roll"] == "killed"
    assert changes["return level > most -> return level >= most"] == "killed"  # of a function made at the import
    assert sorted(set(results.values())) == ["killed", "survived"]


@pytest.mark.full
def test_a_test_that_passes_only_once_is_no_judge(mutants: list[Mutant], tmp_path: Path) -> None:
    ended, _ = run(tmp_path, mutants, TESTS + ONCE)
    assert ended.returncode == 2
    assert "test_that_passes_once" in ended.stdout + ended.stderr
