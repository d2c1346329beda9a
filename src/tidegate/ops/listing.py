"""Lists of jobs and targets, a page at a time, and how many there are without counting them all."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tidegate.ops import reports
from tidegate.ops.reports import STAGES, JobLine, Stands, TargetReport
from tidegate.ops.words import TARGETS, URGENCY
from tidegate.store.tx import Tx

T = TypeVar("T")

MOST_COUNTED = 10_000
STATES = ("queued", *STAGES)
_FIRST = 2**62
_NEVER = 1e18


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which jobs; an empty text stands for any.

    *state* is a stage, or queued for blocked, waiting and ready together; *code* is that of the last failure. *older*
    and *younger* are seconds since the job was made, at least and at most.
    """

    queue: str = ""
    state: str = ""
    kind: str = ""
    target: str = ""
    code: str = ""
    older: float | None = None
    younger: float | None = None

    def __post_init__(self) -> None:
        if self.state and self.state not in STATES:
            raise ValueError(f"state: {self.state!r} is not allowed; give one of: {', '.join(STATES)}")
        for name in ("older", "younger"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < math.inf:
                raise ValueError(f"{name}: {value!r} is not allowed; give seconds, 0 or more")

    def as_json(self) -> dict[str, Any]:
        """What is asked for, without what is not."""
        found = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in found.items() if value not in ("", None)}


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some of a list. *next* is the cursor of what follows; None at the end."""

    items: list[T]
    next: str | None

    def as_json(self, shown: Callable[[T], Any]) -> dict[str, Any]:
        return {"items": [shown(item) for item in self.items], "next_cursor": self.next}


@dataclass(frozen=True, slots=True)
class Count:
    """How many there are; *capped*: at least so many."""

    n: int
    capped: bool = False

    def __str__(self) -> str:
        return f"{self.n:,}+" if self.capped else f"{self.n:,}"

    def as_json(self) -> dict[str, Any]:
        return {"total": self.n, "total_is_capped": self.capped}


def jobs(tx: Tx, wanted: Filter, *, cursor: str | None = None, most: int = 50) -> Page[JobLine]:
    """The jobs that match, the newest first. ValueError for a cursor that is none."""
    rows = tx.all("jobs_listed", {**_given(tx, wanted), "before": _before(cursor), "n": most + 1})
    items = [JobLine(*row) for row in rows[:most]]
    return Page(items, f"j{items[-1].id:x}" if len(rows) > most else None)


def count(tx: Tx, wanted: Filter, most: int = MOST_COUNTED) -> Count:
    """How many match, counted no further than *most*."""
    n = len(tx.all("jobs_listed", {**_given(tx, wanted), "before": _FIRST, "n": most + 1}))
    return Count(min(n, most), capped=n > most)


def targets(
    tx: Tx, *, state: str = "", name: str = "", cursor: str | None = None, most: int = 50
) -> Page[TargetReport]:
    """Those that need attention first, then by name. *state* is a token; *name* is a part of the name."""
    if state and state not in TARGETS:
        raise ValueError(f"state: {state!r} is not allowed; give one of: {', '.join(TARGETS)}")
    after = _place(cursor)
    part = name.casefold()
    found = [
        stands for stands in by_urgency(reports.standings(tx))
        if state in ("", stands.how.token) and part in stands.row.name.casefold() and place(stands) > after
    ]  # fmt: skip
    items = found[:most]
    return Page([stands.report() for stands in items], _cursor(place(items[-1])) if len(found) > most else None)


def by_urgency(found: list[Stands]) -> list[Stands]:
    return sorted(found, key=place)


def place(stands: Stands) -> tuple[int, str]:
    """Where it stands in the list."""
    return URGENCY[stands.how.token], stands.row.name


def kinds(tx: Tx) -> list[str]:
    """The kinds of all jobs that are kept."""
    return [row[0] for row in tx.all("kinds_listed")]


def codes(tx: Tx) -> list[str]:
    """The codes of the last failures of all jobs that are kept."""
    return [row[0] for row in tx.all("codes_listed")]


def _given(tx: Tx, wanted: Filter) -> dict[str, Any]:
    now = float(tx.all("clock")[0][0])
    return {
        "queue": wanted.queue, "state": wanted.state, "kind": wanted.kind, "target": wanted.target,
        "code": wanted.code, "latest": _NEVER if wanted.older is None else now - wanted.older,
        "earliest": 0.0 if wanted.younger is None else now - wanted.younger,
    }  # fmt: skip


def _before(cursor: str | None) -> int:
    if cursor is None:
        return _FIRST
    if not re.fullmatch(r"j[0-9a-f]{1,16}", cursor, re.ASCII):
        raise ValueError(f"cursor: {cursor[:40]!r} is not one that a page gave; leave it out to begin anew")
    return min(int(cursor[1:], 16), _FIRST)


def _place(cursor: str | None) -> tuple[int, str]:
    if cursor is None:
        return -1, ""
    try:
        rank, _, name = (
            base64.urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4)).decode().partition(":")
        )
        return int(rank), name
    except ValueError:
        raise ValueError(f"cursor: {cursor[:40]!r} is not one that a page gave; leave it out to begin anew") from None


def _cursor(where: tuple[int, str]) -> str:
    return base64.urlsafe_b64encode(f"{where[0]}:{where[1]}".encode()).decode().rstrip("=")
