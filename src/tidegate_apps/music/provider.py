"""The interface of providers: their values, their methods, and how a user connects one.

A provider raises what its service did (a response, a lost connection, a timeout), and `classify` reads it with the
rules of its kind. It never sleeps to retry, never stores health, and never deletes a credential.
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
LOOK_BACK = 30 * 86400.0  # seconds of history to fetch without a mark


class Operation(StrEnum):
    """What a provider can do; each is also an operation of its target."""

    PLAYS = "plays"
    PLAYLISTS = "playlists"
    IDS = "ids"
    ART = "art"
    TAGS = "tags"


# -- results -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Song:
    """*ref* is the provider's id; MusicBrainz ids are in lower case; *isrc* in upper case."""

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
    """*ref* is stable and unique among the plays of this user; *at* is UNIX time."""

    ref: str
    at: float
    song: Song


@dataclass(frozen=True, slots=True, kw_only=True)
class Playlist:
    """*songs* is None if the provider does not show them or they are unchanged: stored songs stay."""

    ref: str
    name: str
    about: str = ""
    songs: tuple[Song, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EnrichmentRequest:
    """An entry of the library to enrich."""

    kind: Literal["artist", "album", "song"]
    id: int
    name: str
    artist: str = ""
    mbid: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Enrichment:
    """The result for an entry; *id* is that of its request, *mbid* may be new (merged at the service).

    *art*: https URLs by kind ("thumb", "background", "logo", "banner", "cover", "disc"), the most liked of each.
    *nothing*: the service has none, which is a valid result and cached for days.
    """

    id: int
    mbid: str | None = None
    score: int = 0
    art: Mapping[str, str] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    nothing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedRow:
    """A row that could not be parsed, or an entry that the service rejected. The others continue.

    *row* is short and without secrets; *id* is that of the `EnrichmentRequest`, if there is one.
    """

    row: str
    why: str
    id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Plays between these times may be missing: the service returns only the newest ones."""

    since: float
    until: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch(Generic[T]):
    """Rows to commit together. *mark* is written in the same transaction; None leaves the mark unchanged.

    *gap*: what the service could no longer return, between the mark and these rows.
    """

    items: tuple[T, ...] = ()
    bad: tuple[RejectedRow, ...] = ()
    mark: str | None = None
    gap: Gap | None = None


# -- providers ---------------------------------------------------------------------------------------------------------


class Provider(ABC):
    """One service for one user. Only operations of its kind are called.

    Each step of an iterator makes a few requests, has limits in time and size, and is guarded separately. After an
    error the iterator is finished. The next one starts at the last committed mark.
    """

    @abstractmethod
    async def check(self) -> None:
        """Make a cheap request with the credentials; raise if they are rejected."""

    def plays(self, mark: str | None) -> AsyncIterator[Batch[Play]]:
        """Yield plays from the mark on, oldest batch first, so that no mark passes a play that is missing.

        Plays may repeat with the same ref. Once a day the mark is None, to find plays that were submitted late.
        """
        raise NotImplementedError(f"{type(self).__name__} has no plays")

    def playlists(self) -> AsyncIterator[Batch[Playlist]]:
        """Yield all playlists of the user, one or more per batch."""
        raise NotImplementedError(f"{type(self).__name__} has no playlists")

    def enrich(self, operation: Operation, requests: Sequence[EnrichmentRequest]) -> AsyncIterator[Batch[Enrichment]]:
        """Yield results for *requests*: each entry once, as `Enrichment` or as `RejectedRow` with its id."""
        raise NotImplementedError(f"{type(self).__name__} has no {operation}")

    async def aclose(self) -> None:  # noqa: B027  # most hold nothing
        """Release resources, except the transport, which it does not own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderConnection:
    """*values*: decrypted URLs and credentials by field name, including those of the operator."""

    user: str
    provider: str
    values: Mapping[str, str] = field(repr=False)


class Save(Protocol):
    """Saves changed credentials. They are committed when it returns, and must not be used before."""

    async def __call__(self, changes: Mapping[str, str]) -> None: ...


class ProviderClock(Protocol):
    """Time and sleeping."""

    def now(self) -> float: ...

    def monotonic(self) -> float: ...

    async def asleep(self, wait: float) -> None: ...


class Paces(Protocol):
    """The rate limiters of a process, shared by *key*. `tidegate_apps.music.client.Limiters` implements it."""

    async def turn(self, key: str, rate: Rate) -> None:
        """Wait for the next slot. The interval counts from the start of each request."""

    def slower(self, key: str) -> None:
        """Halve the rate for a while: the service asked for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderContext:
    """The dependencies of a provider. *transport* is shared, and its creator closes it.

    *agent* is the User-Agent with a contact. *addresses* replace those of the kind, by name. *loopback*: a server with
    an entered URL may be on this machine.
    """

    transport: httpx2.AsyncBaseTransport
    clock: ProviderClock
    paces: Paces
    save: Save
    agent: str
    addresses: Mapping[str, str] = field(default_factory=dict)
    loopback: bool = False


# -- kinds of providers: fields, login, and factory --------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One value to enter. *operator*: it is set once for all users, in the settings.

    *hidden*: it is not entered, but comes from a login at the service. *check* returns the value to store; its
    ValueError says what to enter instead.
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
    """*url*: where the browser goes; *verifier*: stored until it returns, never sent to it."""

    url: str
    verifier: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Returned:
    """A browser that returned from a login: *answer* is its query, *redirect* the URL of the start."""

    answer: Mapping[str, str] = field(repr=False)
    redirect: str
    verifier: str = field(repr=False)
    context: ProviderContext = field(repr=False)


class OAuth(Protocol):
    """A login at the service, in the user's browser."""

    @property
    def required(self) -> bool:
        """Return whether there is no other way to connect."""

    def begin(self, values: Mapping[str, str], *, redirect: str, state: str, context: ProviderContext) -> LoginRedirect:
        """Return where to send the browser. It returns to *redirect* with *state* in its query.

        Raises LoginRefused if it could not return there.
        """

    def finish(self, values: Mapping[str, str], returned: Returned) -> Awaitable[Mapping[str, str]]:
        """Return the values to save. Raises LoginRefused if the user declined; other errors as for a call."""


class LoginRefused(Exception):
    """A login is not possible, or the browser returned without an authorization. The text is for users."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderKind:
    """The description of one kind of provider.

    *every*: seconds between two syncs. *rules* classifies responses; *confirm* replaces the confirmation of that pack.
    *rate* limits the requests of all that share *counted* (a process, a server, an app: what the service counts).
    *addresses*: its URLs by name, unless they are fields. *make* returns None if the connection is incomplete. *ends*:
    UNIX time at which the access expires, if it does.
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
        """Return the required fields that *values* lacks."""
        return tuple(
            entry_field
            for entry_field in self.fields
            if entry_field.required and not (values.get(entry_field.name) or entry_field.default)
        )
