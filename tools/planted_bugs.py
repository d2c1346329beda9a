"""Plants the bugs of tools/planted_bugs.toml in a copy of src, one at a time, and expects the named tests to fail.

``python -m tools.planted_bugs [--jobs N] [NAME-PART ...]`` exits 1 when

- the named tests do not pass on the unchanged source, or `make test` does not run one of them,
- a bug's old text does not occur exactly once in its file,
- the named tests pass although the bug is planted, or cannot be run at all.

A part of a name chooses the bugs whose names contain it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TABLE = "tools/planted_bugs.toml"
TIER = "not long and not full and not alone"  # the tests that `make test` runs
PACKAGE = "tidegate"
_SOURCE, _OUTCOMES = "PLANTED_SOURCE", "PLANTED_OUTCOMES"  # variables that tell pytest about the copy
_SHOWN = 15  # lines of pytest's output, when it could not run the tests


class TableError(Exception):
    """The table, or the tests that it names, must be changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bug:
    """One replacement in one file, and the tests that must notice it."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def applied_to(self, text: str) -> str:
        count = text.count(self.old)
        if count != 1:
            raise TableError(f"old text occurs {count} times in {self.file}; update this bug in {TABLE}")
        return text.replace(self.old, self.new)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """How pytest ended on one copy of the source."""

    code: int
    outcomes: Mapping[str, str]  # node id -> passed, failed or skipped
    seconds: float
    output: str

    @property
    def first_failure(self) -> str | None:
        return next((test for test, outcome in self.outcomes.items() if outcome == "failed"), None)

    @property
    def tail(self) -> str:
        return "\n".join(f"    {line}" for line in self.output.strip().splitlines()[-_SHOWN:])


def read_table(text: str) -> list[Bug]:
    """The bugs in order; TableError for a name that occurs twice, no tests, or one case of a test."""
    bugs = [Bug(**{**row, "tests": tuple(row["tests"])}) for row in tomllib.loads(text)["bug"]]
    names = [bug.name for bug in bugs]
    for bug in bugs:
        if names.count(bug.name) > 1:
            raise TableError(f"{bug.name}: name occurs twice; give each bug its own in {TABLE}")
        if not bug.tests:
            raise TableError(f"{bug.name}: no tests; name those that catch it in {TABLE}")
        if cases := [test for test in bug.tests if "[" in test]:  # which cases `make test` runs depends on all of them
            raise TableError(f"{bug.name}: {cases[0]} is one case; name the whole test in {TABLE}")
    return bugs


@contextmanager
def copied(root: Path) -> Iterator[Path]:
    """A temporary folder with a copy of src in it."""
    with tempfile.TemporaryDirectory(prefix="planted-") as name:
        shutil.copytree(root / "src", Path(name) / "src")
        yield Path(name)


def run(root: Path, folder: Path, tests: Sequence[str]) -> Run:
    """Runs *tests* on the source in *folder*; TableError when they would import another one."""
    source, outcomes = folder / "src", folder / "outcomes"
    outcomes.touch()
    environ = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(source), str(ROOT))),  # before the editable install, which is in a .pth
        _SOURCE: str(source),
        _OUTCOMES: str(outcomes),
    }
    command = [sys.executable, "-m", "pytest", "-m", TIER, "-n", "0", "-x", "-q", "-p", "no:cacheprovider"]
    began = time.monotonic()
    ended = subprocess.run(
        [*command, "-p", "tools.planted_bugs", "--basetemp", str(folder / "tmp"), *tests],
        cwd=root, env=environ, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    found: dict[str, str] = {}
    for line in outcomes.read_text(encoding="utf-8").splitlines():
        test, outcome = json.loads(line)
        if found.get(test) != "failed":
            found[test] = outcome
    return Run(code=ended.returncode, outcomes=found, seconds=time.monotonic() - began, output=ended.stdout)


def check_unchanged(root: Path, bugs: Sequence[Bug]) -> Run:
    """Runs all named tests on the unchanged source; TableError unless each of them ran and passed."""
    tests = sorted({test for bug in bugs for test in bug.tests})
    with copied(root) as folder:
        found = run(root, folder, tests)
    if found.code not in (0, 5):  # 5: every named test is deselected, which is said below
        raise TableError(
            f"named tests do not pass on the unchanged source (pytest exit code {found.code})\n{found.tail}"
        )
    for bug in bugs:
        for test in bug.tests:
            within = (f"{test}[", f"{test}::")
            outcomes = {outcome for ran, outcome in found.outcomes.items() if ran == test or ran.startswith(within)}
            if not outcomes:
                raise TableError(f"{bug.name}: {test} is not run by `make test`; name another test in {TABLE}")
            if "passed" not in outcomes:
                raise TableError(f"{bug.name}: {test} was skipped; it needs something that is not installed here")
    return found


def plant(root: Path, bug: Bug) -> Run:
    """Runs the named tests with the bug in place; TableError when that says nothing about the bug."""
    with copied(root) as folder:
        place = folder / bug.file
        if not place.is_file():
            raise TableError(f"{bug.file} does not exist; update this bug in {TABLE}")
        place.write_text(bug.applied_to(place.read_text(encoding="utf-8")), encoding="utf-8")
        found = run(root, folder, bug.tests)
    if found.code not in (0, 1) or (found.code == 1 and found.first_failure is None):
        raise TableError(f"pytest could not run the named tests (exit code {found.code})\n{found.tail}")
    return found


def judge(root: Path, bug: Bug) -> tuple[bool, str]:
    """Whether the bug was caught, and the line to print."""
    try:
        found = plant(root, bug)
    except TableError as error:
        return False, f"ERROR   {bug.name}: {error}"
    if found.first_failure is None:
        return False, f"MISSED  {bug.name} ({found.seconds:.1f} s)"
    return True, f"caught  {bug.name}: by {found.first_failure} ({found.seconds:.1f} s)"


def main(args: Sequence[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.planted_bugs", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("parts", nargs="*", metavar="NAME-PART", help="only bugs whose names contain one of these")
    parser.add_argument("--jobs", type=int, default=2, help="bugs at the same time (default: 2)")
    given = parser.parse_args(args)
    began = time.monotonic()
    try:
        bugs = read_table((root / TABLE).read_text(encoding="utf-8"))
        chosen = [bug for bug in bugs if not given.parts or any(part in bug.name for part in given.parts)]
        if not chosen:
            parser.error(f"no bug has a name with {' or '.join(map(repr, given.parts))} in it")
        unchanged = check_unchanged(root, chosen)
    except TableError as error:
        print(f"ERROR   {error}")
        return 1
    print(f"{len(unchanged.outcomes)} tests pass on the unchanged source ({unchanged.seconds:.1f} s)", flush=True)
    caught = 0
    with ThreadPoolExecutor(max(1, given.jobs)) as pool:
        for good, line in pool.map(lambda bug: judge(root, bug), chosen):
            caught += good
            print(line, flush=True)
    print(f"{caught} of {len(chosen)} bugs caught ({time.monotonic() - began:.0f} s)")
    return 0 if caught == len(chosen) else 1


# -- inside pytest: this module is one of its plugins ----------------------------------------------------------------


def pytest_sessionstart() -> None:
    """Stops a run that would test another source than the copy."""
    origin = str(import_module(PACKAGE).__file__)
    if not Path(origin).is_relative_to(os.environ[_SOURCE]):
        raise pytest.UsageError(f"{PACKAGE} is imported from {origin}, not from the copy in {os.environ[_SOURCE]}")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Writes down how a test ended; a fixture that fails is a failure, too."""
    if report.when == "call" or report.outcome != "passed":
        with Path(os.environ[_OUTCOMES]).open("a", encoding="utf-8") as file:
            file.write(json.dumps([report.nodeid, report.outcome]) + "\n")


if __name__ == "__main__":
    sys.exit(main())
