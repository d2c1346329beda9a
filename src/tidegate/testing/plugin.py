"""The pytest plug-in. Pytest loads it in every run, so nothing but pytest is imported until a fixture is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tidegate.runtime.clock import VirtualClock


@pytest.fixture
def virtual_clock() -> VirtualClock:
    """A clock that jumps instead of waiting; hand it to `Target(..., clock=virtual_clock)`."""
    from tidegate.runtime.clock import VirtualClock

    return VirtualClock()
