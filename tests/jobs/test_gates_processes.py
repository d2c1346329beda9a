"""Several worker processes on one database: they agree on the breaker to the last permit."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.checker import rows
from tests.databases import BOTH, Database
from tests.jobs import gate_process
from tidegate.jobs import settle
from tidegate.jobs.queue import Queue
from tidegate.targets.table import TargetEvent

PROCESSES = 4
JOBS = 80
WORKERS = "select id from tg_worker"
# What tells something of the target; an attempt that was given back leaves its permit to the next one.
CLAIMS = "select began_at, kind, actor from tg_event where began_at is not null and kind in ('done', 'again', 'trial')"


@pytest.fixture
def queue(db: Database) -> Iterator[Queue]:
    with Queue(db.url, driver=db.driver) as q:
        yield q


def workers(db: Database, folder: Path) -> list[subprocess.Popen[bytes]]:
    script = str(Path(gate_process.__file__))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, script, db.url, db.driver or "", str(folder)]
    return [subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) for _ in range(PROCESSES)]


def until(what: Any, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


def moves(queue: Queue) -> list[TargetEvent]:
    """What the breaker did, oldest first."""
    return [event for event in reversed(queue.target("svc").events()) if event.kind == "breaker_state_changed"]


@pytest.mark.full
@pytest.mark.parametrize("db", BOTH, indirect=True)
def test_half_open_lets_exactly_its_permits_through_over_all_processes(
    db: Database, queue: Queue, tmp_path: Path
) -> None:
    call: Any = gate_process.declare(queue)
    call.enqueue_many([(each,) for each in range(JOBS)])
    (tmp_path / "ill").touch()
    processes = workers(db, tmp_path)
    try:
        until(lambda: len(rows(db.url, WORKERS)) == PROCESSES)
        until(lambda: sum(event.fields["to"] == "half-open" for event in moves(queue)) >= 3)
        (tmp_path / "ill").unlink()
        until(lambda: queue.store.read(settle.read).get(("default", "done")) == JOBS)
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(60)
    claims = rows(db.url, CLAIMS)
    assert len({actor for _, _, actor in claims}) > 1
    for event, following in itertools.pairwise(moves(queue)):
        # Claims and changes of the state are stamped with one clock, while the row of the target is kept still.
        taken = [kind for at, kind, _ in claims if event.at <= at < following.at]
        match event.fields["to"], following.fields["to"]:
            case "open", _:
                assert taken == []
            case "half-open", "closed":
                assert taken == ["done"] * 3
            case "half-open", _:
                assert 1 <= len(taken) <= 3
