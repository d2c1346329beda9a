"""The `Store` and `Tx` protocols, the statement registry, progress callbacks and page cursors."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from tidegate.store.sql import Dialect, Statement

if TYPE_CHECKING:
    from tidegate.store.clock import SteadyClock


T = TypeVar("T")
R = TypeVar("R")
Row = tuple[Any, ...]  # as the driver returns it
Params = Mapping[str, object]  # the driver rejects a value that no column can hold


@dataclass(frozen=True, slots=True)
class BoundStatement:
    """A named statement with its parameters, for a transaction that the caller runs."""

    name: str
    params: Params = field(default_factory=dict)


class Tx(Protocol):
    """An open transaction. It fills in `:now`: the store's clock, or null for the server's clock."""

    __slots__ = ()

    def query(self, name: str, params: Params | None = None) -> list[Row]:
        """Returns the rows of a statement."""

    def query_many(self, name: str, rows: Sequence[Params], params: Params | None = None) -> list[Row]:
        """Runs a `{rows ...}` statement over many rows of parameters. Returns the rows of all of them."""

    def query_as(self, row: type[R], name: str, params: Params | None = None) -> list[R]:
        """Returns the rows of a statement as values of *row*: a NamedTuple or a dataclass with a field per column."""
        return rows_as(row, name, self.query(name, params))

    def query_many_as(self, row: type[R], name: str, rows: Sequence[Params], params: Params | None = None) -> list[R]:
        """As `query_many`, with the rows as values of *row*."""
        return rows_as(row, name, self.query_many(name, rows, params))

    def first(self, row: type[R], name: str, params: Params | None = None) -> R | None:
        """Returns the first row of a statement, or None if it has none."""
        return next(iter(rows_as(row, name, self.query(name, params)[:1])), None)

    def scalar(self, kind: Callable[[Any], T], name: str, params: Params | None = None) -> T:
        """Returns the first column of the first row, converted by *kind*: `tx.scalar(int, "newest")`."""
        return kind(self.query(name, params)[0][0])

    def scalar_or_none(self, kind: Callable[[Any], T], name: str, params: Params | None = None) -> T | None:
        """As `scalar`, or None without a row or a value."""
        return scalar_of(kind, self.query(name, params))

    def scalars(self, kind: Callable[[Any], T], name: str, params: Params | None = None) -> list[T]:
        """Returns the first column of every row, converted by *kind*."""
        return [kind(value) for value, *_ in self.query(name, params)]

    def named(self, beginning: str) -> list[str]:
        """Returns the application statements whose own name has this prefix, sorted: `feeds.shift_polls`."""

    def execute(self, sql: str) -> None:
        """Runs an unnamed statement: for migrations, and for a restored database."""

    def lock_migrations(self) -> None:
        """Excludes other migrators until the transaction ends."""

    def others_write(self, table: str) -> bool:
        """Returns whether another transaction has uncommitted writes to *table*, so a read may miss rows."""


class Store(Protocol):
    """One database. All calls block."""

    dialect: Dialect
    url: str
    keeps_time: bool  # the server's clock counts, not the clock of this host
    checks: set[Callable[[Tx], object]]  # run in the first write of a new connection: the server may have changed

    def write(self, work: Callable[[Tx], T]) -> T:
        """Runs *work* in a transaction that is durable on return. *work* may run twice: no side effects outside."""

    def read(self, work: Callable[[Tx], T]) -> T:
        """Runs *work* in a read-only transaction."""

    def join_transaction(self, connection: object) -> Tx:
        """Wraps a transaction that the caller begins and ends."""

    def add(self, statements: Iterable[Statement]) -> None:
        """Registers the statements of an application."""

    def now(self) -> float:
        """Returns the time that leases are measured with."""

    def keep_steady(self, clock: SteadyClock) -> None:
        """Handles steps of the clock from now on. The schema must be up to date."""

    def check_clock(self, tx: Tx) -> bool:
        """Handles a step of the clock, if there was one. Returns False while the clock cannot be checked."""

    def older_than(self, age: float, now: float) -> float:
        """Returns the time before which every row is *age* seconds old, or 0 while that is unknown.

        *now* is the store's time. A step of the clock is not elapsed time.
        """

    def announce(self) -> None:
        """Notifies other processes of new work, where the database can. A burst is one notification."""

    def close(self) -> None: ...


class StatementRegistry(dict[str, Statement]):
    """The statements of a store by name."""

    def __init__(self, statements: Iterable[Statement]) -> None:
        super().__init__()
        self.add(statements)

    def add(self, statements: Iterable[Statement]) -> None:
        for statement in statements:
            if statement.name in self:
                raise ValueError(f"statement {statement.name!r} is defined twice; rename one")
            self[statement.name] = statement

    def beginning(self, beginning: str) -> list[str]:
        """Returns the application statements whose own name has this prefix, sorted."""
        return sorted(name for name in self if name.partition(".")[2].startswith(beginning))

    def __missing__(self, name: str) -> Statement:
        raise KeyError(f"there is no statement {name!r}")


def now_of(tx: Tx) -> float:
    """Returns the UNIX time that leases and due times are measured with."""
    return tx.scalar(float, "clock")


# -- rows as values ----------------------------------------------------------------------------------------------------
# A NamedTuple is made from a row in 0.13 µs. A frozen dataclass of 20 columns takes 2 µs.


def rows_as(row: type[R], name: str, rows: list[Row]) -> list[R]:
    """Converts the rows of a statement. Raises TypeError unless *row* has a field for each column."""
    if not rows:
        return []
    width, make = _maker(row)  # type: ignore[arg-type]  # a class is hashable
    if len(rows[0]) != width:
        raise TypeError(
            f"{name}: it returns {len(rows[0])} columns, give {row.__qualname__} one field for each: it has {width}"
        )
    return list(map(make, rows))


def scalar_of(kind: Callable[[Any], T], rows: list[Row]) -> T | None:
    """Returns the first column of the first row; None without a row or a value."""
    return kind(rows[0][0]) if rows and rows[0][0] is not None else None


@cache
def _maker(row: type[Any]) -> tuple[int, Callable[[Row], Any]]:
    """Returns the number of fields of a row class, and the function that makes one from a row."""
    if issubclass(row, tuple):
        return len(row._fields), partial(tuple.__new__, row)  # type: ignore[attr-defined]  # a NamedTuple
    return len(fields(row)), lambda columns: row(*columns)


# -- progress ----------------------------------------------------------------------------------------------------------
# The caller of a long operation passes a callback. The callback may raise to end the operation.

Progress = Callable[[int, int], None]  # done, total
Stages = Callable[[str], Progress]  # the name of the stage that begins; its size is unknown until it reports


def unheard(_done: int, _total: int) -> None:
    """Ignores progress."""


def unwatched(_stage: str) -> Progress:
    """Ignores stages and their progress."""
    return unheard


# -- pages and cursors -------------------------------------------------------------------------------------------------
# A cursor is opaque to clients. They return it unchanged.

END = 2**62  # above every id
_NUMBER = re.compile(r"[0-9a-f]{1,16}", re.ASCII)


def write_cursor(mark: str, number: int) -> str:
    """Encodes *number* with the *mark* of its list, so that no other list accepts it."""
    return f"{mark}{number:x}"


def read_cursor(cursor: str | None, mark: str, first: int = END) -> int:
    """Decodes a cursor. Returns *first* for None. Raises ValueError for a cursor of another list."""
    if cursor is None:
        return first
    if not cursor.startswith(mark) or not _NUMBER.fullmatch(cursor, len(mark)):
        raise bad_cursor(cursor)
    return min(int(cursor[len(mark) :], 16), END)


def bad_cursor(cursor: str) -> ValueError:
    return ValueError(
        f"cursor: {cursor[:40]!r} is not one that a page returned; leave it out to start from the first page"
    )


@dataclass(frozen=True, slots=True)
class ResultPage(Generic[T]):
    """One page of a list. *next* is the cursor of the next page, or None at the end."""

    items: list[T]
    next: str | None

    def as_json(self, shown: Callable[[T], object]) -> dict[str, object]:
        return {"items": [shown(item) for item in self.items], "next_cursor": self.next}
