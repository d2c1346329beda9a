from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.web.api.building import Shop, client_of, filled, served, shop


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Shop]:
    """A queue with a few jobs: 1, 3, 5 are done, 2, 4, 6 failed, 7 is ready, 8 and 9 are due later, 10 is pinned."""
    (tmp_path / "jobs.db").write_bytes(filled())
    with shop(tmp_path) as found:
        yield found


@pytest.fixture
def api(there: Shop) -> Iterator[TestClient]:
    with client_of(served(there)) as client:
        yield client


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Shop, TestClient]]:
    """The same for all tests of a file that change nothing."""
    folder = tmp_path_factory.mktemp("unchanged")
    (folder / "jobs.db").write_bytes(filled())
    with shop(folder) as found, client_of(served(found)) as client:
        yield found, client


@pytest.fixture
def still(unchanged: tuple[Shop, TestClient]) -> TestClient:
    """The API, for a test that changes nothing."""
    return unchanged[1]
