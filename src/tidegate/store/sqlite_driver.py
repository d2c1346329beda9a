"""The two SQLite libraries, apsw and sqlite3, behind one protocol.

Never open one file with both in one process: when one library closes the file, the other loses its locks.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from tidegate.errors import StoreBusy, StoreDamaged, StoreError, StoreFull, UniqueTaken
from tidegate.store.base import Params, Progress, Row

_MIN_VERSION = (3, 35, 0)  # supports RETURNING and UPDATE FROM
# In older versions two connections that write and checkpoint at once could corrupt a WAL database.
_WAL_IS_SAFE = (3, 51, 3)
_SWITCH_RETRY_SECONDS = 0.005  # seconds until a journal change that collided with another one is retried
_COPY_PAGES = 500  # about 2 MB between two progress reports of a copy
_COPY_TIMEOUT = 10  # seconds to wait for a locked target of a copy
# A read error or damage is permanent. A write error may pass when there is space again: for a full quota, or no space
# for the -shm file, SQLite only reports "disk I/O error".
_UNREADABLE = frozenset(sqlite3.SQLITE_IOERR | kind << 8 for kind in (1, 2, 32, 33))  # READ, SHORT_READ, DATA, a bad fs


class Driver(Protocol):
    """One connection."""

    raw: Any

    @property
    def in_transaction(self) -> bool: ...
    def execute(self, sql: str, params: Params | None = None) -> list[Row]: ...
    def close(self) -> None: ...
    def keep_log(self) -> None: ...
    def backup_to(self, path: str, progress: Progress) -> None: ...


def driver_scalar(connection: Driver, sql: str) -> Any:
    """Returns the first column of the first row."""
    value, *_ = connection.execute(sql)[0]
    return value


def library(driver: str | None) -> str:
    """Returns 'apsw' or 'sqlite3': the given one, or the newer installed one."""
    if driver in ("apsw", "sqlite3"):
        return driver
    if driver is not None:
        raise ValueError(f"driver: {driver!r} is not allowed; give 'apsw' or 'sqlite3'")
    try:
        import apsw  # noqa: F401 - is it installed?
    except ImportError:
        return "sqlite3"
    return "apsw"


def make_private(path: str) -> None:
    """Creates an empty file, if there is none, that others cannot read. The umask decides about the group."""
    with contextlib.suppress(OSError):  # it exists, or opening it reports the reason
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o660))


def connect(path: str, driver: str, patience: float = 10.0) -> Driver:
    """Connects to an existing file. Waits *patience* seconds for other processes. See `make_private`."""
    connection: Driver = ApswDriver(path) if driver == "apsw" else StdlibDriver(path)
    try:
        _set_up(connection, driver, patience)
    except BaseException:
        connection.close()
        raise
    return connection


def connect_to_look(path: str, driver: str, patience: float = 2.0) -> Driver:
    """Connects without changing anything: no row, no journal mode, no additional file."""
    # A process that opens a WAL database creates a -wal file. Without one it is not open, and reads need no lock.
    alone = in_wal(path) and not Path(f"{path}-wal").exists()
    where = f"file:{quote(str(Path(path).absolute()))}?mode=ro{'&immutable=1' if alone else ''}"
    connection: Driver = ApswDriver(where, read_only=True) if driver == "apsw" else StdlibDriver(where, read_only=True)
    try:
        connection.execute(f"pragma busy_timeout = {round(patience * 1000)}")
        connection.execute("pragma query_only = on")
    except BaseException:
        connection.close()
        raise
    return connection


def in_wal(path: str) -> bool:
    """Whether the header of the file says that its journal is a WAL."""
    with Path(path).open("rb") as file:
        return file.read(20)[18:] == b"\x02\x02"


def version(driver: str) -> tuple[int, ...]:
    if driver == "apsw":
        import apsw

        return tuple(int(part) for part in apsw.sqlite_lib_version().split("."))
    return sqlite3.sqlite_version_info


def wal_is_safe(driver: str) -> bool:
    return version(driver) >= _WAL_IS_SAFE


def _set_up(connection: Driver, driver: str, patience: float) -> None:
    """Configures a connection: durable against power loss, and waiting for other processes."""
    if version(driver) < _MIN_VERSION:
        installed = ".".join(map(str, version(driver)))
        raise StoreError(f"SQLite {installed} is too old; install apsw: pip install 'tidegate[queue]'")
    connection.execute(f"pragma busy_timeout = {round(patience * 1000)}")
    journal = "wal" if wal_is_safe(driver) else "truncate"
    current = _set_journal(connection, journal, patience)
    if journal != "wal" and current == "wal":
        raise StoreBusy(
            "another process has the file open with a newer SQLite, which is not safe; use the same version"
        )
    for pragma in ("synchronous = full", "foreign_keys = on", "mmap_size = 0"):
        connection.execute(f"pragma {pragma}")


def _set_journal(connection: Driver, journal: str, patience: float) -> str:
    """Sets the journal mode and returns the actual one.

    If two processes open a new file at once, SQLite rejects one immediately, whatever its timeout is: both have read
    locks, and each would wait for the other.
    """
    until = time.monotonic() + patience
    while True:
        try:
            return str(driver_scalar(connection, f"pragma journal_mode = {journal}"))
        except StoreBusy as error:
            if "locked" not in str(error) or time.monotonic() >= until:
                raise
        time.sleep(_SWITCH_RETRY_SECONDS)


class ApswDriver:
    """apsw, with a recent SQLite."""

    def __init__(self, path: str, *, read_only: bool = False) -> None:
        import apsw

        self._apsw = apsw
        flags = (
            apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
            if read_only
            else apsw.SQLITE_OPEN_READWRITE  # without CREATE: a new empty database would hide a lost one
        )
        try:
            self.raw: Any = apsw.Connection(path, flags, statementcachesize=256)
        except apsw.Error as error:
            raise self._translated(error) from error
        # Otherwise SQLite plans a statement again whenever a bound value changes that it used for the plan. That takes
        # up to ten times as long as running it.
        self.raw.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        self._cursor = self.raw.cursor()  # shared: each result is fetched completely before the next statement

    @property
    def in_transaction(self) -> bool:
        return bool(self.raw.in_transaction)

    def execute(self, sql: str, params: Params | None = None) -> list[Row]:
        try:
            rows: list[Row] = self._cursor.execute(sql, params).fetchall()
            return rows
        except self._apsw.Error as error:
            raise self._translated(error) from error

    def close(self) -> None:
        self.raw.close()

    def keep_log(self) -> None:
        """Prevents a checkpoint on close."""
        self.raw.config(self._apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)

    def backup_to(self, path: str, progress: Progress) -> None:
        try:
            target = self._apsw.Connection(path)
            try:
                target.set_busy_timeout(_COPY_TIMEOUT * 1000)
                with target.backup("main", self.raw, "main") as copy:
                    while not copy.done:
                        copy.step(_COPY_PAGES)
                        progress(copy.page_count - copy.remaining, copy.page_count)
            finally:
                target.close()
        except self._apsw.Error as error:
            raise self._translated(error) from error

    def _translated(self, error: Exception) -> StoreError:
        apsw = self._apsw
        if isinstance(error, (apsw.BusyError, apsw.LockedError)):
            return StoreBusy(str(error))
        if isinstance(error, apsw.FullError):
            return StoreFull(str(error))
        if isinstance(error, apsw.IOError) and error.extendedresult not in _UNREADABLE:
            return StoreBusy(str(error))
        if isinstance(error, (apsw.CorruptError, apsw.NotADBError, apsw.IOError)):
            return StoreDamaged(str(error))
        if isinstance(error, apsw.ConstraintError) and "UNIQUE" in str(error):
            return UniqueTaken(str(error))
        return StoreError(str(error))


class StdlibDriver:
    """sqlite3 of the standard library, with the SQLite of the operating system."""

    def __init__(self, path: str, *, read_only: bool = False) -> None:
        where = path if read_only else f"file:{quote(str(Path(path).absolute()))}?mode=rw"
        try:
            self.raw = sqlite3.connect(
                where, isolation_level=None, check_same_thread=False, cached_statements=256, uri=True
            )
        except sqlite3.Error as error:
            raise _translated(error) from error

    @property
    def in_transaction(self) -> bool:
        return self.raw.in_transaction

    def execute(self, sql: str, params: Params | None = None) -> list[Row]:
        try:
            return self.raw.execute(sql, params or {}).fetchall()
        except sqlite3.Error as error:
            raise _translated(error) from error

    def close(self) -> None:
        self.raw.close()

    def keep_log(self) -> None:
        """Prevents a checkpoint on close, from Python 3.12 on."""
        set_option: Any = getattr(self.raw, "setconfig", None)
        if set_option is not None:
            set_option(sqlite3.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, True)  # type: ignore[attr-defined,unused-ignore]

    def backup_to(self, path: str, progress: Progress) -> None:
        try:
            target = sqlite3.connect(path, timeout=_COPY_TIMEOUT)
            try:
                self.raw.backup(
                    target, pages=_COPY_PAGES, progress=lambda _, left, total: progress(total - left, total)
                )
            finally:
                target.close()
        except sqlite3.Error as error:
            raise _translated(error) from error


def _translated(error: sqlite3.Error) -> StoreError:
    text = str(error)
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreBusy(text)
    if code == sqlite3.SQLITE_FULL:
        return StoreFull(text)
    if code == sqlite3.SQLITE_IOERR and error.sqlite_errorcode not in _UNREADABLE:
        return StoreBusy(text)
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_IOERR):
        return StoreDamaged(text)
    if isinstance(error, sqlite3.IntegrityError) and "UNIQUE" in text:
        return UniqueTaken(text)
    return StoreError(text)


def same_file(raw: Any, path: str) -> bool:
    """Whether a connection of the user has this file open."""
    rows = list(raw.execute("pragma database_list"))
    return any(name == "main" and file and Path(file).resolve() == Path(path).resolve() for _, name, file in rows)
