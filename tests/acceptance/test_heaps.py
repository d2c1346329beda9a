"""The long-lived commands keep to two heaps of glibc, however many threads they have."""

from __future__ import annotations

import os
import subprocess
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from tests.processes import COMMAND, wait
from tidegate import process as tidegate_process

PROGRAM = """
from tidegate import Queue

q = Queue("sqlite:///jobs.db")


@q.job()
def work(n: int) -> int:
    return n
"""
SIZE = 64 << 20  # glibc sets so much aside for a heap that is not the first, at a multiple of it
THREADS = 5  # as many heaps there would be

pytestmark = pytest.mark.skipif(not tidegate_process.is_glibc(), reason="the C library is not glibc")


def other_heaps(process: int) -> int:
    """How many there are beside the first: what is in use of each, and right behind it what is not yet."""
    found = []
    for line in Path(f"/proc/{process}/maps").read_text().splitlines():
        span, rights, *_ = line.split()
        start, end = (int(edge, 16) for edge in span.split("-"))
        found.append((start, end, rights))
    return sum(
        start % SIZE == 0 and (rights, after) == ("rw-p", "---p") and (end, behind) == (begins, start + SIZE)
        for (start, end, rights), (begins, behind, after) in pairwise(found)
    )


@pytest.mark.full
@pytest.mark.parametrize("command", [("serve", "--port", "0"), ("worker", "program:q")], ids=["serve", "worker"])
def test_many_threads_share_two_heaps(command: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "tidegate.toml").write_text("apps = []\n")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TIDEGATE_", "MALLOC_"))}
    with (tmp_path / "log").open("w") as log:
        running = subprocess.Popen(
            [COMMAND, *command], cwd=tmp_path, stdout=log, stderr=log, env={**kept, "PYTHONPATH": str(tmp_path)}
        )
    with running:
        try:
            wait(lambda: psutil.Process(running.pid).num_threads() >= THREADS, "it has its threads")
            assert other_heaps(running.pid) == 1
        finally:
            running.terminate()
