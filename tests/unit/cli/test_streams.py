"""The command where its streams are closed, full or left by their reader, and where somebody presses Ctrl-C."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

COMMAND = Path(sys.executable).with_name("tidegate")
# How it is started, its exit code, and how many lines are on stderr.
WAYS = {
    "stdout is closed": (">&-", 0, 0),
    "everything is closed": ("<&- >&- 2>&-", 0, 0),
    "the disk is full": (">/dev/full", 1, 1),
    "both are full": (">/dev/full 2>/dev/full", 1, 0),
    "stderr is closed": ("2>&-", 0, 0),
}
# Ctrl-C in the moment in which a module is imported.
INTERRUPTED = """
import sys
from tidegate.cli import main

class CtrlC:
    def find_spec(self, name, path, target=None):
        if name == at:
            raise KeyboardInterrupt

at = sys.argv.pop()
sys.meta_path.insert(0, CtrlC())
main()
"""


@pytest.mark.parametrize(
    "way", [pytest.param(way, marks=() if at == 0 else pytest.mark.full) for at, way in enumerate(WAYS)]
)
def test_there_is_no_traceback_wherever_the_output_goes(tmp_path: Path, way: str) -> None:
    how, code, lines = WAYS[way]
    line = f"{shlex.quote(str(COMMAND))} config {how}"
    run = subprocess.run(["bash", "-c", line], cwd=tmp_path, check=False, capture_output=True, text=True)
    assert (run.returncode, run.stderr.count("\n"), "Traceback" in run.stderr) == (code, lines, False)


def test_no_file_takes_the_place_of_a_stream_that_is_closed(tmp_path: Path) -> None:
    """Else what is printed would be written into it."""
    code = "import os; from tidegate.cli import _open_streams; _open_streams(); print(open('f', 'w').fileno() > 2)"
    line = f"{shlex.quote(sys.executable)} -c {shlex.quote(code)} <&- 2>&-"
    run = subprocess.run(["bash", "-c", line], cwd=tmp_path, check=False, capture_output=True, text=True)
    assert run.stdout == "True\n"


@pytest.mark.parametrize("at", ["tidegate.cli.root", "tidegate.cli.config"])
def test_ctrl_c_while_it_is_still_starting_is_no_traceback(tmp_path: Path, at: str) -> None:
    line = [sys.executable, "-c", INTERRUPTED, "config", at]
    run = subprocess.run(line, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert (run.returncode, run.stderr.strip()) == (130, "")


@pytest.mark.long
def test_ctrl_c_at_a_hundred_instants_is_no_traceback(tmp_path: Path) -> None:
    began = time.monotonic()
    subprocess.run([COMMAND, "simulate", "--tour"], cwd=tmp_path, check=True, capture_output=True)
    whole = time.monotonic() - began
    codes = set()
    for n in range(100):
        run = subprocess.Popen(
            [COMMAND, "simulate", "--tour"], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        time.sleep(whole * n / 100)
        run.send_signal(signal.SIGINT)
        _, says = run.communicate(timeout=60)
        # Before it comes to us, it is the interpreter that is interrupted.
        assert "Traceback" not in says or "tidegate/cli/" not in says, says
        codes.add(run.returncode)
    assert {0, 130} <= codes <= {0, 130, 1, -signal.SIGINT}, codes
