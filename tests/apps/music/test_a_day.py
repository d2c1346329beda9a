"""A day of many users at six services, in virtual time: with an outage, nothing is missed, doubled or late."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import pytest

from tests.apps.music.building import HOUR, MINUTE
from tidegate import Queue
from tidegate.apps import install
from tidegate.clock import VirtualClock
from tidegate.events import Bus, Event
from tidegate_apps.music.app import app
from tidegate_apps.music.health import SyncDependencies
from tidegate_apps.music.jobs import sync_context
from tidegate_apps.music.registry import kinds
from tidegate_apps.music.settings import SETTINGS
from tidegate_apps.music.sync import SyncSupervisor
from tidegate_demo.simulators.music import NOWHERE, MusicSimulator, settings_of

T = TypeVar("T")
# Spotify tells of the last 50 plays alone: those of two hours away and of the longest wait after them must fit in.
SONG = 240.0
LISTENED = ("navidrome", "spotify", "lastfm")


class Inline(ThreadPoolExecutor):
    """Does it at once, where time is virtual anyway."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **more: Any) -> Future[T]:
        found: Future[T] = Future()
        try:
            found.set_result(fn(*args, **more))
        except Exception as error:  # whoever waits gets it
            found.set_exception(error)
        return found


class Counting(httpx2.AsyncBaseTransport):
    """Notes which service was asked, and when."""

    def __init__(self, inner: Any, clock: VirtualClock) -> None:
        self._inner, self._clock = inner, clock
        self.asked: dict[str, list[float]] = defaultdict(list)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.asked[request.url.path.split("/")[1]].append(self._clock.monotonic())
        answer: httpx2.Response = await self._inner.handle_async_request(request)
        return answer

    def between(self, service: str, start: float, end: float) -> int:
        return sum(start <= at < end for at in self.asked[service])


class Day:
    """So many users and hours; Spotify is away from one hour to another."""

    def __init__(self, queue: Queue, users: int, hours: float, away: tuple[float, float]) -> None:
        assert isinstance(queue.clock.host, VirtualClock)
        self.clock, self.hours, self.away = queue.clock.host, hours, away
        self.users = [f"user-{n}" for n in range(users)]
        self.sim = MusicSimulator(clock=self.clock, every=SONG)
        self.way = Counting(self.sim.transport(), self.clock)
        values = dict(settings_of(self.sim, NOWHERE))
        connect = {user: {k: dict(v) for k, v in self.sim.connect(user, NOWHERE).items() if v} for user in self.users}
        settings = SETTINGS.model_validate({**values, "connect": connect, "look_every": "60s"})
        self.there = install(app, queue, settings)
        self.notices: list[Event] = []
        bus = Bus()
        bus.attach(lambda event: self.notices.append(event) if event.notice else None)
        self.shop = sync_context(self.there, kinds(), SyncDependencies(clock=self.clock, bus=bus))

    def live(self) -> None:
        end = self.hours * HOUR

        async def weather() -> None:
            await asyncio.sleep(self.away[0] * HOUR)
            self.sim.spotify.now("unavailable")
            await asyncio.sleep((self.away[1] - self.away[0]) * HOUR)
            self.sim.spotify.now("well")

        async def main() -> None:
            asyncio.get_running_loop().set_default_executor(Inline())
            async with asyncio.TaskGroup() as both:
                both.create_task(weather())
                both.create_task(SyncSupervisor(self.shop, self.way).run(lambda: self.clock.monotonic() >= end))

        self.clock.run(main())

    def kept(self, user: str, provider: str) -> list[tuple[int, str]]:
        rows = self.there.db.all("plays_of", user_id=user, at=1e18, before=2**53, n=100_000)
        return sorted((round(row[1]), row[4]) for row in rows if row[2] == provider)

    def heard(self, user: str, provider: str) -> list[tuple[int, str]]:
        listening = self.sim.services[provider].listening  # type: ignore[attr-defined]  # these three have one
        return sorted((round(at), track.title) for at, track in listening.heard(user))

    def check(self) -> None:
        start = self.clock.now() - self.clock.monotonic()
        for user in self.users:
            for provider in LISTENED:
                kept, heard = self.kept(user, provider), self.heard(user, provider)
                late = start + self.hours * HOUR - 6 * MINUTE
                assert kept == heard[: len(kept)], (user, provider)
                assert all(at > late for at, _ in heard[len(kept) :]), (user, provider)
                assert len(kept) >= (self.hours * HOUR - 6 * MINUTE) / SONG - 1
            assert self.there.db.all("gaps_of", user_id=user, after=0.0) == []

        away = (self.away[1] - self.away[0]) * HOUR
        began, ended = (hour * HOUR for hour in self.away)
        normal = self.way.between("spotify", began - away, began)
        assert 0 < self.way.between("spotify", began + 1, ended) <= normal / 2
        for other in ("navidrome", "lastfm"):
            during, after = self.way.between(other, began, ended), self.way.between(other, ended, ended + away)
            assert during >= 0.95 * after, other
            assert during >= 0.95 * len(self.users) * away / (5 * MINUTE), other
        assert [str(each.notice.kind) for each in self.notices if each.notice] in (
            [], ["cap"] * len(self.users) + ["recovered"] * len(self.users)
        )  # fmt: skip


@pytest.mark.req("SYNC-07", "SYNC-12")
def test_in_a_quarter_of_a_day_with_an_outage_nothing_is_missed_doubled_or_late(
    quick: Queue,
) -> None:
    day = Day(quick, users=2, hours=5, away=(1, 3))
    day.live()
    day.check()


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.req("SYNC-07", "SYNC-12")
def test_a_day_of_ten_users_at_six_services_takes_a_minute_at_most(tmp_path: Path) -> None:
    with Queue(f"sqlite:///{tmp_path / 'day.db'}", clock=VirtualClock(), inline=True) as queue:
        day = Day(queue, users=10, hours=24, away=(8, 10))
        began = time.process_time()  # one thread does it all: what a machine with nothing else to do needs
        day.live()
        took = time.process_time() - began
        day.check()
    assert took <= 60
