"""What the tests of the providers build with: the simulated services over real HTTP, and clients of one user."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import httpx2

from tidegate import Fault, Target, classify, fault_of
from tidegate.clock import VirtualClock
from tidegate.events import Bus
from tidegate.guard import Tuning
from tidegate_apps.music.client import Limiters
from tidegate_apps.music.provider import (
    Batch,
    Enrichment,
    EnrichmentRequest,
    Operation,
    Play,
    Playlist,
    Provider,
    ProviderConnection,
    ProviderContext,
    ProviderKind,
)
from tidegate_apps.music.registry import kinds, make_provider
from tidegate_demo.simulators.music import MusicSimulator
from tidegate_demo.simulators.music.base import TRACKS

T = TypeVar("T")
AGENT = "Tidegate/0 (+https://tidegate.example)"


class Jumping(VirtualClock):
    """Whoever sleeps moves time, and goes on at once: virtual time for clients with real sockets."""

    async def asleep(self, wait: float) -> None:
        self.advance(wait)


@dataclass
class Desk:
    """The services, and what is between them and a provider. *saved*: what was kept, in its order."""

    sim: MusicSimulator
    clock: VirtualClock
    transport: httpx2.AsyncBaseTransport
    base: str
    loopback: bool = True
    saved: list[Mapping[str, str]] = field(default_factory=list)
    paces: Limiters = field(init=False)

    def __post_init__(self) -> None:
        self.paces = Limiters(self.clock)

    def values(self, name: str, user: str = "ann", **changes: str) -> dict[str, str]:
        """Of a connection of a new account, with what the operator has entered."""
        return {**self.sim.operator().get(name, {}), **self.sim.connection(name, user, self.base), **changes}

    def provider(self, name: str, user: str = "ann", **changes: str) -> Provider:
        found = self.with_values(name, self.values(name, user, **changes), user)
        assert found is not None
        return found

    def with_values(self, name: str, values: Mapping[str, str], user: str = "ann") -> Provider | None:
        return make_provider(kinds()[name], ProviderConnection(user=user, provider=name, values=values), self.there())

    def there(self) -> ProviderContext:
        return ProviderContext(
            transport=self.transport,
            clock=self.clock,
            paces=self.paces,
            save=self._save,
            agent=AGENT,
            addresses=self.sim.addresses(self.base),
            loopback=self.loopback,
        )

    async def _save(self, changes: Mapping[str, str]) -> None:
        self.saved.append(dict(changes))


async def rows(batches: AsyncIterator[Batch[T]]) -> list[T]:
    """All items of all batches."""
    return [item async for batch in batches for item in batch.items]


async def plays(provider: Provider, mark: str | None = None) -> list[Play]:
    return await rows(provider.plays(mark))


async def lists(provider: Provider) -> list[Playlist]:
    return await rows(provider.playlists())


def artists(*numbers: int, mbids: bool = False) -> list[EnrichmentRequest]:
    """Entries for the artists of these songs of the catalogue."""
    tracks = [TRACKS[number] for number in numbers]
    return [
        EnrichmentRequest(kind="artist", id=track.number, name=track.artist, mbid=track.artist_mbid if mbids else None)
        for track in tracks
    ]


async def first_call(provider: Provider) -> None:
    """The first thing that its kind can do, to the end."""
    operation = kind_of(provider).operations[0]
    if operation is Operation.PLAYS:
        await plays(provider)
    else:
        await rows(provider.enrich(operation, artists(0, mbids=operation is Operation.ART)))


async def fault_in(provider: Provider, work: Callable[[], AsyncIterator[Batch[T]]] | None = None) -> Fault | None:
    """What the rules of its kind say of a call; None when all went well."""
    kind = kind_of(provider)
    try:
        if work is None:
            await first_call(provider)
        else:
            await rows(work())
    except Exception as error:  # that is what is asked about
        fault = classify(error, kind.rules)
        if fault is None:
            raise
        return fault
    return None


def kind_of(provider: Provider) -> ProviderKind:
    return next(kind for kind in kinds().values() if type(provider).__module__.endswith(f".{kind.name}"))


@dataclass
class Guarded:
    """Calls of a kind behind a target, as the loops make them: one key for each user."""

    kind: ProviderKind
    clock: VirtualClock

    def __post_init__(self) -> None:
        self.target = Target(
            self.kind.name,
            rules=self.kind.rules,
            clock=self.clock,
            self_guard=False,
            tuning=Tuning(bus=Bus(), rng=lambda: 0.5),
        )

    async def check(self, provider: Provider, user: str) -> Fault | None:
        """What the target believes of a check."""
        return await self.believed(user, provider.check)

    async def believed(self, user: str, work: Callable[[], Awaitable[object]]) -> Fault | None:
        try:
            await self.target.key(user).acall(work)
        except Exception as error:  # that is what is asked about
            return fault_of(error)
        return None


def one_found(found: list[Enrichment]) -> Enrichment:
    [only] = found
    return only
