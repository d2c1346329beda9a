"""A database to look at. Nothing is changed: no row, no schema, no journal; one that is not there is not made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate.errors import StoreError
from tidegate.store import local_disk, one_library
from tidegate.store.dialect import Dialect
from tidegate.store.migrate import Applied
from tidegate.store.opening import core_statements, file_of
from tidegate.store.sqlite import SqliteTx
from tidegate.store.sqlite_driver import Driver, connect_to_look, in_wal, version, wal_is_safe
from tidegate.store.tx import StatementRegistry, Tx


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
    local_disk.require(path)
    library = one_library.take(path, driver)
    try:
        connection = _opened(path, library)
        try:
            connection.execute("begin")
            tables = connection.execute("select 1 from sqlite_master where name = 'tg_migration'")
            tx = SqliteTx(connection.execute, StatementRegistry(core_statements(Dialect.SQLITE)), now())
            yield ReadOnlyStore(
                dialect=Dialect.SQLITE, tx=tx, engine=f"SQLite {'.'.join(map(str, version(library)))} ({library})",
                applied=[Applied(*row) for row in tx.query("migrations")] if tables else [],
                refuses=local_disk.refusal(Path(path)),
                journal="wal" if in_wal(path) else str(connection.execute("pragma journal_mode")[0][0]),
                wal_is_safe=wal_is_safe(library), damage=lambda: _damage(connection),
            )  # fmt: skip
        finally:
            connection.close()
    finally:
        one_library.leave(path)


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
