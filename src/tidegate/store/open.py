"""Opens a database by its URL: to work, to read only, or to wait for changes of other processes."""

from __future__ import annotations

import logging
import re
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
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
from tidegate.store.sqlite_driver import Driver, connect_to_look, in_wal, library, version, wal_is_safe

# The one place that picks a database.

_POOLED = "pooled=true"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")


@cache
def core_statements(dialect: Dialect) -> tuple[Statement, ...]:
    """Every statement of the core, from the files of `statements/`.

    Parameters are named; `:now` is a number on SQLite and may be null on PostgreSQL, where the server's clock then
    counts. Whatever is written under a lease names id, fence and state: no row means that it is lost.

    Where rows are named by their ids, the state stands as `state || ''`. PostgreSQL would else read all that are in
    that state, once for each id: it plans with the numbers of a while ago, when perhaps there were none.
    """
    return statements(core_text(), dialect)


def core_text() -> str:
    found = [each for each in (files("tidegate.store") / "statements").iterdir() if each.name.endswith(".sql")]
    return "\n".join(each.read_text(encoding="utf-8") for each in sorted(found, key=lambda each: each.name))


def check_url(url: object, driver: str | None = None) -> None:
    """TypeError or ValueError for a URL that names no database; nothing is opened."""
    if not isinstance(url, str):
        raise TypeError(f"url: {url!r:.60} is no text; give sqlite:///jobs.db or postgresql://user@host/database")
    _parts(url)
    if driver is not None and not url.startswith("sqlite:"):
        raise ValueError(f"driver: {driver!r} is for SQLite only")
    if driver is not None:
        library(driver)


def check_listen_url(listen_url: object, url: str | None = None) -> None:
    """TypeError or ValueError unless it, and *url* if given, are of PostgreSQL: no pooler passes notifications on."""
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
    """SQLite's file; None for another database."""
    return _parts(url)[1] or None


def open_store(
    url: str,
    *,
    now: Callable[[], float],
    driver: str | None = None,
    virtual: bool = False,
    listen_url: str | None = None,
) -> Store:
    """The store of a URL: `sqlite:///jobs.db` or `postgresql://...`; *virtual*: *now* is also the server's clock.

    *listen_url*: where to LISTEN, if not at *url*; see `check_listen_url`.
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
    """StoreMissing when another database belongs in this place, StoreDamaged when this one is known to be damaged."""
    sqlite_files.require_expected(path)
    store = SqliteStore(path, core_statements(Dialect.SQLITE), now, driver, durable=durable)
    try:
        marker = sqlite_files.read_marker(path)
        if marker is not None:
            sqlite_files.require_id(path, store.read(_id))
            if marker.damaged:
                store.require_undamaged()
                sqlite_files.write_marker(path, sqlite_files.Marker(marker.id))
    except BaseException:
        store.close()
        raise
    return store


def identify(store: Store) -> str:
    """The id of a database that is up to date, made at its first use; a marker beside SQLite's file says it, too."""
    rows = store.read(lambda tx: tx.query("store_value", {"name": "id"}))
    found = str(rows[0][0]) if rows else store.write(_made_id)
    if isinstance(store, SqliteStore) and sqlite_files.read_marker(store.path) != sqlite_files.Marker(found):
        sqlite_files.write_marker(store.path, sqlite_files.Marker(found))
    return found


def _made_id(tx: Tx) -> str:
    tx.query("store_put", {"name": "id", "value": uuid.uuid4().hex[:12]})
    return str(tx.query("store_value", {"name": "id"})[0][0])


def _id(tx: Tx) -> str | None:
    """None in a database without tables, too."""
    rows = tx.query("store_value", {"name": "id"}) if tx.query("has_migrations_sqlite") else []
    return str(rows[0][0]) if rows else None


