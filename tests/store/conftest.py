from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.databases import BOTH, Database, database
from tests.store.jobs import Clock, Jobs


@pytest.fixture(params=BOTH)
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """An empty database: SQLite by apsw, and PostgreSQL; a module that also runs on sqlite3 says so."""
    with database(request.param, tmp_path) as found:
        yield found


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def jobs(db: Database, clock: Clock) -> Iterator[Jobs]:
    """A migrated store on a clock of its own, and short words for what tests do with it."""
    store = db.open(clock)
    found = Jobs(store, clock)
    found.migrate()
    try:
        yield found
        found.check()
    finally:
        store.close()
