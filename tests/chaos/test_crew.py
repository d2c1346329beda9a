"""Processes that end by themselves: one without a database is started again, any other breaks a promise."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.chaos.crew import Crew, Seat
from tests.chaos.orders import THE_ENQUEUER
from tidegate.cli.exits import Exit


def after_both_have_ended(folder: Path, worker: int, enqueuer: int) -> Crew:
    """With these exit codes."""

    def seat(name: str, code: int) -> Seat:
        return Seat(name, (sys.executable, "-c", f"raise SystemExit({code})"), None, folder / f"{name}.log")

    found = Crew(folder / "orders.json", [seat("worker-1", worker)], seat(THE_ENQUEUER, enqueuer))
    found.tend()
    for each in found.seats:
        assert each.process is not None
        each.process.wait()
        each.started = float("inf")  # nobody is replaced
    found.tend()
    return found


@pytest.mark.parametrize("code", [Exit.UNREACHABLE, Exit.CONFIGURATION])
def test_a_worker_that_finds_no_database_is_counted_apart(code: int, tmp_path: Path) -> None:
    found = after_both_have_ended(tmp_path, code, 0)

    assert (found.starts, found.not_started) == (1, 1)
    assert not [each for each in found.wrong if "worker-1" in each]


@pytest.mark.parametrize("code", [0, 1])
def test_whoever_else_ends_by_itself_breaks_a_promise(code: int, tmp_path: Path) -> None:
    found = after_both_have_ended(tmp_path, code, code)

    assert found.not_started == 0
    assert [each.split()[0] for each in found.wrong] == ["worker-1", THE_ENQUEUER]