def _parts(url: str) -> tuple[Dialect, str]:
    """The database that a URL is of, and SQLite's file."""
    scheme, _, rest = url.partition("://")
    if scheme == "sqlite":
        path = unquote(rest.removeprefix("/"))
        if not rest.startswith("/") or not path or path == ":memory:" or "?" in rest or path.endswith("/"):
            raise ValueError(f"url: {url!r} names no file; give sqlite:///jobs.db, or sqlite:////an/absolute/path.db")
        return Dialect.SQLITE, path
    if scheme in ("postgresql", "postgres"):
        return Dialect.POSTGRES, ""
    # Not the whole of it: there may be a password in what follows, or in all of it where the scheme was left out.
    shown = repr(scheme[:20]) if _SCHEME.fullmatch(scheme) else "it"
    raise ValueError(f"url: {shown} is not allowed; give sqlite:///jobs.db or postgresql://user@host/database")


# A database to look at. Nothing is changed: no row, no schema, no journal; one that is not there is not made.


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOnlyStore:
    """An open database, and what is known of it."""

    dialect: Dialect
    tx: Tx
    engine: str  # "SQLite 3.51.3 (apsw)", "PostgreSQL 17.2"
    applied: list[Applied]
    ahead: float = 0.0  # seconds by which its clock is ahead of ours
    refuses: str = ""  # why it cannot be written
    journal: str = ""  # SQLite's
    wal_is_safe: bool = True
    damage: Callable[[], list[str]] = list  # what SQLite finds wrong with its file; reads all of it


@contextmanager
def open_read_only(url: str, now: Callable[[], float], driver: str | None = None) -> Iterator[ReadOnlyStore]:
    """Opens a database for one look; StoreBusy when it cannot be reached, StoreError when it is none."""
    path = file_of(url)
    with _postgres(url, now) if path is None else _sqlite(path, now, driver) as found:
        yield found


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
                dialect=Dialect.SQLITE, tx=tx, engine=f"SQLite {'.'.join(map(str, version(library)))} ({library})",
                applied=[Applied(*row) for row in tx.query("migrations")] if tables else [],
                refuses=sqlite_files.refusal(Path(path)),
                journal="wal" if in_wal(path) else str(connection.execute("pragma journal_mode")[0][0]),
                wal_is_safe=wal_is_safe(library), damage=lambda: _damage(connection),
            )  # fmt: skip
        finally:
            connection.close()
    finally:
        sqlite.leave(path)


def _damage(connection: Driver) -> list[str]:
    found = [str(row[0]) for row in connection.execute("pragma quick_check(5)")]
    return [] if found == ["ok"] else found


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
        asked = now()
        theirs = float(_one(connection, "select extract(epoch from clock_timestamp())"))
        yield ReadOnlyStore(
            dialect=Dialect.POSTGRES, tx=tx, engine=f"PostgreSQL {_one(connection, 'show server_version')}",
            applied=[Applied(*row) for row in tx.query("migrations")] if tables else [],
            ahead=theirs - (asked + now()) / 2, refuses=_refuses_writes(connection, there=tables),
        )  # fmt: skip
        connection.execute("rollback")


def _refuses_writes(connection: Any, *, there: bool) -> str:
    if _one(connection, "select pg_is_in_recovery()"):
        return "the server is a replica"
    if _one(connection, "show default_transaction_read_only") == "on":
        return "the server only lets this user read"
    if there and not _one(connection, "select has_table_privilege('tg_job', 'insert, update, delete')"):
        return "this user may not write to the table tg_job"
    return ""


def _one(connection: Any, sql: str) -> Any:
    return connection.execute(sql).fetchone()[0]


# How one process learns that another has put something in.

_log = logging.getLogger("tidegate.store")
Watch = Callable[[Callable[[], None], threading.Event], None]

_POLL_INTERVAL = 0.02  # seconds between looks at SQLite's version number, each a few microseconds


def watcher(store: Store) -> Watch | None:
    """A function that blocks until it is stopped, and calls back whenever another process wrote something.

    None where the database cannot tell, as through a pooler: then workers poll.
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
