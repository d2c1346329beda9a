"""SQLite: one writer with group commit, and concurrent readers."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from tidegate.errors import StoreDamaged, StoreError
from tidegate.store import sqlite_files
from tidegate.store.base import Params, Progress, Row, StatementRegistry, Tx, unheard
from tidegate.store.clock import SteadyClock
from tidegate.store.group_commit import GroupCommit
from tidegate.store.sql import Dialect, Statement
from tidegate.store.sqlite_driver import Driver, connect, driver_scalar, library, make_private, same_file
from tidegate.store.sqlite_files import OpenFiles, lacks_pages, read_marker

# One SQLite library per file and process: when one of two libraries closes the file, the other loses its locks.

_lock = threading.Lock()
_open: dict[str, tuple[str, int]] = {}  # file -> library, number of stores that have it open


def take(path: str, driver: str | None) -> str:
    """Returns the library to open a file with: *driver*, or the one that already has it open.

    Raises StoreError if another library has it open. Every `take` needs a `leave`.
    """
    file = str(Path(path).resolve())
    with _lock:
        used, stores = _open.get(file, ("", 0))
        wanted = used if driver is None and used else library(driver)
        if used and wanted != used:
            raise StoreError(
                f"the file is open with {used} in this process, and a second library, {wanted}, would corrupt it; "
                f"give driver={used!r}"
            )
        _open[file] = (wanted, stores + 1)
        return wanted


def leave(path: str) -> None:
    file = str(Path(path).resolve())
    with _lock:
        used, stores = _open.get(file, ("", 0))
        if stores > 1:
            _open[file] = (used, stores - 1)
        else:
            _open.pop(file, None)


T = TypeVar("T")
Now = Callable[[], float]

_MAX_IDLE = 8
_READ_CACHE = 512  # kB of pages per reader; small, because writes invalidate it and the page cache has them too
_FORGOTTEN = 1000  # reads: a reader that was idle for this many is closed
_FORKED = "the store was opened before a fork; open it in the child, SQLite does not survive it"


class SqliteTx(Tx):
    """Runs statements on one connection. A `{rows}` statement runs once per row."""

    __slots__ = ("_registry", "_execute", "_now")

    def __init__(self, execute: Callable[[str, Params], list[Row]], registry: StatementRegistry, now: float) -> None:
        self._execute = execute
        self._registry = registry
        self._now = now

    def query(self, name: str, params: Params | None = None) -> list[Row]:
        return self._execute(self._registry[name].sql, {"now": self._now, **(params or {})})

    def query_many(self, name: str, rows: Sequence[Params], params: Params | None = None) -> list[Row]:
        sql = self._registry[name].sql
        if len(rows) == 1:
            return self._execute(sql, {"now": self._now, **(params or {}), **rows[0]})
        shared, results = {"now": self._now, **(params or {})}, list[Row]()
        for row in rows:
            results += self._execute(sql, {**shared, **row})
        return results

    def named(self, beginning: str) -> list[str]:
        return self._registry.beginning(beginning)

    def execute(self, sql: str) -> None:
        self._execute(sql, {})

    def lock_migrations(self) -> None:
        """Does nothing: the writer's lock excludes other migrators."""

    def others_write(self, table: str) -> bool:
        return False  # writers are serialized, so commits become visible in order


