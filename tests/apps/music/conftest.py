"""The tables of music on each database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.apps.music.building import Studio, World, kind_of
from tests.databases import BOTH, Database, database
from tidegate import Queue
from tidegate.clock import VirtualClock
from tidegate_apps.music.provider import Operation


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


@pytest.fixture
def studio(quick: Queue) -> Callable[..., Any]:
    """Makes one, with providers of these names that all do the same operations."""

    @contextmanager
    def made(*names: str, operations: tuple[Operation, ...] = (Operation.PLAYS,), **settings: Any) -> Iterator[Studio]:
        world = World(quick.clock)  # type: ignore[arg-type]
        kinds = [kind_of(world, name, *operations) for name in names or ("svc",)]
        with Studio.opened(quick, *kinds, world=world, **settings) as found:
            yield found

    return made
