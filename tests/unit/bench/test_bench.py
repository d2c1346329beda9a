"""The benchmark covers the breaker's three states and says when a target is missed."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from bench import breaker, job_waits
from bench.row import Row, at_most, exactly, table
from bench.timing import araises, raises
from tidegate import Queue

ROOT = Path(__file__).parents[3]


@pytest.mark.req("BRK-12")
def test_closed_open_and_half_open_are_measured() -> None:
    rows = {row.what: row for row in breaker.run(rounds=1, processes=1)}
    for what in (
        "closed breaker, sync",
        "closed breaker, async",
        "failing call recorded",
        "open: rejection",
        "open: allow()",
        "half-open: admit and settle one probe",
        "8 threads sleeping 4 ms in one breaker",
    ):
        assert any(character.isdigit() for character in rows[what].found), what


@pytest.mark.req("BRK-12")
def test_the_coverage_of_the_breaker_is_checked_by_make_test() -> None:
    makefile = (ROOT / "Makefile").read_text()
    measured = next(line for line in makefile.splitlines() if line.startswith("BREAKER :="))
    assert all(f"src/tidegate/machine/{part}.py" in measured for part in ("breaker", "states", "epoch", "permit"))
    assert "--fail-under=95" in makefile


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
