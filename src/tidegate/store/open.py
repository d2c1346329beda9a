"""Opens a database by its URL: read-write, read-only, or to watch for changes of other processes."""

from __future__ import annotations

import logging
import re
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from tidegate.errors import StoreError
from tidegate.store import sqlite, sqlite_files
from tidegate.store.base import StatementRegistry, Store, Tx
from tidegate.store.migrate import Applied
from tidegate.store.sql import Dialect, Statement, statements
from tidegate.store.sqlite import SqliteStore, SqliteTx
from tidegate.store.sqlite_driver import Driver, connect_to_look, driver_scalar, in_wal, library, version, wal_is_safe

_POOLED = "pooled=true"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")


@cache
def core_statements(dialect: Dialect) -> tuple[Statement, ...]:
    """Returns every core statement from the files of `statements/`.

    Parameters are named. `:now` is a number on SQLite. On PostgreSQL it may be null, and the server's clock counts.
    Every write under a lease matches id, fence and state. No row means that the lease is lost.

    Statements that select rows by id write the state as `state || ''`. Otherwise PostgreSQL may scan the index on the
    state once per id: its statistics are from a time when few rows had that state.
    """
    return statements(core_text(), dialect)


def core_text() -> str:
    paths = [path for path in (files("tidegate.store") / "statements").iterdir() if path.name.endswith(".sql")]
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted(paths, key=lambda path: path.name))


def check_url(url: object, driver: str | None = None) -> None:
    """Raises TypeError or ValueError if *url* does not name a database. Opens nothing."""
    if not isinstance(url, str):
        raise TypeError(f"url: {url!r:.60} is not a string; give sqlite:///jobs.db or postgresql://user@host/database")
    _parts(url)
    if driver is not None and not url.startswith("sqlite:"):
        raise ValueError(f"driver: {driver!r} is for SQLite only; leave it out")
    if driver is not None:
        library(driver)


def check_listen_url(listen_url: object, url: str | None = None) -> None:
    """Raises TypeError or ValueError unless both URLs are PostgreSQL and *listen_url* is not pooled.

    A pooler does not forward notifications.
    """
    if not isinstance(listen_url, str):
        raise TypeError(
            f"listen_url must be a URL or None, got {listen_url!r:.60}; give postgresql://user@host/database"
        )
    if not listen_url.startswith(("postgresql://", "postgres://")):
        raise ValueError("listen_url: must be the URL of a direct connection: postgresql://user@host/database")
    if _POOLED in listen_url:
        raise ValueError("listen_url: must be a direct connection; remove pooled=true")
    if url is not None and file_of(url) is not None:
        raise ValueError("listen_url: is for PostgreSQL only, and url is a SQLite file; remove listen_url")


def file_of(url: str) -> str | None:
    """Returns the path of a SQLite file, or None for another database."""
    return _parts(url)[1] or None


def open_store(
    url: str,
    *,
    now: Callable[[], float],
    driver: str | None = None,
    virtual: bool = False,
    listen_url: str | None = None,
) -> Store:
    """Opens the store of a URL: `sqlite:///jobs.db` or `postgresql://...`.

    *virtual*: *now* also replaces the server's clock. *listen_url*: the connection for LISTEN, if not *url*.
    """
    check_url(url, driver)
    if listen_url is not None:
        check_listen_url(listen_url, url)
    dialect, path = _parts(url)
    if dialect is Dialect.SQLITE:
        return _open_sqlite(path, now, driver, durable=not virtual)
    try:
        from tidegate.store.postgres import PostgresStore
    except ImportError as error:
        raise StoreError("PostgreSQL needs psycopg: pip install 'tidegate[postgres]'") from error
    return PostgresStore(url, core_statements(dialect), now if virtual else None, listen_url=listen_url)


