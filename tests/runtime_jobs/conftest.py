from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runtime_jobs.building import queue
from tidegate.face.queue import Queue
from tidegate.runtime.clock import VirtualClock


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def q(tmp_path: Path, clock: VirtualClock) -> Iterator[Queue]:
    with queue(tmp_path, clock) as found:
        yield found