class SqliteStore:
    """A database in one file on a local disk."""

    dialect = Dialect.SQLITE
    keeps_time = False

    def __init__(
        self,
        path: str,
        statements: Iterable[Statement],
        now: Now,
        driver: str | None = None,
        *,
        durable: bool = True,
        patience: float = 10.0,
    ) -> None:
        self.url = f"sqlite:///{path}"
        path = os.path.abspath(path)  # noqa: PTH100 - the program may change its working directory
        sqlite_files.require(path)
        self.driver = take(path, driver)
        self.path, self._patience = path, patience  # seconds to wait for other processes
        self._clock = now
        self._steady: SteadyClock | None = None
        self._registry = StatementRegistry(statements)
        self.checks: set[Callable[[Tx], object]] = set()  # unused: an open file stays the same
        try:
            sqlite_files.require_writable(path)
            if read_marker(path) is None:
                make_private(path)
            self._files = OpenFiles.opened(path)
            self._writer = self._connect()
        except BaseException:
            leave(path)
            raise
        if not durable:  # virtual time: a simulated day has many commits, and none must survive a power cut
            self._writer.execute("pragma synchronous = off")
        self._combiner = GroupCommit(self._writer, self._require_files)
        self._reads = 0
        # Unused readers with the number of their last read, most recently used last.
        self._idle: list[tuple[Driver, int]] = []
        self._watching: Driver | None = None
        self._lock = threading.Lock()
        self._closed = False
        self._process = os.getpid()
        try:
            self._require_whole(self._writer)
        except BaseException:
            self.close()
            raise

    def write(self, work: Callable[[Tx], T]) -> T:
        self._require_same_process()
        self._require_files(acknowledging=False)
        try:
            return self._write_steadily(work)
        except StoreError as error:
            self._raise_file_error(error)
            raise

    def _write_steadily(self, work: Callable[[Tx], T]) -> T:
        steady = self._steady
        if steady is None:
            return self._combiner.run(lambda: work(SqliteTx(self._writer.execute, self._registry, self._clock())))
        before = steady.anchor
        try:
            return self._combiner.run(lambda: work(self._begun(self._writer, steady.now_for_writing)))
        except BaseException:
            steady.put_back(before)
            raise

    def _begun(self, connection: Driver, now: Callable[[Tx], float]) -> Tx:
        return SqliteTx(
            connection.execute, self._registry, now(SqliteTx(connection.execute, self._registry, self._clock()))
        )

    def read(self, work: Callable[[Tx], T]) -> T:
        with self._reader() as reader:
            reader.execute("begin")
            steady = self._steady
            now = steady.now_for_reading if steady is not None else lambda _: self._clock()
            result = work(self._begun(reader, now))
            reader.execute("commit")
            return result

    def join_transaction(self, connection: object) -> Tx:
        module = type(connection).__module__.partition(".")[0]
        if module != self.driver:
            if module not in ("apsw", "sqlite3"):
                raise TypeError(f"connection must be an open connection of {self.driver}, got a connection of {module}")
            raise TypeError(
                f"connection: it is of {module}, the queue uses {self.driver}; two libraries on one file corrupt it, so"
                f" give Queue(driver={module!r})"
            )
        self._require_files(acknowledging=False)
        if not same_file(connection, self.path):
            raise ValueError(
                "connection: it is open on another file than the queue; connect it to the file of the queue"
            )
        user: Any = connection
        return SqliteTx(lambda sql, params: list(user.execute(sql, params)), self._registry, self._clock())

    def add(self, statements: Iterable[Statement]) -> None:
        self._registry.add(statements)

    def now(self) -> float:
        return self._clock()

    def keep_steady(self, clock: SteadyClock) -> None:
        clock.keep_in_store()
        self._steady, self._clock = clock, clock.now

    def check_clock(self, tx: Tx) -> bool:
        if self._steady is not None:
            self._steady.check(tx)
        return True

    def older_than(self, age: float, now: float) -> float:
        return now - age if self._steady is None else self._steady.older_than(age)

    def announce(self) -> None:
        """Does nothing: other processes poll `data_version`."""

    def data_version(self) -> int:
        """Returns a number that changes whenever another connection has written."""
        with self._lock:  # numbers are only comparable on one connection
            if self._closed:
                raise StoreError("the store is closed")
            if self._watching is None:
                self._watching = self._connect()
            return int(driver_scalar(self._watching, "pragma data_version"))

    def backup(self, path: str, progress: Progress = unheard) -> None:
        """Writes a consistent copy during concurrent writes. *progress* counts pages. If it raises, the copy ends."""
        with self._reader() as reader:
            # One snapshot for all steps of the copy. Otherwise each write of another connection would restart it.
            reader.execute("begin")
            reader.execute("pragma schema_version")
            reader.backup_to(path, progress)
            reader.execute("commit")

    def check(self) -> list[str]:
        """Returns the problems that SQLite finds in the file. Empty if it is intact."""
        try:
            with self._reader() as reader:
                problems = [str(problem) for (problem,) in reader.execute("pragma integrity_check")]
        except StoreDamaged as error:
            return [str(error)]
        return [] if problems == ["ok"] else problems

    def require_undamaged(self) -> None:
        """Raises StoreDamaged if SQLite finds a problem. Reads the whole file."""
        problems = self.check()
        if problems:
            raise self._files.is_damaged(problems[0])

    def close(self) -> None:
        """Waits for the current write. Later calls raise."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            readers = [*(reader for reader, _ in self._idle), *([] if self._watching is None else [self._watching])]
            self._idle.clear()
        for reader in readers:
            reader.close()
        with contextlib.suppress(StoreError):  # another process holds the file, so this one has no open write
            self._combiner.close()
        if self._files.damaged:  # a checkpoint into a truncated file would hide the missing pages
            self._writer.keep_log()
        self._writer.close()
        leave(self.path)

    @contextlib.contextmanager
    def _reader(self) -> Iterator[Driver]:
        """Yields a connection for one read. A few stay open for reuse."""
        self._require_same_process()
        self._require_files(acknowledging=False)
        with self._lock:
            if self._closed:
                raise StoreError("the store is closed")
            reader = self._idle.pop()[0] if self._idle else None
        if reader is None:
            reader = self._connect()
            reader.execute(f"pragma cache_size = -{_READ_CACHE}")
        try:
            yield reader
        except BaseException as error:
            reader.close()  # and roll back its open transaction
            if isinstance(error, StoreError):
                self._raise_file_error(error)
            raise
        for idle in self._release_reader(reader):
            idle.close()

    def _release_reader(self, reader: Driver) -> list[Driver]:
        """Keeps a reader for the next read. Returns the readers to close."""
        with self._lock:
            if self._closed:
                return [reader]
            self._reads += 1
            self._idle.append((reader, self._reads))
            oldest, last = self._idle[0]
            if len(self._idle) <= _MAX_IDLE and self._reads - last < _FORGOTTEN:
                return []
            del self._idle[0]
            return [oldest]

    def _connect(self) -> Driver:
        try:
            return connect(self.path, self.driver, self._patience)
        except StoreDamaged as error:
            raise self._files.is_damaged(str(error)) from error

    def _require_files(self, *, acknowledging: bool = True) -> None:
        """Raises StoreMissing or StoreDamaged unless the files are the opened ones and complete."""
        if self._files.check() if acknowledging else self._files.check_often():
            with contextlib.closing(self._connect()) as probe:
                self._require_whole(probe)

    def _raise_file_error(self, error: StoreError) -> None:
        """Raises the file problem that explains *error*, if there is one."""
        self._require_files()
        if isinstance(error, StoreDamaged):
            raise self._files.is_damaged(str(error)) from error

    def _require_whole(self, probe: Driver) -> None:
        """Raises StoreDamaged if the file is shorter than its database. A restored copy may shrink the database."""
        for _ in range(2):  # a concurrent change of another process is not damage
            pages = int(driver_scalar(probe, "pragma page_count"))
            size = int(driver_scalar(probe, "pragma page_size"))
            try:
                if not pages or not lacks_pages(self.path, pages, size):
                    self._files.accept_size()
                    return
            except FileNotFoundError as error:  # removed since the last check
                raise self._files.is_missing() from error
        raise self._files.is_damaged("it was cut: pages are missing at its end")

    def _require_same_process(self) -> None:
        if os.getpid() != self._process:
            raise StoreError(_FORKED)
