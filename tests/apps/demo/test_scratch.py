"""The directory of the demo: it is gone when the process is, however that ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PATIENCE = 60  # seconds
PROGRAM = """
import pathlib, sys
from tidegate.cli.demo import scratch

with scratch("tidegate-demo-") as folder:
    (folder / "inner").mkdir()
    (folder / "inner" / "tidegate.db").write_text("rows")
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("number", [None, signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_whatever_ends_it(tmp_path: Path, number: signal.Signals | None) -> None:
    own = {**os.environ, "TMPDIR": str(tmp_path)}
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=own, process_group=0
    ) as running:
        assert running.stdout is not None
        folder = Path(running.stdout.readline().strip())
        assert (folder / "inner" / "tidegate.db").read_text() == "rows"
        if number is not None:
            os.killpg(running.pid, number)  # as a terminal does
        running.communicate(timeout=PATIENCE)

    end = time.monotonic() + PATIENCE
    while folder.exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert list(tmp_path.iterdir()) == []
    assert running.returncode == (0 if number is None else -number)


def test_whoever_ends_does_not_fail_because_the_removing_takes_long(tmp_path: Path) -> None:
    hurried = PROGRAM.replace("\nwith ", "\nsys.modules[scratch.__module__]._PATIENCE = 0\nwith ", 1)
    own = {**os.environ, "TMPDIR": str(tmp_path)}
    ended = subprocess.run(
        [sys.executable, "-c", hurried],
        input="",
        capture_output=True,
        text=True,
        env=own,
        timeout=PATIENCE,
        check=False,
    )

    assert (ended.returncode, ended.stderr) == (0, "")
