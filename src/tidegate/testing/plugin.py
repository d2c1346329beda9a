"""The pytest plug-in. Every pytest run loads it, so it imports only pytest until a fixture is used."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tidegate.clock import VirtualClock
    from tidegate.testing.events import EventLog


@pytest.fixture
def virtual_clock() -> VirtualClock:
    """A clock that advances without waiting: `Target(..., clock=virtual_clock)`."""
    from tidegate.clock import VirtualClock

    return VirtualClock()


@pytest.fixture
def tide_events() -> Iterator[EventLog]:
    """The events of a bus for this test only: `Target(..., tuning=Tuning(bus=tide_events.bus))`."""
    from tidegate.testing.events import EventLog

    log = EventLog()
    yield log
    log.close()
