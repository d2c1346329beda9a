"""Store and transactions: named statements, progress of long work, pages and cursors."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from tidegate.store.sql import Dialect, Statement

if TYPE_CHECKING:
    from tidegate.store.clock import SteadyClock


# What the rest of Tidegate sees of a database: transactions that run named statements.

T = TypeVar("T")
Row = tuple[Any, ...]
Params = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class BoundStatement:
    """A named statement with its values, to be run in somebody else's transaction."""

    name: str
    params: Params = field(default_factory=dict)


class Tx(Protocol):
    """An open transaction. `:now` is filled in: the store's clock, or the server's."""

    def query(self, name: str, params: Params | None = None) -> list[Row]:
        """The rows of a statement."""

    def query_many(self, name: str, rows: Sequence[Params], params: Params | None = None) -> list[Row]:
        """One statement over a table of parameters (`{rows ...}`); the rows that it returns, of all of them."""

    def named(self, beginning: str) -> list[str]:
        """The statements of applications whose own name begins like that, in order: `feeds.shift_polls`."""

    def execute(self, sql: str) -> None:
        """A statement without a name: for migrations, and for a database that was put back."""

    def lock_migrations(self) -> None:
        """Keeps every other migrator out until the end of the transaction."""

    def others_write(self, table: str) -> bool:
        """Whether somebody has written to *table* and not committed yet: what is there now may not be all."""


class Store(Protocol):
    """One database. Calls wait; nothing here is asynchronous."""

    dialect: Dialect
    url: str
    keeps_time: bool  # its clock is its own, and not that of this machine
    checks: set[Callable[[Tx], object]]  # made first in what a new connection writes: the server may be another

    def write(self, work: Callable[[Tx], T]) -> T:
        """Runs *work* in a transaction; when this returns, it is on disk. It may be run again: no effects outside."""

    def read(self, work: Callable[[Tx], T]) -> T:
        """Runs *work* in a transaction that only reads."""

    def join_transaction(self, connection: Any) -> Tx:
        """A transaction that somebody else began, and ends."""

    def add(self, statements: Iterable[Statement]) -> None:
        """Statements of an application, beside the core's."""

    def now(self) -> float:
        """The clock that leases are measured with."""

    def keep_steady(self, clock: SteadyClock) -> None:
        """Deals with steps of its clock from now on. The schema must be up to date."""

    def check_clock(self, tx: Tx) -> bool:
        """Deals with a step of its clock, if there was one; False when that cannot be told right now."""

    def older_than(self, age: float, now: float) -> float:
        """The time before which everything is *age* seconds old, by the last check; 0 while that cannot be known.

        *now* is the store's time, and a step of the clock is not elapsed time.
        """

    def announce(self) -> None:
        """Tells other processes that there is something new, where the database can; a burst is told once."""

    def close(self) -> None: ...


class StatementRegistry(dict[str, Statement]):
    """The statements of a store by name."""

    def __init__(self, statements: Iterable[Statement]) -> None:
        super().__init__()
        self.add(statements)

    def add(self, statements: Iterable[Statement]) -> None:
        for statement in statements:
            if statement.name in self:
                raise ValueError(f"statement {statement.name!r} stands twice")
            self[statement.name] = statement

    def beginning(self, beginning: str) -> list[str]:
        """The statements of applications whose own name begins like that."""
        return sorted(name for name in self if name.partition(".")[2].startswith(beginning))

    def __missing__(self, name: str) -> Statement:
        raise KeyError(f"there is no statement {name!r}")


# What time it is for a database: its own clock, or the one that it was handed.


def now_of(tx: Tx) -> float:
    """The clock that leases and due times are measured with, UNIX time."""
    return float(tx.query("clock")[0][0])


# How far something long is. Whoever does it tells; whoever waits for it listens, and may raise to end it.

Progress = Callable[[int, int], None]  # done so far, of how many
Stages = Callable[[str], Progress]  # what is begun now; until it tells, nobody knows how much of it there is


def unheard(_done: int, _total: int) -> None:
    """Nobody waits for it."""


def unwatched(_stage: str) -> Progress:
    """Nobody waits for any of it."""
    return unheard


# Where the next page of a list begins, as a text that whoever reads it hands back as it was given.

END = 2**62  # above every number that is given out
_NUMBER = re.compile(r"[0-9a-f]{1,16}", re.ASCII)


def write_cursor(mark: str, number: int) -> str:
    """A number with the *mark* of its list, so that no other list takes it for its own."""
    return f"{mark}{number:x}"


def read_cursor(cursor: str | None, mark: str, first: int = END) -> int:
    """The number in it; *first* when there is none, and ValueError for one that this list did not give."""
    if cursor is None:
        return first
    if not cursor.startswith(mark) or not _NUMBER.fullmatch(cursor, len(mark)):
        raise bad_cursor(cursor)
    return min(int(cursor[len(mark) :], 16), END)


def bad_cursor(cursor: str) -> ValueError:
    return ValueError(f"cursor: {cursor[:40]!r} is not one that a page gave; leave it out to begin anew")


@dataclass(frozen=True, slots=True)
class ResultPage(Generic[T]):
    """Some of a list. *next* is the cursor of what follows; None at the end."""

    items: list[T]
    next: str | None

    def as_json(self, shown: Callable[[T], Any]) -> dict[str, Any]:
        return {"items": [shown(item) for item in self.items], "next_cursor": self.next}
