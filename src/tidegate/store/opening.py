"""The one place that picks a database."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from urllib.parse import unquote

from tidegate.errors import StoreError
from tidegate.store.dialect import Dialect, Statement, statements
from tidegate.store.sqlite import SqliteStore
from tidegate.store.tx import Store


def core_statements(dialect: Dialect) -> list[Statement]:
    return list(statements((files("tidegate.store") / "statements.sql").read_text(encoding="utf-8"), dialect))


def open_store(url: str, *, now: Callable[[], float], driver: str | None = None, virtual: bool = False) -> Store:
    """The store of a URL: `sqlite:///jobs.db` or `postgresql://...`; *virtual*: *now* is also the server's clock."""
    scheme, _, rest = url.partition("://")
    if scheme == "sqlite":
        path = unquote(rest.removeprefix("/"))
        if not rest.startswith("/") or not path or path == ":memory:" or "?" in rest or path.endswith("/"):
            raise ValueError(f"url: {url!r} names no file; give sqlite:///jobs.db, or sqlite:////an/absolute/path.db")
        return SqliteStore(path, core_statements(Dialect.SQLITE), now, driver)
    if scheme in ("postgresql", "postgres"):
        if driver is not None:
            raise ValueError(f"driver: {driver!r} is for SQLite only")
        try:
            from tidegate.store.postgres import PostgresStore
        except ImportError as error:
            raise StoreError("PostgreSQL needs psycopg: pip install 'tidegate[postgres]'") from error
        return PostgresStore(url, core_statements(Dialect.POSTGRES), now if virtual else None)
    # Not the whole of it: there may be a password in what follows.
    raise ValueError(f"url: {scheme[:20]!r} is not allowed; give sqlite:///jobs.db or postgresql://user@host/database")
