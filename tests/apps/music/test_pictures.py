"""Pictures: what is kept, what is asked for again, and when."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.apps.music.building import KEY, MINUTE
from tidegate import Queue
from tidegate.apps import install
from tidegate.clock import VirtualClock
from tidegate.testing import Simulator, Step
from tidegate_apps.music.app import app
from tidegate_apps.music.images import Pictures
from tidegate_apps.music.settings import MusicSettings

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
WHERE = "GET /pictures/{name}"


@pytest.fixture
def sim() -> Iterator[Simulator]:
    with Simulator() as found:
        yield found


@pytest.fixture
def pictures(quick: Queue) -> Pictures:
    settings = MusicSettings(allow_networks=("127.0.0.0/8",))
    return Pictures(install(app, quick, settings, lambda: KEY))


async def test_a_host_that_is_overloaded_is_left_alone_and_no_picture_of_it_is_taken_for_missing(
    sim: Simulator, pictures: Pictures, clock: VirtualClock
) -> None:
    sim.on(WHERE, Step(503, "busy"))
    assert await pictures.of(f"{sim.url}/pictures/1.png") is None
    assert await pictures.of(f"{sim.url}/pictures/2.png") is None
    assert sim.count(WHERE) == 1

    sim.on(WHERE, Step(200, PNG))
    clock.advance(2 * MINUTE)
    for name in ("1.png", "2.png"):
        found = await pictures.of(f"{sim.url}/pictures/{name}")
        assert found is not None
        assert found.media_type == "image/png"


async def test_a_picture_that_is_missing_is_not_asked_for_again_for_an_hour(
    sim: Simulator, pictures: Pictures, clock: VirtualClock
) -> None:
    sim.on(WHERE, Step(404, "none"))
    for _ in range(2):
        assert await pictures.of(f"{sim.url}/pictures/1.png") is None
        clock.advance(59 * MINUTE)
    assert sim.count(WHERE) == 1
    clock.advance(2 * MINUTE)
    assert await pictures.of(f"{sim.url}/pictures/1.png") is None
    assert sim.count(WHERE) == 2


async def test_what_is_looked_at_counts_as_used(
    sim: Simulator, pictures: Pictures, quick: Queue, clock: VirtualClock
) -> None:
    sim.on(WHERE, Step(200, PNG))
    address = f"{sim.url}/pictures/1.png"
    await pictures.of(address)
    clock.advance(90 * MINUTE)
    await pictures.of(address)
    ((*_, fetched_at, used_at),) = quick.store.read(lambda tx: tx.query("music.picture", {"address": address}))
    assert (used_at - fetched_at, sim.count(WHERE)) == (90 * MINUTE, 1)
