"""A run whose load has ended is no run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.soak.processes import ROOT, Running, or_all_ends

WAITS = (sys.executable, "-c", "import signal; signal.pause()")


@pytest.mark.parametrize("name", ["server", "people"])
def test_whoever_has_ended_by_itself_is_named(name: str, tmp_path: Path) -> None:
    there = Running(tmp_path, "sqlite:///nowhere.db", 0)
    lives = there.start("worker 1", *WAITS)
    there.sampled["worker 1"] = psutil.Process(lives.pid)
    ends = there.start(name, *WAITS)
    if name == "people":
        there.people = ends
    else:
        there.sampled[name] = psutil.Process(ends.pid)
    assert there.dead() == []
    ends.kill()
    os.waitid(os.P_PID, ends.pid, os.WEXITED | os.WNOWAIT)
    assert there.dead() == [name]
    there.end()


def test_people_who_can_no_longer_go_on_end_as_a_whole() -> None:
    one_fails = (
        "import threading; from tests.soak.processes import or_all_ends; "
        "threading.Thread(target=or_all_ends, args=(lambda: 1 / 0,)).start(); threading.Event().wait()"
    )
    found = subprocess.run(
        [sys.executable, "-c", one_fails], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
    )
    assert found.returncode == 1
    assert "ZeroDivisionError" in found.stderr


def test_people_who_have_done_all_end_nothing() -> None:
    done: list[int] = []
    or_all_ends(lambda: done.append(1))
    assert done == [1]
