"""The tool that plants bugs, on a small project of its own."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.text import names
from tools.planted_bugs import ROOT, TABLE, TableError, main, read_table

PYPROJECT = """
[tool.pytest.ini_options]
addopts = ["--import-mode=importlib", "-p", "xdist.plugin"]
markers = ["long", "full", "alone"]
"""
SOURCE = "def limit(n):\n    return min(n, 5)\n\n\ndef double(n):\n    return n * 2\n"
TESTS = """
import pytest
from tidegate.tank import double, limit


def test_the_limit_is_five():
    assert limit(9) == 5


def test_nothing_is_doubled_to_nothing():
    assert double(0) == 0


@pytest.mark.long
def test_a_long_one():
    assert double(3) == 6


@pytest.mark.skip
def test_a_skipped_one():
    assert double(3) == 6


def test_that_fails():
    assert double(3) == 7
"""
FIVE, NOTHING = "test_the_limit_is_five", "test_nothing_is_doubled_to_nothing"
CAUGHT = ("limit is six", "min(n, 5)", "min(n, 6)", FIVE)
MISSED = ("double is triple", "n * 2", "n * 3", NOTHING)
MOVED = ("limit is gone", "max(n, 5)", "n", FIVE)
TWICE = ("every n is m", "n)", "m)", FIVE)
BROKEN = ("source cannot be imported", "def limit(n):", "def limit(n:", FIVE)


@pytest.fixture(autouse=True)
def _without_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ours would import the package that the small project stands in for, and the others take long to load."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def planted(root: Path, *bugs: tuple[str, str, str, str]) -> Path:
    """A project with these bugs in its table: name, old, new and test."""
    for name, text in (
        ("pyproject.toml", PYPROJECT),
        ("src/tidegate/__init__.py", ""),
        ("src/tidegate/tank.py", SOURCE),
        ("tests/test_tank.py", TESTS),
        (TABLE, "".join(row(*bug) for bug in bugs)),
    ):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def row(name: str, old: str, new: str, test: str) -> str:
    return (
        f'[[bug]]\nname = "{name}"\nfile = "src/tidegate/tank.py"\nold = "{old}"\nnew = "{new}"\n'
        f'tests = ["tests/test_tank.py::{test}"]\n'
    )


def test_each_bug_is_caught_missed_or_an_error_of_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = planted(tmp_path, CAUGHT, MISSED, MOVED, TWICE, BROKEN)

    assert main([], root) == 1

    first, *lines, last = capsys.readouterr().out.splitlines()
    assert first.startswith("2 tests pass")
    verdicts = [line for line in lines if not line.startswith(" ")]
    assert [line.split()[0] for line in verdicts] == ["caught", "MISSED", "ERROR", "ERROR", "ERROR"]
    assert f"tests/test_tank.py::{FIVE}" in verdicts[0]
    assert names(verdicts[2], "limit is gone", "0 times", "src/tidegate/tank.py")
    assert "2 times" in verdicts[3]
    assert last.startswith("1 of 5 ")
    assert (root / "src/tidegate/tank.py").read_text() == SOURCE


def test_a_part_of_a_name_chooses_bugs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = planted(tmp_path, CAUGHT, MISSED)

    assert main(["six"], root) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("1 of 1 ")
    with pytest.raises(SystemExit) as ended:
        main(["seven"], root)
    assert ended.value.code == 2


@pytest.mark.parametrize(
    ("test", "says"),
    [
        ("test_a_long_one", "is not run by `make test`"),
        ("test_a_skipped_one", "was skipped"),
        ("test_that_fails", "do not pass on the unchanged source (pytest exit code 1)"),
        ("test_of_yesterday", "do not pass on the unchanged source (pytest exit code 4)"),
    ],
)
def test_every_named_test_must_run_and_pass_without_the_bug(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], test: str, says: str
) -> None:
    assert main([], planted(tmp_path, (*CAUGHT[:3], test))) == 1

    assert says in capsys.readouterr().out


def test_a_source_that_is_not_the_copy_ends_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = planted(tmp_path, CAUGHT)
    (root / "tidegate").mkdir()
    (root / "tidegate/__init__.py").write_text("")  # python -m puts the current folder before all others

    assert main([], root) == 1
    assert "not from the copy" in capsys.readouterr().out


def test_a_bug_has_a_name_of_its_own_and_whole_tests() -> None:
    with pytest.raises(TableError, match="twice"):
        read_table(row(*CAUGHT) + row(*CAUGHT))
    with pytest.raises(TableError, match="no tests"):
        read_table(row(*CAUGHT).partition("tests")[0] + "tests = []")
    with pytest.raises(TableError, match="one case"):
        read_table(row(*CAUGHT[:3], f"{FIVE}[1]"))


def test_every_old_text_of_the_table_occurs_once_and_every_package_has_a_bug() -> None:
    bugs = read_table((ROOT / TABLE).read_text(encoding="utf-8"))
    for bug in bugs:
        text = (ROOT / bug.file).read_text(encoding="utf-8")
        assert bug.applied_to(text) != text, bug.name
        assert all((ROOT / test.partition("::")[0]).is_file() for test in bug.tests), bug.name
    apps = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["tidegate.apps"]
    parts = {Path(bug.file).parts[2].removesuffix(".py") for bug in bugs}
    assert parts >= {path.parent.name for path in (ROOT / "src/tidegate").glob("*/__init__.py")} | set(apps)