def _open_sqlite(path: str, now: Callable[[], float], driver: str | None, *, durable: bool) -> SqliteStore:
    """Raises StoreMissing if another database is expected at *path*, StoreDamaged if this one is damaged."""
    sqlite_files.require_expected(path)
    store = SqliteStore(path, core_statements(Dialect.SQLITE), now, driver, durable=durable)
    try:
        marker = sqlite_files.read_marker(path)
        if marker is not None:
            sqlite_files.require_id(path, store.read(_read_id))
            if marker.damaged:
                store.require_undamaged()
                sqlite_files.write_marker(path, replace(marker, damaged=False))
    except BaseException:
        store.close()
        raise
    return store


def identify(store: Store) -> str:
    """Returns the id of an up-to-date database. Creates it on first use and writes it to SQLite's marker file."""
    store_id = store.read(_stored_id) or store.write(_create_id)
    if isinstance(store, SqliteStore):
        marker, right = sqlite_files.read_marker(store.path), sqlite_files.Marker(store_id)
        # The former database of a restore that has not ended keeps the marker of both.
        if marker is None or replace(marker, restoring="") != right:
            sqlite_files.write_marker(store.path, right)
    return store_id


def _create_id(tx: Tx) -> str:
    tx.query("store_put", {"name": "id", "value": uuid.uuid4().hex[:12]})
    return tx.scalar(str, "store_value", {"name": "id"})


def _stored_id(tx: Tx) -> str | None:
    return tx.scalar_or_none(str, "store_value", {"name": "id"})


def _read_id(tx: Tx) -> str | None:
    """Returns None also for a database without tables."""
    return _stored_id(tx) if tx.query("has_migrations_sqlite") else None


def _parts(url: str) -> tuple[Dialect, str]:
    """Returns the dialect of a URL and the path of the SQLite file."""
    scheme, _, rest = url.partition("://")
    if scheme == "sqlite":
        path = unquote(rest.removeprefix("/"))
        if not rest.startswith("/") or not path or path == ":memory:" or "?" in rest or path.endswith("/"):
            raise ValueError(f"url: {url!r} names no file; give sqlite:///jobs.db, or sqlite:////an/absolute/path.db")
        return Dialect.SQLITE, path
    if scheme in ("postgresql", "postgres"):
        return Dialect.POSTGRES, ""
    # Do not repeat the whole URL: the rest may contain a password, and so may all of it without a scheme.
    shown = repr(scheme[:20]) if _SCHEME.fullmatch(scheme) else "it"
    raise ValueError(f"url: {shown} is not allowed; give sqlite:///jobs.db or postgresql://user@host/database")


# -- read-only ---------------------------------------------------------------------------------------------------------
# Opening changes nothing: no row, no schema, no journal. A missing database is not created.


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOnlyStore:
    """An open database and its properties."""

    dialect: Dialect
    tx: Tx
    engine: str  # "SQLite 3.51.3 (apsw)", "PostgreSQL 17.2"
    applied: list[Applied]
    ahead: float = 0.0  # seconds that its clock is ahead of this host's
    refuses: str = ""  # the reason why writes are refused
    journal: str = ""  # SQLite only
    wal_is_safe: bool = True
    damage: Callable[[], list[str]] = list  # problems that SQLite finds; reads the whole file


@contextmanager
def open_read_only(url: str, now: Callable[[], float], driver: str | None = None) -> Iterator[ReadOnlyStore]:
    """Opens a database without changing it.

    Raises StoreBusy if it cannot be reached, StoreError if it is not a database.
    """
    path = file_of(url)
    with _postgres(url, now) if path is None else _sqlite(path, now, driver) as store:
        yield store


