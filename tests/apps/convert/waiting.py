"""Waiting for what another thread or process does."""

from __future__ import annotations

import time
from collections.abc import Callable

LONGEST = 60.0


def until(true: Callable[[], object]) -> None:
    """Returns as soon as *true* says so."""
    end = time.monotonic() + LONGEST
    while not true():
        assert time.monotonic() < end, "it did not become true"
        time.sleep(0.01)
