"""What a provider of music is to the loops that sync it: values that go in and out, and the few calls between them.

A provider raises what its service did (an answer, a lost connection, a timeout), and `classify` reads it with the rules
of its kind. It never sleeps to try again, never keeps health, and never deletes a credential.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, Literal, Protocol, TypeVar

import httpx2

from tidegate import Rate, rules
from tidegate.faults import Confirm

T = TypeVar("T")
LOOK_BACK = 30 * 86400.0  # seconds of history that are fetched when there is no mark yet


class Operation(StrEnum):
    """What can be asked of a provider; each is an operation of its target, too."""

    PLAYS = "plays"
    PLAYLISTS = "playlists"
    IDS = "ids"
    ART = "art"
    TAGS = "tags"


# -- what comes back -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Song:
    """*ref* is the provider's own id; ids of MusicBrainz are in lower case; *isrc* in capitals."""

    title: str
    artist: str
    album: str = ""
    mbid: str | None = None
    artist_mbid: str | None = None
    album_mbid: str | None = None
    isrc: str | None = None
    seconds: float | None = None
    ref: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    """*ref* is the same whenever the same play is fetched, and no other play of this user has it; *at* is UNIX time."""

    ref: str
    at: float
    song: Song


@dataclass(frozen=True, slots=True, kw_only=True)
class Playlist:
    """*songs* is None when the provider does not show them, or they have not changed: what is known stays."""

    ref: str
    name: str
    about: str = ""
    songs: tuple[Song, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EnrichmentRequest:
    """An entry of the library that something is wanted for."""

    kind: Literal["artist", "album", "song"]
    id: int
    name: str
    artist: str = ""
    mbid: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Enrichment:
    """What there is for an entry; *id* is that of its request, *mbid* may differ from the one it had (merged there).

    *art*: https addresses by kind ("thumb", "background", "logo", "banner", "cover", "disc"), the best liked of each.
    *nothing*: the service has none, which is an answer and may be remembered for days.
    """

    id: int
    mbid: str | None = None
    score: int = 0
    art: Mapping[str, str] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    nothing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedRow:
    """A row that could not be read, or an entry that the service refused; the others go on.

    *row* is short and without secrets; *id* is that of the `EnrichmentRequest`, where there is one.
    """

    row: str
    why: str
    id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Plays between these two moments may be missing, because the service hands over no more than the newest ones."""

    since: float
    until: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch(Generic[T]):
    """Rows to commit together. *mark* goes into the same transaction; None leaves the mark where it is.

    *gap*: what the service could not hand over any more, between the mark and these rows.
    """

    items: tuple[T, ...] = ()
    bad: tuple[RejectedRow, ...] = ()
    mark: str | None = None
    gap: Gap | None = None


# -- a provider ----------------------------------------------------------------------------------------------------


class Provider(ABC):
    """One service for one user. What its kind does not list in `operations` is not asked of it.

    Each step of an iterator is a few requests, is bounded in time and size, and may be guarded by itself. After an
    error the iterator is over; the next one starts from the last mark that was committed.
    """

    @abstractmethod
    async def check(self) -> None:
        """Asks something cheap that needs the credentials; raises when they are refused."""

    def plays(self, mark: str | None) -> AsyncIterator[Batch[Play]]:
        """Plays from the mark on, the oldest batch first, so that no mark passes a play that was not handed over.

        Plays that were handed over before may come again, with the same ref. Once a day they do: None is given for a
        mark then, for what was handed in late.
        """
        raise NotImplementedError(f"{type(self).__name__} has no plays")

    def playlists(self) -> AsyncIterator[Batch[Playlist]]:
        """All playlists of the user, one or more in a batch."""
        raise NotImplementedError(f"{type(self).__name__} has no playlists")

    def enrich(self, operation: Operation, requests: Sequence[EnrichmentRequest]) -> AsyncIterator[Batch[Enrichment]]:
        """Answers for *wanted*: each entry comes once, as `Enrichment` or as `RejectedRow` with its id."""
        raise NotImplementedError(f"{type(self).__name__} has no {operation}")

    async def aclose(self) -> None:  # noqa: B027  # most hold nothing
        """Frees what it holds; the transport is not its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderConnection:
    """*values*: addresses and credentials, decrypted, by the names of the kind's fields; those of the operator too."""

    user: str
    provider: str
    values: Mapping[str, str] = field(repr=False)


class Save(Protocol):
    """Keeps changed credentials of the connection. They are committed when it returns, and used only then."""

    async def __call__(self, changes: Mapping[str, str]) -> None: ...


class ProviderClock(Protocol):
    """Time, and waiting for it."""

    def now(self) -> float: ...

    def monotonic(self) -> float: ...

    async def asleep(self, wait: float) -> None: ...


class Paces(Protocol):
    """The limiters of a process: all callers of one *key* share one. `tidegate_apps.music.client.Limiters` is one."""

    async def turn(self, key: str, rate: Rate) -> None:
        """Waits until the next request may go; the time is counted from the start of each."""

    def slower(self, key: str) -> None:
        """The service has asked for less: half as much from now on, for a while."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderContext:
    """What a provider is handed. *transport* is shared by all and closed by whoever made it.

    *agent* is the User-Agent, with a contact. *addresses* replace those of the kind, by the same names. *loopback*: a
    server whose address was entered may be on this machine.
    """

    transport: httpx2.AsyncBaseTransport
    clock: ProviderClock
    paces: Paces
    save: Save
    agent: str
    addresses: Mapping[str, str] = field(default_factory=dict)
    loopback: bool = False


# What a kind of provider is to those who connect it: what to enter, how to log in, and how one is made.


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One thing to enter. *operator*: it is given once in the settings for all users; a user is not asked for it.

    *hidden*: neither is asked for it; a login at the service brings it, and it is kept as the others are.
    *check* returns what was entered as it is kept; its ValueError says what to give instead.
    """

    name: str
    label: str
    secret: bool = False
    required: bool = True
    hint: str = ""
    default: str = ""
    operator: bool = False
    hidden: bool = False
    check: Callable[[str], str] = str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginRedirect:
    """*url*: where the browser goes; *verifier*: kept until it comes back, never shown to it."""

    url: str
    verifier: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Returned:
    """A browser that came back from a login: *answer* is its query, to the same *redirect* as it was begun with."""

    answer: Mapping[str, str] = field(repr=False)
    redirect: str
    verifier: str = field(repr=False)
    context: ProviderContext = field(repr=False)


class OAuth(Protocol):
    """A login at the service itself, in the user's browser."""

    @property
    def required(self) -> bool:
        """Whether there is no other way to connect."""

    def begin(self, values: Mapping[str, str], *, redirect: str, state: str, context: ProviderContext) -> LoginRedirect:
        """Where to send the browser; it comes back to *redirect* with *state* in its query.

        LoginRefused when it could not come back there.
        """

    def finish(self, values: Mapping[str, str], returned: Returned) -> Awaitable[Mapping[str, str]]:
        """The values to save. LoginRefused when the user said no; any other error as of a call."""


class LoginRefused(Exception):
    """There is no login, or the browser came back without a permission; the text is for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderKind:
    """What the factory knows of one provider.

    *every*: seconds between two syncs. *rules* reads the answers; *confirm* replaces the doubts of that pack. *rate*
    bounds the requests of all that have the same *counted* (process-wide, a server, an app: what the service counts).
    *addresses*: where it is, by name, unless it is a field. *make* returns None when the connection is not configured.
    *ends*: UNIX time at which the access ends by itself, if it does.
    """

    name: str
    title: str
    about: str
    operations: tuple[Operation, ...]
    fields: tuple[Field, ...]
    every: float
    rules: rules.Pack
    make: Callable[[ProviderConnection, ProviderContext], Provider | None]
    confirm: tuple[Confirm, ...] | None = None
    rate: Rate | None = None
    counted: Callable[[Mapping[str, str]], str] = lambda values: ""
    addresses: Mapping[str, str] = field(default_factory=dict)
    oauth: OAuth | None = None
    ends: Callable[[Mapping[str, str]], float | None] = lambda values: None

    def missing(self, values: Mapping[str, str]) -> tuple[Field, ...]:
        """The required fields that *values* does not have."""
        return tuple(each for each in self.fields if each.required and not (values.get(each.name) or each.default))
