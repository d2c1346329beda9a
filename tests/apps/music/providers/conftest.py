"""The simulated services, once for all tests and as new for each."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Iterator

import httpx2
import pytest

from tests.apps.music.providers.building import Desk, Jumping
from tidegate_demo.simulators.music import MusicSimulator

PLAIN = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # to load the authorities of the world takes longer than most tests


@pytest.fixture(scope="session")
def running() -> Iterator[tuple[MusicSimulator, Jumping]]:
    clock = Jumping()
    with MusicSimulator(clock=clock) as sim:
        yield sim, clock


@pytest.fixture
async def desk(running: tuple[MusicSimulator, Jumping]) -> AsyncIterator[Desk]:
    """Over real HTTP."""
    sim, clock = running
    sim.reset()
    async with httpx2.AsyncHTTPTransport(verify=PLAIN) as transport:
        yield Desk(sim, clock, transport, sim.url)
