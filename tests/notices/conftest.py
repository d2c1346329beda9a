"""Channels on virtual time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.databases import Database
from tests.notices.telling import Outside, Scene
from tidegate.clock import VirtualClock


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def outside() -> Outside:
    return Outside()


@pytest.fixture
def scene(db: Database, clock: VirtualClock, outside: Outside) -> Iterator[Scene]:
    with Scene(db, clock, outside) as found:
        yield found
