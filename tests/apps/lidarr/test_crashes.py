"""A submitter that is killed between what it sends and what it writes down: nothing is lost, nothing is sent twice."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.apps.lidarr.building import Round
from tests.databases import Database
from tidegate import Queue
from tidegate.apps import install
from tidegate.clock import SystemClock
from tidegate_apps.lidarr.app import app
from tidegate_apps.lidarr.settings import LidarrSettings
from tidegate_demo.simulators.lidarr import KEY, LidarrSimulator, SimulatedTiming

PATIENCE = 90


class Later(SystemClock):
    """Some time later, on the same host: the leases of the dead have ended."""

    __slots__ = ("_ahead",)

    def __init__(self, ahead: float) -> None:
        self._ahead = ahead

    def now(self) -> float:
        return super().now() + self._ahead

    def monotonic(self) -> float:
        return super().monotonic() + self._ahead


@pytest.fixture
def sim() -> Iterator[LidarrSimulator]:
    with LidarrSimulator(pace=SimulatedTiming(refresh=0.0, found=1000.0, lasts=1000.0)) as found:
        yield found


@contextlib.contextmanager
def opened(db: Database, sim: LidarrSimulator, ahead: float = 0.0) -> Iterator[Round]:
    clock = Later(ahead)
    with Queue(db.url, driver=db.driver, clock=clock, inline=True) as queue:
        there = install(app, queue, LidarrSettings.model_validate({"base_url": sim.url, "api_key": KEY}))
        yield Round(queue, there, clock, sim)  # type: ignore[arg-type]
        there.closing.close()


def waking(db: Database, sim: LidarrSimulator, queue_max: int = 50) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.apps.lidarr.waking_process", db.url, sim.url, str(queue_max)],
        stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3],
    )  # fmt: skip


def run(at: Round) -> int:
    woken = asyncio.run(at.jobs.waker.run_cycle())
    assert woken is not None
    return woken.submitted


def look(at: Round) -> None:
    async def main() -> None:
        async with at.jobs.submitter.opened() as lidarr:
            await at.jobs.enricher.run(lidarr, lambda: False, before=at.clock.now())

    asyncio.run(main())


@pytest.mark.req("LID-18")
@pytest.mark.parametrize(
    "step", ["POST /artist", "PUT /artist/editor", "POST /album", "PUT /album/monitor", "POST /command"]
)
def test_a_kill_between_a_send_and_the_commit_neither_loses_nor_doubles_it(
    quick_db: Database, sim: LidarrSimulator, step: str
) -> None:
    with opened(quick_db, sim) as at:
        at.artist("artist-0", "Nina")
        at.album("album-0-0", "artist-0")
        if step == "POST /album":
            sim.inside.catalogue["artist-0"] = ("Nina", [])  # the refresh does not bring it
        look(at)
    if step == "PUT /artist/editor":
        sim.inside.put_artist("artist-0", "Nina", monitored=False)  # by somebody else, meanwhile
    found: list[subprocess.Popen[str]] = []
    sim.lose(step, meanwhile=lambda: found[0].send_signal(signal.SIGKILL))

    found.append(waking(quick_db, sim))

    found[0].communicate(timeout=PATIENCE)
    assert found[0].returncode == -signal.SIGKILL
    with opened(quick_db, sim, ahead=3600) as at:
        run(at)
        assert {each.status for each in at.entries()} == {"submitted"}
        assert [each.attempts for each in at.entries()] == [0, 0]  # a crash is nobody's failure
    assert sim.sent("POST /artist") == (0 if step == "PUT /artist/editor" else 1)
    assert all(each["monitored"] for each in [*sim.inside.artists.values(), *sim.inside.albums.values()])
    assert sim.sent("POST /album") == (1 if step == "POST /album" else 0)
    assert sim.sent("POST /command") == 1
    assert (len(sim.inside.artists), len(sim.inside.albums), len(sim.inside.downloads)) == (1, 1, 1)


@pytest.mark.req("LID-07")
def test_two_processes_that_wake_at_the_same_time_stay_below_the_cap(quick_db: Database, sim: LidarrSimulator) -> None:
    with opened(quick_db, sim) as at:
        at.artist("artist-0", "Nina")
        for n in range(12):
            at.album(f"album-{n}", "artist-0")
        look(at)

    both = [waking(quick_db, sim, queue_max=5) for _ in range(2)]

    sent = [int(each.communicate(timeout=PATIENCE)[0]) for each in both]
    assert sum(sent) == sim.sent("POST /command") + 1 <= 6
    assert len(sim.inside.downloads) <= 5
