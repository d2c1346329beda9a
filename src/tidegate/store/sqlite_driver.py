"""The two SQLite libraries behind one small face, and what each is safe for.

Never both on one file in one process: closing a file of one drops the locks of the other.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from tidegate.errors import StoreBusy, StoreDamaged, StoreError, StoreFull, UniqueTaken
from tidegate.store.base import Progress

Row = tuple[Any, ...]

_OLDEST = (3, 35, 0)  # knows RETURNING and UPDATE FROM
# Before it, two connections that write and checkpoint at once could corrupt a WAL database.
_WAL_IS_SAFE = (3, 51, 3)
_SWITCH_AGAIN = 0.005  # seconds until the change of a journal that met another one is tried again
_COPY_PAGES = 500  # about 2 MB: what a copy does between two words about itself
_COPY_PATIENCE = 10  # seconds that others may hold the file that is copied to
# What cannot be read, or is damaged, is so for good. What cannot be written may be, when there is room again: of a full
# quota, or of no room for the -shm, SQLite says "disk I/O error" and no more.
_UNREADABLE = frozenset(sqlite3.SQLITE_IOERR | kind << 8 for kind in (1, 2, 32, 33))  # READ, SHORT_READ, DATA, a bad fs


class Driver(Protocol):
    """One connection."""

    raw: Any

    @property
    def in_transaction(self) -> bool: ...
    def execute(self, sql: str, params: Mapping[str, Any] | None = None) -> list[Row]: ...
    def close(self) -> None: ...
    def keep_log(self) -> None: ...
    def backup_to(self, path: str, progress: Progress) -> None: ...


def library(driver: str | None) -> str:
    """'apsw' or 'sqlite3': what was asked for, else the newer one that is installed."""
    if driver in ("apsw", "sqlite3"):
        return driver
    if driver is not None:
        raise ValueError(f"driver: {driver!r} is not allowed; give 'apsw' or 'sqlite3'")
    try:
        import apsw  # noqa: F401 - is it there?
    except ImportError:
        return "sqlite3"
    return "apsw"


def make_private(path: str) -> None:
    """An empty file where there is none, which is not for everybody; the umask decides about the group."""
    with contextlib.suppress(OSError):  # it is there, or whoever opens it says why it cannot be
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o660))


def connect(path: str, driver: str, patience: float = 10.0) -> Driver:
    """A connection that waits so many seconds for other processes. The file must be there: see `make_private`."""
    connection: Driver = ApswDriver(path) if driver == "apsw" else StdlibDriver(path)
    try:
        _set_up(connection, driver, patience)
    except BaseException:
        connection.close()
        raise
    return connection


def connect_to_look(path: str, driver: str, patience: float = 2.0) -> Driver:
    """A connection that changes nothing: not a row, not the journal mode, and no file beside the database."""
    # Who opens a WAL database leaves a -wal beside it. Without one nobody has it open, and no lock is needed to read.
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
    """Whether the file says that its journal is a WAL."""
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
    """What every connection needs: durable against power loss, patient with other processes."""
    if version(driver) < _OLDEST:
        found = ".".join(map(str, version(driver)))
        raise StoreError(f"SQLite {found} is too old; install apsw: pip install 'tidegate[queue]'")
    connection.execute(f"pragma busy_timeout = {round(patience * 1000)}")
    journal = "wal" if wal_is_safe(driver) else "truncate"
    found = _switched(connection, journal, patience)
    if journal != "wal" and found == "wal":
        raise StoreBusy("another process has the file open with a newer SQLite; this one is not safe beside it")
    for pragma in ("synchronous = full", "foreign_keys = on", "mmap_size = 0"):
        connection.execute(f"pragma {pragma}")


def _switched(connection: Driver, journal: str, patience: float) -> str:
    """The journal that the file has now.

    Where two open a new file at once, SQLite refuses one of them at once, however patient it was told to be: both read
    already, and each would wait for the other.
    """
    until = time.monotonic() + patience
    while True:
        try:
            return str(connection.execute(f"pragma journal_mode = {journal}")[0][0])
        except StoreBusy as error:
            if "locked" not in str(error) or time.monotonic() >= until:
                raise
        time.sleep(_SWITCH_AGAIN)


class ApswDriver:
    """apsw, whose SQLite is new."""

    def __init__(self, path: str, *, read_only: bool = False) -> None:
        import apsw

        self._apsw = apsw
        flags = (
            apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
            if read_only
            else apsw.SQLITE_OPEN_READWRITE  # and not CREATE: an empty database in the place of a lost one hides that
        )
        try:
            self.raw: Any = apsw.Connection(path, flags, statementcachesize=256)
        except apsw.Error as error:
            raise self._translated(error) from error
        # Else SQLite plans a statement anew whenever a value is bound that it once looked at to plan it, which takes
        # up to ten times as long as to run it.
        self.raw.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        self._cursor = self.raw.cursor()  # the same for all statements: each is read to its end before the next

    @property
    def in_transaction(self) -> bool:
        return bool(self.raw.in_transaction)

    def execute(self, sql: str, params: Mapping[str, Any] | None = None) -> list[Row]:
        try:
            found: list[Row] = self._cursor.execute(sql, params).fetchall()
            return found
        except self._apsw.Error as error:
            raise self._translated(error) from error

    def close(self) -> None:
        self.raw.close()

    def keep_log(self) -> None:
        """Closing writes nothing into the database file."""
        self.raw.config(self._apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)

    def backup_to(self, path: str, progress: Progress) -> None:
        try:
            target = self._apsw.Connection(path)
            try:
                target.set_busy_timeout(_COPY_PATIENCE * 1000)
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
    """The standard library's sqlite3, as old as the machine's."""

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

    def execute(self, sql: str, params: Mapping[str, Any] | None = None) -> list[Row]:
        try:
            return self.raw.execute(sql, params or {}).fetchall()
        except sqlite3.Error as error:
            raise _translated(error) from error

    def close(self) -> None:
        self.raw.close()

    def keep_log(self) -> None:
        """Closing writes nothing into the database file; before Python 3.12 it cannot be told so."""
        set_option: Any = getattr(self.raw, "setconfig", None)
        if set_option is not None:
            set_option(sqlite3.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, True)  # type: ignore[attr-defined,unused-ignore]

    def backup_to(self, path: str, progress: Progress) -> None:
        try:
            target = sqlite3.connect(path, timeout=_COPY_PATIENCE)
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
    """Whether a connection of the user's is open on this very file."""
    rows = list(raw.execute("pragma database_list"))
    return any(name == "main" and file and Path(file).resolve() == Path(path).resolve() for _, name, file in rows)
