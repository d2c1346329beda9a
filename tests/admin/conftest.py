from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.databases import Database
from tests.jobs.gating import queue_on
from tests.store.jobs import Clock, Jobs, jobs_on
from tidegate.clock import VirtualClock
from tidegate.jobs.queue import Queue


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
    with jobs_on(db, Clock()) as found:
        yield found
