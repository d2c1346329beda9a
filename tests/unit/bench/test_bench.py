"""The benchmark covers the breaker's three states and says when a target is missed."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bench import __main__ as bench_main
from bench import breaker, job_waits
from bench.row import Row, at_most, exactly, table
from bench.timing import araises, raises
from tidegate import Breaker, Queue

ROOT = Path(__file__).parents[3]


PATHS = {
    "closed breaker, sync",
    "closed breaker, async",
    "failing call recorded",
    "open: rejection",
    "open: allow()",
    "half-open: admit and settle one probe",
    "8 threads sleeping 4 ms in one breaker",
}
FLOORS = {"bare call", "pass-through wrapper, sync", "raise and catch a prebuilt exception"}
JUDGED = PATHS - {"half-open: admit and settle one probe"}


@pytest.mark.req("BRK-12")
def test_the_benchmark_runs_and_reports_each_path_of_the_breaker() -> None:
    rows = {row.what: row for row in breaker.run(rounds=1, processes=1)}

    assert rows.keys() >= PATHS | FLOORS
    for what in PATHS | FLOORS:
        number = re.search(r"[0-9][0-9,]*(\.[0-9]+)?", rows[what].found)
        assert number is not None, what
        assert float(number[0].replace(",", "")) > 0, what
    assert {what for what in PATHS if rows[what].ok is not None} == JUDGED


@pytest.mark.req("BRK-12")
@pytest.mark.parametrize(
    ("state", "measured"), [("open", breaker.tripped), ("half-open", breaker.half_open), ("closed", breaker.never)]
)
def test_what_is_measured_is_in_the_state_that_the_row_names(state: str, measured: Callable[[], Breaker]) -> None:
    assert measured().state == state


COVERED = [f"src/tidegate/guard/{name}.py" for name in ("breaker", "breaker_state", "breaker_counts", "breaker_policy")]

COVERING = ("by_hand", "callbacks", "half_open", "input", "says", "trip", "verdicts")  # not the slow ones


@pytest.mark.req("BRK-12")
def test_the_tests_of_the_breaker_cover_95_percent_of_it(tmp_path: Path) -> None:
    coverage = [sys.executable, "-m", "coverage"]
    # The settings of the project would trace all of Tidegate, which takes three times as long.
    options = ["--rcfile=/dev/null", f"--data-file={tmp_path / 'coverage'}", f"--include={','.join(COVERED)}"]
    tests = [f"tests/unit/guard/test_breaker_{name}.py" for name in COVERING]
    run = ["-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "-m", "not long and not alone", *tests]
    for command in ("run", *options, "--branch", *run), ("report", *options, "--fail-under=95"):
        done = subprocess.run([*coverage, *command], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_missed_target_is_said() -> None:
    rows = [Row("floor", "20 ns"), at_most("good", 1.0, 2.0, "x"), at_most("bad", 3.0, 2.0, "x", " (9 ns)")]
    assert [line.split() for line in table(rows).splitlines()] == [
        ["what", "found", "target"],
        ["floor", "20", "ns"],
        ["good", "1.00x", "<=", "2x", "ok"],
        ["bad", "3.00x", "(9", "ns)", "<=", "2x", "SHORT"],
    ]


def test_a_call_that_was_to_fail_and_does_not_is_no_number() -> None:
    with pytest.raises(RuntimeError, match="was to raise"):
        raises(breaker.ok, 3)
    with pytest.raises(RuntimeError, match="was to raise"):
        asyncio.run(araises(breaker.aok, 3))
    assert raises(breaker.fails, 3) >= 0


def test_a_job_that_never_began_has_not_waited_for_less_than_nothing(tmp_path: Path) -> None:
    with Queue(f"sqlite:///{tmp_path / 'jobs.db'}") as queue:
        began, job = time.time(), job_waits.started(queue).enqueue(1)
        with pytest.raises(RuntimeError, match="has not begun"):
            job_waits.waited(job, began)
        queue.drain()
        assert job_waits.waited(job, began) > 0


@pytest.mark.parametrize(("found", "ok"), [(0, False), (9, False), (10, True), (11, False)])
def test_a_number_that_must_be_met_is_missed_from_both_sides(found: int, ok: bool) -> None:
    assert exactly("sent", found, 10) == Row("sent", str(found), "10", ok)


def test_each_part_of_the_benchmark_is_in_one_table_of_the_page() -> None:
    assert sorted(part for parts in bench_main.TABLES.values() for part in parts) == sorted(bench_main.PARTS)


def test_the_summary_counts_limits_and_names_the_rows_beyond_them() -> None:
    rows = [Row("floor", "20 ns"), at_most("good", 1.0, 2.0, "x"), at_most("bad", 3.0, 2.0, "x")]

    lines = bench_main.summary(rows, 219.4).splitlines()

    assert lines[2:] == ["| rows with a limit | 2 |", "| beyond their limit | 1: bad |", "| time | 3 min 39 s |"]


def test_a_table_of_the_page_does_not_repeat_its_heading_in_each_row() -> None:
    rows = [Row("convert, bare loop", "9/s"), Row("two of convert, three", "8/s")]

    assert [line.split(" | ")[0] for line in bench_main.shown("convert", rows).splitlines()[2:]] == [
        "| bare loop",
        "| two of convert, three",
    ]


def test_the_write_ahead_log_of_a_day_is_computed_from_that_of_a_job() -> None:
    shown = bench_main.log_rows(
        [Row(bench_main.LOG, "1,000 bytes"), Row(bench_main.LOG_RATIO, "1.20x", "<= 1.2x", True)]
    )

    assert "| per job | 1,200 bytes |" in shown
    assert "| at 10,000 jobs/s | 12 MB/s, 1.0 TB a day |" in shown
