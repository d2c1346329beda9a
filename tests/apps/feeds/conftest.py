"""A server's feeds without the server: the database, the sources, and a poller that is told what the world answers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.apps.feeds.building import Desk
from tests.databases import BOTH, Database
from tidegate.clock import VirtualClock


@pytest.fixture(params=BOTH)
def desk(request: pytest.FixtureRequest, tmp_path: object) -> Iterator[Desk]:
    """On each database."""
    from pathlib import Path

    from tests.databases import database

    assert isinstance(tmp_path, Path)
    with database(request.param, tmp_path) as found, Desk.opened(found, VirtualClock()) as made:
        yield made


@pytest.fixture
def quick(tmp_path: object) -> Iterator[Desk]:
    """On SQLite alone, where the database is not what is tested."""
    from pathlib import Path

    assert isinstance(tmp_path, Path)
    found = Database("sqlite-apsw", f"sqlite:///{tmp_path / 'feeds.db'}", "apsw")
    with Desk.opened(found, VirtualClock()) as made:
        yield made
