"""What a kind of provider is to those who connect it: what to enter, how to log in, and how one is made."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tidegate import Rate, rules
from tidegate.faults import Confirm
from tidegate_apps.music.contract import Operation, Provider, ProviderConnection, ProviderContext


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