@contextmanager
def _sqlite(path: str, now: Callable[[], float], driver: str | None) -> Iterator[ReadOnlyStore]:
    sqlite_files.require(path)
    library = sqlite.take(path, driver)
    try:
        connection = _opened(path, library)
        try:
            connection.execute("begin")
            tables = connection.execute("select 1 from sqlite_master where name = 'tg_migration'")
            tx = SqliteTx(connection.execute, StatementRegistry(core_statements(Dialect.SQLITE)), now())
            yield ReadOnlyStore(
                dialect=Dialect.SQLITE,
                tx=tx,
                engine=f"SQLite {'.'.join(map(str, version(library)))} ({library})",
                applied=tx.query_as(Applied, "migrations") if tables else [],
                refuses=sqlite_files.refusal(Path(path)),
                journal="wal" if in_wal(path) else str(driver_scalar(connection, "pragma journal_mode")),
                wal_is_safe=wal_is_safe(library),
                damage=lambda: _damage(connection),
            )
        finally:
            connection.close()
    finally:
        sqlite.leave(path)


def _damage(connection: Driver) -> list[str]:
    problems = [str(problem) for (problem,) in connection.execute("pragma quick_check(5)")]
    return [] if problems == ["ok"] else problems


def _opened(path: str, library: str) -> Driver:
    try:
        return connect_to_look(path, library)
    except OSError as error:
        raise StoreError(f"it may not be read ({(error.strerror or type(error).__name__).lower()})") from error


@contextmanager
def _postgres(url: str, now: Callable[[], float]) -> Iterator[ReadOnlyStore]:
    try:
        from tidegate.store.postgres import PostgresTx
        from tidegate.store.postgres_url import PostgresAddress
    except ImportError as error:
        raise StoreError("PostgreSQL needs psycopg: pip install 'tidegate[postgres]'") from error
    address = PostgresAddress.of(url)
    with address.connect() as connection:
        connection.execute("begin read only")
        if address.pooled:
            connection.execute(address.opening)
        tables = _one(connection, "select to_regclass('tg_migration') is not null")
        tx = PostgresTx(connection, StatementRegistry(core_statements(Dialect.POSTGRES)), None)
        asked_at = now()
        theirs = float(_one(connection, "select extract(epoch from clock_timestamp())"))
        yield ReadOnlyStore(
            dialect=Dialect.POSTGRES,
            tx=tx,
            engine=f"PostgreSQL {_one(connection, 'show server_version')}",
            applied=tx.query_as(Applied, "migrations") if tables else [],
            ahead=theirs - (asked_at + now()) / 2,
            refuses=_refuses_writes(connection, has_tables=tables),
        )
        connection.execute("rollback")


def _refuses_writes(connection: Any, *, has_tables: bool) -> str:
    if _one(connection, "select pg_is_in_recovery()"):
        return "the server is a replica"
    if _one(connection, "show default_transaction_read_only") == "on":
        return "the server only lets this user read"
    if has_tables and not _one(connection, "select has_table_privilege('tg_job', 'insert, update, delete')"):
        return "this user may not write to the table tg_job"
    return ""


def _one(connection: Any, sql: str) -> Any:
    return connection.execute(sql).fetchone()[0]


# -- changes of other processes ----------------------------------------------------------------------------------------

_log = logging.getLogger("tidegate.store")
Watch = Callable[[Callable[[], None], threading.Event], None]

_POLL_INTERVAL = 0.02  # seconds between reads of SQLite's data version, a few microseconds each


def watcher(store: Store) -> Watch | None:
    """Returns a function that blocks until stopped and calls back whenever another process wrote.

    Returns None where the database cannot notify, as through a pooler. Workers then poll.
    """
    if isinstance(store, SqliteStore):
        return lambda woken, stop: _watch_sqlite(store, woken, stop)
    listen = getattr(store, "listen", None)
    return None if listen is None else listen


def _watch_sqlite(store: SqliteStore, woken: Callable[[], None], stop: threading.Event) -> None:
    last = None
    while not stop.wait(_POLL_INTERVAL):
        try:
            version = store.data_version()
        except StoreError:
            _log.debug("data_version_unreadable")
            continue
        if version != last:
            last = version
            woken()
