"""What a poll can end in: one table of types, and what each means. Pure.

Every number of it stands here once: the status codes of a type, how loud it is, after how many in a row a feed rests,
and for how long.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from tidegate import Cooldown, Fault, net
from tidegate.faults import Code, CodeBook, Level
from tidegate.rules import Pack


class ErrorType(StrEnum):
    """The type of a poll that failed; each is a code of the book."""

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
    """One row of the matrix. *after* failures of this type in a row the feed rests for *rest*; None: it never does."""

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

# Only what is expected of the outside world may rest a feed: anything else needs a person, and a rest would hide it.
COOLDOWN = Cooldown(
    {
        str(row.type): (row.after, row.rest)
        for row in MATRIX.values()
        if row.after is not None and row.rest is not None and row.level is Level.WARN
    }
)

MANUAL = "manual"  # a person's reason: no time ends it
REASONS = (*COOLDOWN.rests, MANUAL)


class PollError(Exception):
    """A poll that failed. Its cause, if another exception is behind it, is on the chain (`raise ... from`)."""

    def __init__(
        self, kind: ErrorType, message: str, *, status_code: int = 0, url: str = "", retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.type = kind
        self.level = MATRIX[kind].level
        self.status_code = status_code  # 0: there was no answer, or it is not to blame
        self.url = url
        self.retry_after = retry_after
        self.untyped = False  # an exception that nobody foresaw

    @property
    def cause(self) -> BaseException | None:
        return self.__cause__

    @property
    def shown(self) -> str:
        """What pages say of it. Of an exception that nobody foresaw its name: its words may hold a path or a secret."""
        return type(self.cause).__name__ if self.untyped and self.cause is not None else str(self)


def untyped(error: Exception, url: str) -> PollError:
    """An exception that nobody foresaw, kept as what it is."""
    made = PollError(ErrorType.UNEXPECTED, f"{type(error).__name__}: {error}", url=url)
    made.__cause__ = error
    made.untyped = True
    return made


def type_of_status(status: int) -> ErrorType | None:
    """The type of an answer; None for 200 and 304, which are successes."""
    if status in (200, 304):
        return None
    return next((row.type for row in MATRIX.values() if status in row.statuses), ErrorType.UNEXPECTED)


def type_of_failure(error: Exception) -> ErrorType:
    """The type of what a fetch raised."""
    if isinstance(error, net.TooBig):
        return ErrorType.PARSE
    return ErrorType.NETWORK if isinstance(error, net.FetchError) else ErrorType.UNEXPECTED


_BOOK: CodeBook = Pack("feeds", []).code_book


def code_of(kind: ErrorType | str) -> Code:
    """The row of the code book: what to tell people."""
    return _BOOK[str(kind)]


def fault_of(error: PollError) -> Fault:
    """The failure as the machine of rests wants it."""
    return code_of(error.type).fault(
        f"feeds.{error.type}", status=error.status_code, retry_after=error.retry_after, detail=str(error)
    )


def rest_of(reason: str) -> float | None:
    """Seconds that a feed rests for a reason; None when only a person ends it."""
    row = COOLDOWN.rests.get(reason)
    return None if row is None else row[1]


# Codes of its own: none. The eight types of a failed poll are codes of the core.

CODES: tuple[Code, ...] = ()
