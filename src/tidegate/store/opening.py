"""The one place that picks a database."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from urllib.parse import unquote

from tidegate.errors import StoreError
from tidegate.store import sqlite_files
from tidegate.store.dialect import Dialect, Statement, statements
from tidegate.store.sqlite import SqliteStore
from tidegate.store.sqlite_driver import library
from tidegate.store.tx import Store, Tx

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
