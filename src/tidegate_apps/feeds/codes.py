"""Outcomes of a poll: one table of error types and what each means. Pure.

The table has the status codes of a type, its severity, how many failures in a row suspend a feed, and for how long.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from tidegate import Cooldown, Fault, net
from tidegate.faults import Code, CodeBook, Level
from tidegate.rules import Pack


class ErrorType(StrEnum):
    """The type of a failed poll. Each is a code of the code catalogue."""

    RATE_LIMITED = "rate_limited"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    GONE = "gone"
    UPSTREAM = "upstream_failure"
    NETWORK = "network"
    PARSE = "parse_error"
    UNEXPECTED = "unexpected"


@dataclass(frozen=True, slots=True)
class ErrorRule:
    """One row of the table. *after* failures of this type in a row suspend the feed for *rest*; None: never."""

    type: ErrorType
    statuses: range
    level: Level
    after: int | None = None
    rest: str | None = None


_NONE = range(0)
MATRIX: Mapping[ErrorType, ErrorRule] = {
    row.type: row
    for row in (
        ErrorRule(ErrorType.RATE_LIMITED, range(429, 430), Level.WARN),
        ErrorRule(ErrorType.FORBIDDEN, range(403, 404), Level.WARN, 5, "24h"),
        ErrorRule(ErrorType.NOT_FOUND, range(404, 405), Level.WARN, 3, "48h"),
        ErrorRule(ErrorType.GONE, range(410, 411), Level.WARN, 1, "72h"),
        ErrorRule(ErrorType.UPSTREAM, range(500, 600), Level.WARN, 10, "6h"),
        ErrorRule(ErrorType.NETWORK, _NONE, Level.WARN, 10, "12h"),
        ErrorRule(ErrorType.PARSE, _NONE, Level.WARN, 5, "24h"),
        ErrorRule(ErrorType.UNEXPECTED, _NONE, Level.ERROR),
    )
}

# Only expected failures of external services suspend a feed. All others need an operator, and a suspension would hide
# them.
COOLDOWN = Cooldown(
    {
        str(row.type): (row.after, row.rest)
        for row in MATRIX.values()
        if row.after is not None and row.rest is not None and row.level is Level.WARN
    }
)

MANUAL = "manual"  # the reason of an operator: it does not expire
REASONS = (*COOLDOWN.rests, MANUAL)


class PollError(Exception):
    """A poll that failed. `__cause__` is the exception behind it, if there is one."""

    def __init__(
        self, kind: ErrorType, message: str, *, status_code: int = 0, url: str = "", retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.type = kind
        self.level = MATRIX[kind].level
        self.status_code = status_code  # 0: no response, or the response is not the cause
        self.url = url
        self.retry_after = retry_after
        self.untyped = False  # an exception that no rule covers

    @property
    def cause(self) -> BaseException | None:
        return self.__cause__

    @property
    def shown(self) -> str:
        """Return the text for pages.

        For an untyped exception it is only the class name: its message may hold a path or a secret.
        """
        return type(self.cause).__name__ if self.untyped and self.cause is not None else str(self)


def untyped(error: Exception, url: str) -> PollError:
    """Wrap an exception that no rule covers."""
    made = PollError(ErrorType.UNEXPECTED, f"{type(error).__name__}: {error}", url=url)
    made.__cause__ = error
    made.untyped = True
    return made


def type_of_status(status: int) -> ErrorType | None:
    """Return the error type of a status code; None for 200 and 304, which are successes."""
    if status in (200, 304):
        return None
    return next((row.type for row in MATRIX.values() if status in row.statuses), ErrorType.UNEXPECTED)


def type_of_failure(error: Exception) -> ErrorType:
    """Return the error type of what a fetch raised."""
    if isinstance(error, net.TooBig):
        return ErrorType.PARSE
    return ErrorType.NETWORK if isinstance(error, net.FetchError) else ErrorType.UNEXPECTED


_BOOK: CodeBook = Pack("feeds", []).code_book


def code_of(kind: ErrorType | str) -> Code:
    """Return the entry of the code catalogue, with the texts for users."""
    return _BOOK[str(kind)]


def fault_of(error: PollError) -> Fault:
    """Return the failure as a Fault, for the health rules."""
    return code_of(error.type).fault(
        f"feeds.{error.type}", status=error.status_code, retry_after=error.retry_after, detail=str(error)
    )


def rest_of(reason: str) -> float | None:
    """Return how many seconds a feed is suspended for a reason; None until an operator enables it."""
    row = COOLDOWN.rests.get(reason)
    return None if row is None else row[1]


# The eight error types are codes of the core, so the application adds none.

CODES: tuple[Code, ...] = ()
