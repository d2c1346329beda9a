"""A queue on virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tidegate import Queue
from tidegate.clock import VirtualClock


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def q(tmp_path: Path, clock: VirtualClock) -> Iterator[Queue]:
    with Queue(f"sqlite:///{tmp_path / 'jobs.db'}", clock=clock, inline=True) as found:
        yield found
