"""PostgreSQL: a pool of connections that come back by themselves, the server's clock, arrays instead of loops."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import psycopg
from psycopg import errors as pg_errors
from psycopg_pool import ConnectionPool, PoolTimeout

from tidegate.errors import StoreBusy, StoreError, StoreFull, UniqueTaken
from tidegate.store.announcing import Announcer
from tidegate.store.dialect import Dialect, Statement
from tidegate.store.tx import Book, Params, Row, Tx

T = TypeVar("T")

_SETTINGS: dict[str, Any] = {
    "connect_timeout": "5",
    "tcp_user_timeout": "10000",
    "keepalives_idle": "10",
    "application_name": "tidegate",
    "options": "-c statement_timeout=10000 -c lock_timeout=5000 -c idle_in_transaction_session_timeout=30000",
}
_MIGRATORS = 7_434_083  # the number of the advisory lock that migrators take


class PostgresTx:
    """Runs statements on one connection; a `{rows}` statement runs once, over arrays."""

    __slots__ = ("_book", "_connection", "_now")

    def __init__(self, connection: psycopg.Connection[Row], book: Book, now: float | None) -> None:
        self._connection = connection
        self._book = book
        self._now = now

    def all(self, name: str, params: Params | None = None) -> list[Row]:
        return self._run(self._book[name].sql, {"now": self._now, **(params or {})})

    def many(self, name: str, rows: Sequence[Params], params: Params | None = None) -> list[Row]:
        if not rows:
            return []
        statement = self._book[name]
        arrays = {column: [row[column] for row in rows] for column in statement.columns}
        return self._run(statement.sql, {"now": self._now, **(params or {}), **arrays})

    def plain(self, sql: str) -> None:
        self._connection.execute(sql.replace("%%", "%"))

    def one_migrator(self) -> None:
        self._connection.execute("select pg_advisory_xact_lock(%s)", (_MIGRATORS,))

    def _run(self, sql: str, params: Params) -> list[Row]:
        cursor = self._connection.execute(sql, params)
        return cursor.fetchall() if cursor.description is not None else []


class PostgresStore:
    """One PostgreSQL database, shared by any number of processes and hosts."""

    dialect = Dialect.POSTGRES

    def __init__(
        self, url: str, statements: Iterable[Statement], now: Callable[[], float] | None = None, connections: int = 8
    ) -> None:
        self.url = url
        self._clock = now  # None: the server's
        self._book = Book(statements)
        self._announcer = Announcer(self._notify)
        self._pool = ConnectionPool(
            url, min_size=1, max_size=connections, kwargs={**_SETTINGS, "autocommit": True}, timeout=10, open=False,
            reconnect_timeout=60, name="tidegate",
        )  # fmt: skip
        try:
            self._pool.open(wait=True, timeout=10)
        except PoolTimeout as error:
            self._pool.close()
            raise StoreBusy("the database cannot be reached") from error

    def write(self, work: Callable[[Tx], T]) -> T:
        return self._transaction(work, "begin")

    def read(self, work: Callable[[Tx], T]) -> T:
        return self._transaction(work, "begin read only")

    def on(self, connection: Any) -> Tx:
        if not isinstance(connection, psycopg.Connection):
            raise TypeError(f"connection: {type(connection).__module__} is another driver; the queue uses psycopg")
        return PostgresTx(connection, self._book, self._now())

    def add(self, statements: Iterable[Statement]) -> None:
        self._book.add(statements)

    def now(self) -> float:
        if self._clock is not None:
            return self._clock()
        return float(self.read(lambda tx: tx.all("clock"))[0][0])

    def announce(self) -> None:
        """Wakes the workers of all hosts; a burst is one announcement."""
        self._announcer.announce()

    def _notify(self) -> None:
        with contextlib.suppress(StoreError):  # they also look by themselves
            self.write(lambda tx: tx.all("notify"))

    def listen(self, woken: Callable[[], None], stop: threading.Event) -> None:
        """Blocks until *stop*, calls back at every announcement; comes back by itself when the server goes away."""
        while not stop.is_set():
            try:
                with psycopg.connect(self.url, autocommit=True, **_SETTINGS) as connection:
                    connection.execute("listen tidegate")
                    woken()
                    while not stop.is_set():
                        if any(True for _ in connection.notifies(timeout=0.5, stop_after=1)):
                            woken()
            except psycopg.Error:
                stop.wait(1.0)

    def close(self) -> None:
        self._pool.close()

    def _now(self) -> float | None:
        return None if self._clock is None else self._clock()

    def _transaction(self, work: Callable[[Tx], T], begin: str) -> T:
        for last in (False, True):
            try:
                return self._once(work, begin)
            except _Untouched as error:
                # The connection was dead before anything was sent, as after a restart of the server.
                if last:
                    raise StoreBusy(str(error.__cause__).strip()) from error.__cause__
        raise AssertionError("unreachable")

    def _once(self, work: Callable[[Tx], T], begin: str) -> T:
        try:
            with self._pool.connection() as connection:
                try:
                    connection.execute(begin)
                except psycopg.OperationalError as error:
                    raise _Untouched from error
                try:
                    result = work(PostgresTx(connection, self._book, self._now()))
                except BaseException:
                    if not connection.broken:
                        connection.execute("rollback")
                    raise
                connection.execute("commit")
                return result
        except PoolTimeout as error:
            raise StoreBusy("the database cannot be reached") from error
        except psycopg.Error as error:
            raise _translated(error) from error


class _Untouched(Exception):
    """Nothing reached the server."""


def _translated(error: psycopg.Error) -> StoreError:
    text = str(error).strip()
    if isinstance(error, pg_errors.UniqueViolation):
        return UniqueTaken(text)
    if isinstance(error, (pg_errors.DiskFull, pg_errors.OutOfMemory)):
        return StoreFull(text)
    if isinstance(error, (psycopg.OperationalError, pg_errors.SerializationFailure, pg_errors.DeadlockDetected)):
        return StoreBusy(text)
    return StoreError(text)
