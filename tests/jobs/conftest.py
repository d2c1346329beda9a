from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.jobs.building import queue
from tidegate.clock import VirtualClock
from tidegate.jobs.queue import Queue


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def q(tmp_path: Path, clock: VirtualClock) -> Iterator[Queue]:
    with queue(tmp_path, clock) as found:
        yield found
