from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.text import names, numbers
from tools import requirements
from tools.requirements import Proof, problems, read_results, read_table

ROOT = Path(__file__).parents[3]
RESULTS = "results.json"

TESTS = """
import pytest

@pytest.mark.req("AAA-01", "AAA-02")
def test_one(): pass

@pytest.mark.req("AAA-02")
@pytest.mark.parametrize("n", range(4))
def test_many(n): pass

@pytest.mark.req("BBB-01")
def test_red(): assert 1 == 2

@pytest.mark.req("BBB-02")
def test_not_here(): pytest.importorskip("a_module_that_nobody_has")

@pytest.fixture
def broken():
    yield
    raise RuntimeError("tear-down")

@pytest.mark.req("BBB-03")
def test_red_at_the_end(broken): pass

def test_plain(): pass
"""


def table(**states: str) -> str:
    rows = "\n".join(f"| {id_.replace('_', '-')} | what it says | {state} |" for id_, state in states.items())
    return f"# Requirements\n\n| id | what it says | state |\n| --- | --- | --- |\n{rows}\n"


def proof(*ids: str, outcome: str = "passed") -> Proof:
    return Proof(test="tests/test_it.py::test_it", ids=ids, outcome=outcome)


def project(tmp_path: Path, text: str, results: str = "[]") -> Path:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / RESULTS).write_text(results)
    write(tmp_path, text)
    return tmp_path


def write(root: Path, text: str) -> None:
    path = root / requirements.TABLE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def commit(root: Path) -> None:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run(["git", "add", requirements.TABLE], cwd=root, check=True)
    subprocess.run(["git", *identity, "commit", "-q", "-m", "table"], cwd=root, check=True)


