"""Several worker processes on one database: they agree on the breaker to the last permit."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.databases import BOTH, Database
from tests.runtime_jobs import gate_process
from tests.runtime_jobs.gating import breaker_of
from tidegate.face.queue import Queue
from tidegate.store import tallies

PROCESSES = 4
JOBS = 80


@pytest.fixture
def queue(db: Database) -> Iterator[Queue]:
    with Queue(db.url, driver=db.driver) as q:
        yield q


def workers(db: Database, folder: Path) -> list[subprocess.Popen[bytes]]:
    script = str(Path(gate_process.__file__))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, script, db.url, db.driver or "", str(folder)]
    return [subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) for _ in range(PROCESSES)]


def until(what: Any, seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


@pytest.mark.parametrize("db", BOTH, indirect=True)
def test_half_open_lets_exactly_its_permits_through_over_all_processes(
    db: Database, queue: Queue, tmp_path: Path
) -> None:
    call: Any = gate_process.declare(queue)
    call.enqueue_many(list(range(JOBS)))
    (tmp_path / "ill").touch()
    processes = workers(db, tmp_path)
    try:
        until(lambda: queue.target("svc").events() and breaker_of(queue, "svc") != "closed")
        time.sleep(3)  # several rounds of open, half-open, open
        (tmp_path / "ill").unlink()
        until(lambda: queue.store.read(tallies.read).get(("default", "done")) == JOBS, 90)
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(10)
    calls = sorted(json.loads(line) for path in tmp_path.glob("calls-*") for line in path.read_text().splitlines())
    events = [event for event in reversed(queue.target("svc").events()) if event.kind == "breaker_state_changed"]
    assert len({path.name for path in tmp_path.glob("calls-*")}) == PROCESSES
    rounds = 0
    for event, following in itertools.pairwise(events):
        began = [call for call in calls if event.at <= call[0] < following.at]
        if event.fields["to"] == "open":
            # A job that was claimed before it opened may begin a moment later; none that was claimed after it.
            assert [call for call in began if call[0] > event.at + 0.5] == []
        elif event.fields["to"] == "half-open":
            rounds += 1
            # What was claimed in this state: at most three. A permit may be used again when it proved nothing.
            assert len([call for call in began if call[0] > event.at]) <= 3
    assert rounds >= 3
    closing = next(i for i, event in enumerate(events) if event.fields["to"] == "closed")
    good = [call for call in calls if events[closing - 1].at <= call[0] < events[closing].at and call[2]]
    assert len(good) == 3
