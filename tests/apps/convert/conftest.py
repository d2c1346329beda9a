from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.apps.convert.building import Place
from tests.apps.convert.building import place as made
from tests.databases import database


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """Convert on SQLite."""
    with database("sqlite-apsw", tmp_path) as db, made(db, tmp_path) as found:
        yield found


@pytest.fixture(params=["sqlite-apsw", "postgres"])
def each(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Convert on either database."""
    with database(request.param, tmp_path) as db, made(db, tmp_path) as found:
        yield found
