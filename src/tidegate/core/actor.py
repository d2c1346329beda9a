"""Who acts, and from where: on the page, through the API, at the command line, or inside a program."""

from __future__ import annotations

from enum import StrEnum
from typing import Self

# What happens without a person is written down under these names, and read by them: nobody else may have one.
SYSTEM_ACTORS = frozenset({
    "auto", "breaker", "clock", "intake", "local", "nobody", "parent", "person", "probe", "restore", "settings",
    "somebody", "sweeper", "worker",
})  # fmt: skip


def user_actor(name: str) -> str:
    """The name of somebody who was recognised elsewhere, as events have it: never one that only the program has."""
    return f"user {name}" if name.casefold() in SYSTEM_ACTORS else name


class Origin(StrEnum):
    """Where somebody acted."""

    PAGE = "page"
    API = "api"
    CLI = "cli"
    PROGRAM = "program"


class Actor(str):
    """A name, as events have it, that knows from where its bearer acts, and why if they said so.

    It is a text, so whoever only wants the name need not know more.
    """

    __slots__ = ("origin", "reason")

    origin: Origin
    reason: str

    def __new__(cls, name: str, origin: Origin = Origin.PROGRAM, reason: str = "") -> Self:
        made = super().__new__(cls, name)
        made.origin = origin
        made.reason = reason
        return made

    @classmethod
    def of(cls, by: str) -> Actor:
        """*by* itself, or a name that a program gave."""
        return by if isinstance(by, Actor) else cls(by)

    def because(self, reason: str) -> Actor:
        """The same one, with a reason."""
        return Actor(str(self), self.origin, reason)
