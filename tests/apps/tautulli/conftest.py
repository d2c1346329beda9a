"""The application on each database, and on SQLite alone where the database is not what is tested."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.apps.tautulli.building import Desk
from tests.databases import BOTH, Database, database


@pytest.fixture(params=BOTH)
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Desk]:
    with database(request.param, tmp_path) as found, Desk.opened(found) as made:
        yield made


@pytest.fixture
def quick(tmp_path: Path) -> Iterator[Desk]:
    with Desk.opened(Database("sqlite-apsw", f"sqlite:///{tmp_path / 'plays.db'}", "apsw")) as made:
        yield made
