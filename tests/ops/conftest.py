from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.databases import BOTH, Database, database
from tests.runtime_jobs.gating import queue_on
from tests.store.jobs import Clock, Jobs
from tidegate.face.queue import Queue
from tidegate.runtime.clock import VirtualClock


@pytest.fixture(params=BOTH)
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    with database(request.param, tmp_path) as found:
        yield found


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def q(db: Database, clock: VirtualClock) -> Iterator[Queue]:
    """A queue on virtual time."""
    with queue_on(db, clock) as found:
        yield found


@pytest.fixture
def jobs(db: Database) -> Iterator[Jobs]:
    """A migrated store on a clock of its own, and short words for what tests do with it."""
    clock = Clock()
    found = Jobs(db.open(clock), clock)
    found.migrate()
    yield found
    found.check()
    found.store.close()
