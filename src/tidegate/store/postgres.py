"""PostgreSQL: a pool of connections that come back by themselves, the server's clock, arrays instead of loops."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, TypeVar

import psycopg
from psycopg import errors as pg_errors
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row
from psycopg_pool import ConnectionPool, PoolTimeout

from tidegate.errors import StoreBusy, StoreError, StoreFull, UniqueTaken
from tidegate.store.announcing import Announcer
from tidegate.store.arrays import array
from tidegate.store.dialect import Dialect, Statement
from tidegate.store.tx import Book, Params, Row, Tx

T = TypeVar("T")

# Ours unless the URL says otherwise.
_SETTINGS: dict[str, Any] = {
    "connect_timeout": "5",
    "tcp_user_timeout": "10000",
    "keepalives_idle": "10",
    "application_name": "tidegate",
}
_OPTIONS = (
    "-c statement_timeout=10000 -c lock_timeout=5000 -c idle_in_transaction_session_timeout=30000"
    # Starting helpers takes longer than any of our statements.
    " -c max_parallel_workers_per_gather=0"
)
# A process that is frozen in the middle of a pipeline is not idle for the server, and would keep its locks for ever.
# From PostgreSQL 17 on, and unless the URL says otherwise.
_SHORT = """select set_config('transaction_timeout', '60s', false)
    where current_setting('transaction_timeout', true) = '0'"""
_LONG = """select set_config('transaction_timeout', '0', true)
    where current_setting('transaction_timeout', true) is not null"""
_MIGRATORS = 7_434_083  # the number of the advisory lock that migrators take
_COLLISIONS = 5  # times that a transaction is tried which met another one crosswise
_READING = "begin read only"
_HOPELESS = (
    "does not exist",
    "authentication failed",
    "no password supplied",
    "no pg_hba.conf entry",
    "permission denied",
)


class PostgresTx:
    """Runs statements on one connection; a `{rows}` statement runs once, over arrays."""

    __slots__ = ("_book", "_connection", "_now")

    def __init__(self, connection: psycopg.Connection[Row], book: Book, now: float | None) -> None:
        self._connection = connection
        self._book = book
        self._now = now

    def all(self, name: str, params: Params | None = None) -> list[Row]:
        return self._run(self._book[name], {"now": self._now, **(params or {})})

    def many(self, name: str, rows: Sequence[Params], params: Params | None = None) -> list[Row]:
        if not rows:
            return []
        statement = self._book[name]
        shared = {"now": self._now, **(params or {})}
        if len(rows) == 1:  # plain values cost half as much as arrays of one
            return self._run(statement.one or statement, {**shared, **rows[0]})
        arrays = {column: array([row[column] for row in rows]) for column in statement.columns}
        return self._run(statement, {**shared, **arrays})

    def plain(self, sql: str) -> None:
        self._connection.execute(sql)

    def one_migrator(self) -> None:
        # Another one may take its time with a large table, and so may we; but nobody waits long for our locks on it.
        self._connection.execute("set local statement_timeout = 0")
        self._connection.execute(_LONG)
        self._connection.execute("set local lock_timeout = '10min'")
        self._connection.execute("select pg_advisory_xact_lock(%s)", (_MIGRATORS,))
        self._connection.execute("set local lock_timeout = '5s'")

    def others_write(self, table: str) -> bool:
        # Whoever inserts has this lock from before the id is given out until after the commit can be seen.
        found = self._connection.execute(
            "select exists (select 1 from pg_locks where locktype = 'relation' and relation = to_regclass(%s)"
            " and database = (select oid from pg_database where datname = current_database())"
            " and mode = 'RowExclusiveLock' and granted and pid <> pg_backend_pid())",
            (table,),
        ).fetchone()
        return found is not None and bool(found[0])

    def _run(self, statement: Statement, params: Params) -> list[Row]:
        cursor = _cursor(self._connection)
        cursor.execute(_encoded(statement.sql), [params[name] for name in statement.numbered])
        return cursor.fetchall() if statement.returns else []


class PostgresStore:
    """One PostgreSQL database, shared by any number of processes and hosts."""

    dialect = Dialect.POSTGRES

    def __init__(
        self,
        url: str,
        statements: Iterable[Statement],
        now: Callable[[], float] | None = None,
        connections: int = 8,
        patience: float = 10.0,
        pipelined: bool | None = None,
    ) -> None:
        self.url = url
        self._conninfo = conninfo_of(url)
        # Statements whose answers nobody waits for travel together: half as many round trips through a network, and
        # a little more work on this side, which a socket of the same machine does not pay back.
        self._pipelined = not _on_this_machine(self._conninfo) if pipelined is None else pipelined
        self._clock = now  # None: the server's
        self.keeps_time = now is None
        self._book = Book(statements)
        self._announcer = Announcer(self._notify)
        self._known: weakref.WeakSet[psycopg.Connection[Any]] = weakref.WeakSet()
        self._checked: weakref.WeakSet[psycopg.Connection[Any]] = weakref.WeakSet()
        self.checks: set[Callable[[Tx], object]] = set()
        self._most = connections
        self._pool = ConnectionPool(
            self._conninfo, min_size=1, max_size=connections, kwargs={"autocommit": True}, timeout=patience, open=False,
            reconnect_timeout=60, name="tidegate", configure=_configured,
        )  # fmt: skip
        self._open(patience)

    def _open(self, patience: float) -> None:
        try:
            psycopg.connect(self._conninfo).close()
        except psycopg.OperationalError as error:
            if hopeless(error):
                raise StoreError(str(error).strip()) from error
        try:
            self._pool.open(wait=True, timeout=patience)
        except PoolTimeout as error:
            self._pool.close()
            raise StoreBusy("the database cannot be reached") from error

    def write(self, work: Callable[[Tx], T]) -> T:
        return self._transaction(work, "begin")

    def read(self, work: Callable[[Tx], T]) -> T:
        return self._transaction(work, _READING)

    def on(self, connection: Any) -> Tx:
        if not isinstance(connection, psycopg.Connection):
            raise TypeError(f"connection: {type(connection).__module__} is another driver; the queue uses psycopg")
        if connection not in self._known:
            with self._pool.connection() as ours:
                if _where(connection) != _where(ours):
                    raise ValueError("connection: it is open on another database, or another schema, than the queue")
            self._known.add(connection)
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
                with psycopg.connect(self._conninfo, autocommit=True) as connection:
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
        dead, collided = 0, 0
        while True:
            try:
                return self._once(work, begin)
            except _Untouched as error:
                # After a restart of the server all connections are dead, and nobody knows until one is used.
                dead += 1
                if dead > self._most:
                    raise StoreBusy(str(error.__cause__).strip()) from error.__cause__
            except (pg_errors.DeadlockDetected, pg_errors.SerializationFailure) as error:
                # The server has taken all of it back, and says that the same will do another time.
                collided += 1
                if collided >= _COLLISIONS:
                    raise _translated(error) from error
            except psycopg.Error as error:
                raise _translated(error) from error

    def _once(self, work: Callable[[Tx], T], begin: str) -> T:
        committing = False
        try:
            with self._pool.connection() as connection:
                try:
                    with connection.pipeline() if self._pipelined else contextlib.nullcontext():
                        connection.execute(begin)
                        tx = PostgresTx(connection, self._book, self._now())
                        writes = begin != _READING
                        if writes and connection not in self._checked:
                            for check in tuple(self.checks):
                                check(tx)
                        result = work(tx)
                        # What only reads may be repeated, whatever became of its end.
                        committing = writes
                        connection.execute("commit")
                except BaseException as error:
                    if connection.broken and isinstance(error, psycopg.OperationalError) and not committing:
                        raise _Untouched from error
                    if not connection.broken and connection.info.transaction_status is not TransactionStatus.IDLE:
                        connection.execute("rollback")
                    raise
                if writes:
                    self._checked.add(connection)
                return result
        except PoolTimeout as error:
            raise StoreBusy("the database cannot be reached") from error


class _Untouched(Exception):
    """The connection is gone, and nothing can have been committed."""


def hopeless(error: psycopg.OperationalError) -> bool:
    """Whether no waiting will change it."""
    return any(words in str(error) for words in _HOPELESS)


def conninfo_of(url: str) -> str:
    """*url* with our settings where it has none; ValueError when it is no URL of PostgreSQL."""
    try:
        given = conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        raise ValueError(f"url: {str(error).partition(chr(34))[0].strip()}") from None  # what follows may be a password
    if not all(port.isdigit() for port in str(given.get("port", 0)).split(",")):
        raise ValueError("url: its port is no number")
    options = f"{_OPTIONS} {given.get('options', '')}".strip()
    return make_conninfo(**{**_SETTINGS, **given, "options": options})


def _cursor(connection: psycopg.Connection[Any]) -> psycopg.RawCursor[Row]:
    """One for our texts and our rows; a user's own connection may be used to others.

    Raw: psycopg would look for the names of parameters in each text again and again.
    """
    return psycopg.RawCursor(connection, row_factory=tuple_row)


@cache
def _encoded(sql: str) -> bytes:
    """Always the same bytes: each connection remembers those of two hundred statements."""
    return sql.encode()


def _on_this_machine(conninfo: str) -> bool:
    host = str(conninfo_to_dict(conninfo).get("host") or "/")
    return host.startswith(("/", "@"))  # a socket in a folder


def _configured(connection: psycopg.Connection[Any]) -> None:
    connection.execute(_SHORT)


def _where(connection: psycopg.Connection[Any]) -> Row | None:
    """Which table of which server a connection means by the name of ours."""
    asked = "select pg_postmaster_start_time(), to_regclass('tg_job')::oid, current_database()"
    return _cursor(connection).execute(asked).fetchone()


def _translated(error: psycopg.Error) -> StoreError:
    text = str(error).strip()
    if isinstance(error, pg_errors.UniqueViolation):
        return UniqueTaken(text)
    if isinstance(error, (pg_errors.DiskFull, pg_errors.OutOfMemory)):
        return StoreFull(text)
    if isinstance(error, (psycopg.OperationalError, pg_errors.SerializationFailure, pg_errors.DeadlockDetected)):
        return StoreBusy(text)
    return StoreError(text)
