from __future__ import annotations

import pytest

pytest_plugins = ["tools.recorder"]


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Coroutine tests run on asyncio, the one loop that Tidegate supports."""
    return "asyncio"
