"""What the tests of syncing build with: users, a world of providers that do as they are told, and virtual time."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx2

from tidegate import Queue, rules
from tidegate.apps import Installed, install
from tidegate.clock import VirtualClock
from tidegate.events import Bus, Event, Notice
from tidegate.rules import Pack
from tidegate.secrets import Secrets
from tidegate_apps.music.app import app
from tidegate_apps.music.client import Reply, ServiceError
from tidegate_apps.music.health import OperationState, SyncDependencies
from tidegate_apps.music.jobs import sync_context
from tidegate_apps.music.provider import (
    Batch,
    Enrichment,
    EnrichmentRequest,
    Field,
    Operation,
    Play,
    Playlist,
    Provider,
    ProviderConnection,
    ProviderContext,
    ProviderKind,
    Song,
)
from tidegate_apps.music.settings import MusicSettings
from tidegate_apps.music.sync import SyncSupervisor
from tidegate_apps.music.sync_loop import SyncContext

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
KEY = Secrets("a key of the tests, long enough for all")


def refused(status: int, text: str = "no", headers: Mapping[str, str] | None = None) -> Exception:
    reply = Reply(
        status_code=status, headers=httpx2.Headers(headers or {}), content=text.encode(), method="GET",
        url="https://service.test/some/path",
    )  # fmt: skip
    return ServiceError("svc", reply, text)


def down() -> Exception:
    return httpx2.ConnectError("refused", request=httpx2.Request("GET", "https://service.test/"))


def song(n: int = 1, **more: Any) -> Song:
    return Song(title=f"Song {n}", artist=f"Artist {n % 3}", album=f"Album {n % 5}", **more)


def play(n: int, at: float = 0.0) -> Play:
    return Play(ref=f"play-{n}", at=at or float(n), song=song(n))


@dataclass(frozen=True, slots=True)
class Call:
    """One call that was made, *at* so many seconds after the start."""

    at: float
    user: str
    provider: str
    operation: str


@dataclass
class World:
    """What the services know and how they are."""

    clock: VirtualClock
    plays: dict[tuple[str, str], list[Play]] = field(default_factory=dict)  # by user and provider
    playlists: dict[tuple[str, str], list[Playlist]] = field(default_factory=dict)
    ill: dict[str, Any] = field(default_factory=dict)  # "svc", "svc/plays", "ada/svc": an error, or a function
    calls: list[Call] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    under_way: int = 0
    most_under_way: int = 0
    answers: Callable[[Operation, EnrichmentRequest], Enrichment] = lambda operation, wanted: Enrichment(
        id=wanted.id, nothing=True
    )

    async def call(self, user: str, provider: str, operation: str) -> None:
        self.calls.append(Call(self.clock.monotonic(), user, provider, operation))
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            for place in (provider, f"{provider}/{operation}", f"{user}/{provider}"):
                error = self.ill.get(place)
                error = await error() if callable(error) else error
                if error is not None:
                    raise error
        finally:
            self.under_way -= 1

    def times(
        self, user: str = "ada", provider: str = "svc", operation: str = "plays", since: float = 0.0
    ) -> list[float]:
        wanted = (user, provider, operation)
        return [
            each.at for each in self.calls if (each.user, each.provider, each.operation) == wanted and each.at >= since
        ]


class Scripted(Provider):
    """A provider of the world. Its mark is how many plays were handed over."""

    def __init__(self, world: World, connection: ProviderConnection, there: ProviderContext) -> None:
        self._world, self._connection, self._there = world, connection, there
        self._place = (connection.user, connection.provider)

    async def check(self) -> None:
        await self._world.call(*self._place, "check")

    async def plays(self, mark: str | None) -> AsyncIterator[Batch[Play]]:
        done, step = int(mark or 0), 2
        while True:
            await self._world.call(*self._place, "plays")
            self._world.tokens.append(self._connection.values.get("password", ""))
            known = self._world.plays.get(self._place, [])
            found = known[done : done + step]
            done += len(found)
            yield Batch(items=tuple(found), mark=str(done))
            if done >= len(known):
                return

    async def playlists(self) -> AsyncIterator[Batch[Playlist]]:
        await self._world.call(*self._place, "playlists")
        yield Batch(items=tuple(self._world.playlists.get(self._place, [])))

    async def enrich(
        self, operation: Operation, requests: Sequence[EnrichmentRequest]
    ) -> AsyncIterator[Batch[Enrichment]]:
        for each in requests:
            await self._world.call(*self._place, str(operation))
            yield Batch(items=(self._world.answers(operation, each),))


def kind_of(world: World, name: str = "svc", *operations: Operation, **more: Any) -> ProviderKind:
    given: dict[str, Any] = {
        "title": name.capitalize(), "about": "A service of the tests.", "every": 300.0, "rules": Pack(name, ()),
        "operations": operations or (Operation.PLAYS,),
        "fields": (
            Field(name="user", label="User name", required=False), Field(name="password", label="Password", secret=True)
        ),
        "make": lambda connection, there: Scripted(world, connection, there), **more,
    }  # fmt: skip
    return ProviderKind(name=name, **given)


@dataclass
class Studio:
    """The music of one database, in virtual time, without a server."""

    queue: Queue
    there: Installed[MusicSettings]
    clock: VirtualClock
    world: World
    kinds: dict[str, ProviderKind]
    bus: Bus = field(default_factory=Bus)
    heard: list[tuple[Event, Notice]] = field(default_factory=list)
    shop: SyncContext = None  # type: ignore[assignment]  # made below

    @classmethod
    @contextlib.contextmanager
    def opened(cls, queue: Queue, *kinds: ProviderKind, world: World, **settings: Any) -> Iterator[Studio]:
        assert isinstance(queue.clock.host, VirtualClock)
        there = install(app, queue, MusicSettings(**{"look_every": 5.0, **settings}), lambda: KEY)
        made = cls(queue, there, queue.clock.host, world, {each.name: each for each in kinds})
        made.bus.attach(made._hear)
        made.restart()
        yield made

    def _hear(self, event: Event) -> None:
        if event.notice is not None:
            self.heard.append((event, event.notice))

    def restart(self) -> None:
        """A new process: all that was in memory is gone."""
        self.shop = sync_context(
            self.there, self.kinds, SyncDependencies(clock=self.clock, bus=self.bus, rng=lambda: 0.5)
        )

    def connect(self, user: str = "ada", provider: str = "svc", **values: str) -> int:
        return self.shop.connections.put(user, self.kinds[provider], {"password": "s3cret", **values})

    def run(self, lasts: float, transport: httpx2.AsyncBaseTransport | None = None) -> None:
        """Syncs for so many seconds of virtual time."""
        end = self.clock.monotonic() + lasts
        way = transport or httpx2.MockTransport(lambda request: httpx2.Response(500))
        self.clock.run(SyncSupervisor(self.shop, way).run(lambda: self.clock.monotonic() >= end))

    def notices(self, user: str | None = None) -> list[str]:
        return [str(notice.kind) for event, notice in self.heard if user in (None, event.user)]

    def state(self, operation: str = "plays", user: str = "ada", provider: str = "svc") -> OperationState:
        found = self.there.db.query_as(OperationState, "states_of", user_id=user)
        return next(each for each in found if (each.provider, each.operation) == (provider, operation))

    def refs(self, user: str = "ada") -> list[str]:
        rows = self.queue.store.read(lambda tx: tx.query("music.plays_of", {
            "user_id": user, "at": 1e18, "before": 2**53, "n": 10_000,
        }))  # fmt: skip
        return sorted(f"{row[2]} {row[4]}" for row in rows)


PACKS = rules.PACKS
