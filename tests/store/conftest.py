from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.databases import Database
from tests.store.jobs import Clock, Jobs, jobs_on


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def jobs(db: Database, clock: Clock) -> Iterator[Jobs]:
    with jobs_on(db, clock) as found:
        yield found