def run_pytest(where: Path, *arguments: str) -> list[Proof]:
    """Runs TESTS in a pytest of its own, which must see their failures, and returns what the plugin wrote."""
    (where / "test_sample.py").write_text(TESTS)
    (where / "pytest.ini").write_text("[pytest]\nmarkers = req(*ids)\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tools.recorder", "--requirements", RESULTS, *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=where, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    return read_results((where / RESULTS).read_text())


@pytest.mark.parametrize(
    "arguments",
    [pytest.param(("-n", "0"), id="alone"), pytest.param(("-n", "2"), id="with two workers", marks=pytest.mark.full)],
)
def test_the_plugin_writes_ids_and_worst_outcome_of_each_marked_test(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    proofs = run_pytest(tmp_path, *arguments)

    assert {(p.test.removeprefix("test_sample.py::"), p.ids, p.outcome) for p in proofs} == {
        ("test_one", ("AAA-01", "AAA-02"), "passed"),
        *((f"test_many[{n}]", ("AAA-02",), "passed") for n in range(4)),
        ("test_red", ("BBB-01",), "failed"),
        ("test_not_here", ("BBB-02",), "skipped"),
        ("test_red_at_the_end", ("BBB-03",), "failed"),
    }


@pytest.mark.full
def test_a_held_requirement_that_lost_its_test_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = project(tmp_path, table(AAA_01="held", AAA_02="held", BBB_01="planned", BBB_02="planned", BBB_03="planned"))
    run_pytest(root)
    assert requirements.main([RESULTS], root) == 0

    run_pytest(root, "--deselect", "test_sample.py::test_one")
    assert requirements.main([RESULTS], root) == 1
    assert names(capsys.readouterr().err, "AAA-01", "held", "no test")


def test_the_results_of_two_runs_count_together(tmp_path: Path) -> None:
    root = project(
        tmp_path, table(AAA_01="held", AAA_02="held"), '[{"test": "t", "ids": ["AAA-01"], "outcome": "passed"}]'
    )
    (root / "more.json").write_text('[{"test": "u", "ids": ["AAA-02"], "outcome": "passed"}]')

    assert requirements.main([RESULTS], root) == 1
    assert requirements.main([RESULTS, "more.json"], root) == 0


@pytest.mark.parametrize(
    ("proofs", "shown"),
    [
        ([], "no test"),
        ([proof("AAA-01", outcome="skipped")], "skipped"),
        ([proof("AAA-01"), proof("AAA-01", outcome="failed")], "failed"),
    ],
)
def test_a_held_requirement_needs_a_passing_test_and_no_failing_one(proofs: list[Proof], shown: str) -> None:
    (found,) = problems({"AAA-01": "held"}, proofs)
    assert names(found, "AAA-01", "held", shown)


def test_a_planned_requirement_may_have_any_result() -> None:
    states = {"AAA-01": "planned", "AAA-02": "planned", "AAA-03": "planned"}

    assert list(problems(states, [proof("AAA-01"), proof("AAA-02", outcome="failed")])) == []


def test_a_test_that_names_an_unknown_id_fails() -> None:
    (found,) = problems({"AAA-01": "held"}, [proof("AAA-01", "AAA-07")])

    assert names(found, "tests/test_it.py::test_it", "AAA-07")


def test_planned_may_only_shrink() -> None:
    before = {"AAA-01": "held", "AAA-02": "planned", "AAA-03": "planned"}
    now = {"AAA-01": "planned", "AAA-02": "held", "AAA-04": "planned"}

    found = list(problems(now, [proof("AAA-02")], [before, before]))

    assert [line.split()[0] for line in found] == ["AAA-01", "AAA-03"]


def test_a_loss_shows_before_and_after_it_is_committed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = project(
        tmp_path, table(AAA_01="held", AAA_02="planned"), '[{"test": "t", "ids": ["AAA-01"], "outcome": "passed"}]'
    )
    assert requirements.main([RESULTS], root) == 0
    commit(root)
    assert requirements.main([RESULTS], root) == 0

    write(root, table(AAA_01="planned"))
    expected = "requirements: AAA-01 was held and is planned again\nrequirements: AAA-02 is gone from the table\n"
    capsys.readouterr()
    assert requirements.main([RESULTS], root) == 1
    assert capsys.readouterr().err == expected

    commit(root)
    assert requirements.main([RESULTS], root) == 1
    assert capsys.readouterr().err == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (table(AAA_01="done"), "AAA-01: the state is 'done', and must be one of planned, held"),
        (table(AAA_01="held") + "| AAA-01 | again | held |\n", "AAA-01: stands in the table twice"),
    ],
)
def test_a_broken_row_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, message: str) -> None:
    assert requirements.main([RESULTS], project(tmp_path, text)) == 1
    assert capsys.readouterr().err == f"requirements: {message}\n"


def test_missing_results_are_said_and_fail(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = project(tmp_path, table(AAA_01="planned"))
    (root / RESULTS).unlink()

    assert requirements.main([RESULTS], root) == 1
    assert RESULTS in capsys.readouterr().err


def test_each_line_of_the_report_says_id_state_tests_and_result() -> None:
    lines = list(requirements.render({"AAA-01": "held", "AAA-02": "planned"}, [proof("AAA-01"), proof("AAA-01")]))

    assert [line.split() for line in lines[:2]] == [
        ["AAA-01", "held", "2", "tests", "passed"],
        ["AAA-02", "planned", "0", "tests", "no", "test"],
    ]
    assert numbers(lines[2]) == [2, 1, 1, 1]  # all, held, planned, with a test


def test_every_row_of_the_shipped_table_is_read() -> None:
    text = (ROOT / requirements.TABLE).read_text()
    rows = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith(("| id ", "| --- "))]

    assert len(read_table(text)) == len(rows)
    families = {
        family: sum(id_.startswith(family) for id_ in read_table(text))
        for family in ("SYNC", "BRK", "FEED", "LID", "CNV")
    }
    assert families == {"SYNC": 17, "BRK": 12, "FEED": 15, "LID": 18, "CNV": 19}
