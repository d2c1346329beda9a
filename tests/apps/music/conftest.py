"""The tables of music on each database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.databases import BOTH, Database, database
from tidegate import Queue
from tidegate.runtime.clock import VirtualClock


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture(params=BOTH)
def queue(request: pytest.FixtureRequest, tmp_path: Path, clock: VirtualClock) -> Iterator[Queue]:
    """On each database."""
    with database(request.param, tmp_path) as found, Queue(found.url, driver=found.driver, clock=clock) as made:
        yield made


@pytest.fixture
def quick(tmp_path: Path, clock: VirtualClock) -> Iterator[Queue]:
    """On SQLite alone, where the database is not what is tested."""
    found = Database("sqlite-apsw", f"sqlite:///{tmp_path / 'music.db'}", "apsw")
    with Queue(found.url, driver=found.driver, clock=clock, inline=True) as made:
        yield made
