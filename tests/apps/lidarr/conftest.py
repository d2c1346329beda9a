"""A submission queue in virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.apps.lidarr.building import Round
from tests.databases import BOTH, Database, database


@pytest.fixture(params=BOTH)
def both(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Round]:
    """On each database."""
    with database(request.param, tmp_path) as found, Round.opened(found) as made:
        yield made


@pytest.fixture
def quick_db(tmp_path: Path) -> Database:
    return Database("sqlite-apsw", f"sqlite:///{tmp_path / 'lidarr.db'}", "apsw")


@pytest.fixture
def quick(quick_db: Database) -> Iterator[Round]:
    """On SQLite alone, where the database is not what is tested."""
    with Round.opened(quick_db) as made:
        yield made
