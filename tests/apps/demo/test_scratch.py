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
from tidegate.cli.scratch import scratch

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
