"""Who acts, and from where: on the page, through the API, at the command line, or inside a program."""

from __future__ import annotations

from enum import StrEnum
from typing import Self


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
