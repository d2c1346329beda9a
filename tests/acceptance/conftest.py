from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.databases import APSW, POSTGRES, Database, database


@pytest.fixture(params=[APSW, POSTGRES])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """A database that processes share; which library opens a file is the store's own business."""
    with database(request.param, tmp_path) as found:
        yield found
