from __future__ import annotations

from collections.abc import Iterator
from weakref import WeakSet

import pytest

from tidegate.guard.breaker import Breaker
from tidegate.guard.breaker_registry import all_totals


def _breakers() -> list[Breaker]:
    return [breaker for each in all_totals() for breaker in each.breakers()]


@pytest.fixture(autouse=True)
def no_breaker_of_a_world_stays_open() -> Iterator[None]:
    """FastAPI remembers the routes of a server, and they its breakers, whose numbers other tests here read, too."""
    before = WeakSet(_breakers())
    yield
    for breaker in _breakers():
        if breaker not in before:
            breaker.reset()
