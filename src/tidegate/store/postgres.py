"""PostgreSQL: a self-healing connection pool, the server's clock, and arrays instead of loops."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import TypeAlias, TypeVar

import psycopg
from psycopg import errors as pg_errors
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row
from psycopg_pool import ConnectionPool, PoolTimeout

from tidegate.errors import StoreBusy, StoreError, StoreFull, UniqueTaken
from tidegate.store.base import Params, Row, StatementRegistry, Tx, now_of
from tidegate.store.clock import ServerClock, SteadyClock
from tidegate.store.postgres_url import BEHIND_POOLER, UNREACHABLE, PostgresAddress
from tidegate.store.sql import Dialect, Statement, array


class NotifyThrottle:
    """Passes one announcement per *every* seconds, and one more after a burst."""

    def __init__(self, send: Callable[[], None], every: float = 0.01) -> None:
        self._send = send
        self._every = every
        self._lock = threading.Lock()
        self._last = 0.0
        self._timer: threading.Timer | None = None

    def announce(self) -> None:
        with self._lock:
            now = time.monotonic()
            wait = self._last + self._every - now
            if wait > 0:
                if self._timer is None:
                    self._timer = threading.Timer(wait, self._late)
                    self._timer.daemon = True
                    self._timer.start()
                return
            self._last = now
        self._send()

    def _late(self) -> None:
        with self._lock:
            self._timer = None
            self._last = time.monotonic()
        self._send()


T = TypeVar("T")
_log = logging.getLogger("tidegate.store")

# A process that freezes in the middle of a pipeline is not idle for the server, and would hold its locks forever.
# Needs PostgreSQL 17. The URL may override it.
_SHORT = """select set_config('transaction_timeout', '60s', false)
    where current_setting('transaction_timeout', true) = '0'"""
_LONG = """select set_config('transaction_timeout', '0', true)
    where current_setting('transaction_timeout', true) is not null"""
_MIGRATORS = 7_434_083  # the key of the advisory lock of migrators
_MAX_COLLISIONS = 5  # attempts of a transaction that hits a deadlock or a serialization failure
_READING = "begin read only"
_LISTEN_RETRY_SECONDS = 60.0  # seconds between attempts of a refused LISTEN
_MAX_BACKENDS = 1000  # remembered server connections behind a pooler


Connection: TypeAlias = psycopg.Connection[Row]


class PostgresTx(Tx):
    """Runs statements on one connection. A `{rows}` statement runs once, over arrays."""

    __slots__ = ("_registry", "_connection", "_now")

    def __init__(self, connection: Connection, registry: StatementRegistry, now: float | None) -> None:
        self._connection = connection
        self._registry = registry
        self._now = now

    def query(self, name: str, params: Params | None = None) -> list[Row]:
        return self._run(self._registry[name], {"now": self._now, **(params or {})})

    def query_many(self, name: str, rows: Sequence[Params], params: Params | None = None) -> list[Row]:
        if not rows:
            return []
        statement = self._registry[name]
        shared = {"now": self._now, **(params or {})}
        if len(rows) == 1:  # plain values cost half as much as arrays with one element
            return self._run(statement.one or statement, {**shared, **rows[0]})
        arrays = {column: array([row[column] for row in rows]) for column in statement.columns}
        return self._run(statement, {**shared, **arrays})

    def named(self, beginning: str) -> list[str]:
        return self._registry.beginning(beginning)

    def execute(self, sql: str) -> None:
        self._connection.execute(sql)

    def lock_migrations(self) -> None:
        # Migrating a large table takes long, here and in another process. Others must not wait long for our locks.
        self._connection.execute("set local statement_timeout = 0")
        self._connection.execute(_LONG)
        self._connection.execute("set local lock_timeout = '10min'")
        self._connection.execute("select pg_advisory_xact_lock(%s)", (_MIGRATORS,))
        self._connection.execute("set local lock_timeout = '5s'")

    def others_write(self, table: str) -> bool:
        # An insert holds this lock from before it gets its id until its commit is visible.
        locks = self._connection.execute(
            "select 1 from pg_locks where locktype = 'relation' and relation = to_regclass(%s)"
            " and database = (select oid from pg_database where datname = current_database())"
            " and mode = 'RowExclusiveLock' and granted and pid <> pg_backend_pid() limit 1",
            (table,),
        )
        return locks.fetchone() is not None

    def place(self) -> Row | None:
        """Identifies the server and the table that this connection resolves `tg_job` to."""
        sql = "select pg_postmaster_start_time(), to_regclass('tg_job')::oid, current_database()"
        return _cursor(self._connection).execute(sql).fetchone()

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
        listen_url: str | None = None,
    ) -> None:
        """*listen_url*: a direct connection to the same database for LISTEN, if *url* is pooled."""
        self.url = url
        self._address = address = PostgresAddress.of(url)
        self._listen_at = address if listen_url is None else PostgresAddress.of(listen_url, field="listen_url")
        # A pipeline sends statements without waiting for their results. That halves the round trips of a network. It
        # costs some CPU, which a local socket does not win back.
        self._pipelined = not address.on_this_machine if pipelined is None else pipelined
        self._opening = address.opening
        self._clock = now  # None: the server's clock
        self.keeps_time = now is None
        self._steady: SteadyClock | None = None
        self._server_clock: ServerClock | None = None
        self._registry = StatementRegistry(statements)
        self._announcer = NotifyThrottle(self._notify)
        self._known: weakref.WeakSet[Connection] = weakref.WeakSet()
        self._checked: weakref.WeakSet[Connection] = weakref.WeakSet()
        self._checked_backends: set[Row] = set()  # of a pooler
        self.checks: set[Callable[[Tx], object]] = set()
        self._limit = connections
        self._pool = ConnectionPool(
            address.conninfo,
            min_size=1,
            max_size=connections,
            kwargs=address.arguments,
            timeout=patience,
            open=False,
            reconnect_timeout=60,
            name="tidegate",
            configure=None if address.pooled else _configure,
        )
        self._open(patience)

    def _open(self, patience: float) -> None:
        with contextlib.suppress(StoreBusy):  # the pool keeps trying
            self._address.connect().close()
        try:
            self._pool.open(wait=True, timeout=patience)
        except PoolTimeout as error:
            self._pool.close()
            raise StoreBusy(UNREACHABLE) from error

    def write(self, work: Callable[[Tx], T]) -> T:
        return self._transaction(work, "begin")

    def read(self, work: Callable[[Tx], T]) -> T:
        return self._transaction(work, _READING)

    def join_transaction(self, connection: object) -> Tx:
        if not isinstance(connection, psycopg.Connection):
            raise TypeError(f"connection: {type(connection).__module__} is another driver; the queue uses psycopg")
        if connection not in self._known:
            if PostgresTx(connection, self._registry, None).place() != self.read(_place):
                raise ValueError(
                    "connection: it is open on another database or schema than the queue; connect it to the same"
                )
            self._known.add(connection)
        return PostgresTx(connection, self._registry, self._now())

    def add(self, statements: Iterable[Statement]) -> None:
        self._registry.add(statements)

    def now(self) -> float:
        if self._clock is not None:
            return self._clock()
        return self.read(now_of)

    def keep_steady(self, clock: SteadyClock) -> None:
        if self._clock is None:
            self._server_clock = ServerClock(clock.monotonic)
        else:
            clock.keep_in_store()
            self._steady, self._clock = clock, clock.now

    def check_clock(self, tx: Tx) -> bool:
        if self._steady is not None:
            self._steady.check(tx)
        return self._server_clock is None or self._server_clock.check(tx)

    def older_than(self, age: float, now: float) -> float:
        if self._server_clock is not None:
            return self._server_clock.older_than(now, age)
        return now - age if self._steady is None else self._steady.older_than(age)

    def announce(self) -> None:
        """Wakes the workers of all hosts. A burst is one notification."""
        self._announcer.announce()

    def _notify(self) -> None:
        with contextlib.suppress(StoreError):  # workers also poll
            self.write(lambda tx: tx.query("notify"))

    @property
    def listen(self) -> Callable[[Callable[[], None], threading.Event], None] | None:
        """Blocks until stopped, calls back at each notification. None where a pooler does not forward them."""
        return None if self._listen_at.pooled else self._listen

    def _listen(self, woken: Callable[[], None], stop: threading.Event) -> None:
        refused = False
        while not stop.is_set():
            try:
                with self._listen_at.connect() as connection:
                    connection.execute("listen tidegate")
                    woken()
                    while not stop.is_set():
                        if any(True for _ in connection.notifies(timeout=0.5, stop_after=1)):
                            woken()
            except (StoreBusy, psycopg.Error):
                stop.wait(1.0)
            except StoreError as error:
                if not refused:
                    _log.warning("listen_refused reason=%s", error)
                refused = True
                stop.wait(_LISTEN_RETRY_SECONDS)

    def close(self) -> None:
        self._pool.close()

    def _now(self) -> float | None:
        return None if self._clock is None else self._clock()

    def _transaction(self, work: Callable[[Tx], T], begin: str) -> T:
        dead, collided = 0, 0
        while True:
            try:
                return self._once(work, begin)
            except _NotCommitted as error:
                # After a server restart all connections are dead, which shows only when one is used.
                dead += 1
                if dead > self._limit:
                    raise StoreBusy(str(error.__cause__).strip()) from error.__cause__
            except (pg_errors.DeadlockDetected, pg_errors.SerializationFailure) as error:
                # The server rolled the transaction back. A retry may succeed.
                collided += 1
                if collided >= _MAX_COLLISIONS:
                    raise _translated(error) from error
            except psycopg.Error as error:
                raise _translated(error) from error

    def _once(self, work: Callable[[Tx], T], begin: str) -> T:
        committing = False
        try:
            with self._pool.connection() as connection:
                try:
                    with connection.pipeline() if self._pipelined else contextlib.nullcontext():
                        writes = begin != _READING
                        new = self._begin(connection, begin)
                        tx = self._begun(connection, writes=writes)
                        if writes and new is not None:
                            for check in tuple(self.checks):
                                check(tx)
                        result = work(tx)
                        # A read can be repeated, even if its commit failed.
                        committing = writes
                        connection.execute("commit")
                except BaseException as error:
                    _roll_back(connection)
                    if connection.closed and isinstance(error, psycopg.OperationalError) and not committing:
                        raise _NotCommitted from error
                    raise
                if writes and new is not None:
                    self._mark_checked(new)
                return result
        except PoolTimeout as error:
            raise StoreBusy(UNREACHABLE) from error

    def _begin(self, connection: Connection, begin: str) -> Connection | Row | None:
        """Begins a transaction. Returns the server connection if it has not written before, else None."""
        if not self._address.pooled:
            connection.execute(begin)
            return None if connection in self._checked else connection
        if self._pipelined:
            connection.execute(begin)
            cursor = connection.execute(self._opening)
        else:  # one round trip
            cursor = connection.execute(f"{begin};{self._opening}")
            cursor.nextset()
        if begin == _READING or not self.checks:
            return None
        backend = cursor.fetchone()
        return None if backend is None or backend[:2] in self._checked_backends else backend[:2]

    def _mark_checked(self, new: Connection | Row) -> None:
        if isinstance(new, psycopg.Connection):
            self._checked.add(new)
            return
        if len(self._checked_backends) >= _MAX_BACKENDS:
            self._checked_backends.clear()  # the checks run again
        self._checked_backends.add(new)

    def _begun(self, connection: Connection, *, writes: bool) -> Tx:
        tx, steady = PostgresTx(connection, self._registry, self._now()), self._steady
        if steady is None:
            return tx
        now = steady.now_for_writing(tx) if writes else steady.now_for_reading(tx)
        return PostgresTx(connection, self._registry, now)


class _NotCommitted(Exception):
    """The connection was lost before the commit was sent."""


def _cursor(connection: Connection) -> psycopg.RawCursor[Row]:
    """Returns a cursor with our parameter style and row type. A user's connection may be configured differently.

    It is a raw cursor because psycopg would parse the parameter names of each text again.
    """
    return psycopg.RawCursor(connection, row_factory=tuple_row)


@cache
def _encoded(sql: str) -> bytes:
    """Returns the identical bytes object for a text: each connection caches by it."""
    return sql.encode()


def _configure(connection: Connection) -> None:
    connection.execute(_SHORT)


def _roll_back(connection: Connection) -> None:
    """Rolls back a failed transaction. Closes a connection that cannot."""
    if connection.closed or connection.info.transaction_status is TransactionStatus.IDLE:
        return
    try:
        connection.execute("rollback")
    except psycopg.OperationalError:  # a pooler reports a lost server before it closes the connection
        connection.close()


def _place(tx: Tx) -> Row | None:
    return tx.place() if isinstance(tx, PostgresTx) else None


def _translated(error: psycopg.Error) -> StoreError:
    text = str(error).strip()
    if isinstance(error, (pg_errors.DuplicatePreparedStatement, pg_errors.InvalidSqlStatementName)):
        return StoreError(BEHIND_POOLER)  # prepared statements belong to a session
    if isinstance(error, pg_errors.UniqueViolation):
        return UniqueTaken(text)
    if isinstance(error, (pg_errors.DiskFull, pg_errors.OutOfMemory)):
        return StoreFull(text)
    if isinstance(error, (psycopg.OperationalError, pg_errors.SerializationFailure, pg_errors.DeadlockDetected)):
        return StoreBusy(text)
    return StoreError(text)
