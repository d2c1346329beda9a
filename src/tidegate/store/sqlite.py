"""SQLite: one writer at a time, group commit, readers beside it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from tidegate.errors import StoreError
from tidegate.store import local_disk
from tidegate.store.combine import Combiner
from tidegate.store.dialect import Dialect, Statement
from tidegate.store.sqlite_driver import Driver, connect, library, same_file
from tidegate.store.tx import Book, Params, Row, Tx

T = TypeVar("T")
Now = Callable[[], float]


class SqliteTx:
    """Runs statements on one connection; a `{rows}` statement runs once for each row."""

    __slots__ = ("_book", "_execute", "_now")

    def __init__(self, execute: Callable[[str, Params], list[Row]], book: Book, now: float) -> None:
        self._execute = execute
        self._book = book
        self._now = now

    def all(self, name: str, params: Params | None = None) -> list[Row]:
        return self._execute(self._book[name].sql, {"now": self._now, **(params or {})})

    def many(self, name: str, rows: Sequence[Params], params: Params | None = None) -> list[Row]:
        sql, shared, found = self._book[name].sql, {"now": self._now, **(params or {})}, list[Row]()
        for row in rows:
            found += self._execute(sql, {**shared, **row})
        return found

    def plain(self, sql: str) -> None:
        self._execute(sql, {})

    def one_migrator(self) -> None:
        """The writer's lock is enough."""


class SqliteStore:
    """A database in one file on a local disk."""

    dialect = Dialect.SQLITE

    def __init__(self, path: str, statements: Iterable[Statement], now: Now, driver: str | None = None) -> None:
        local_disk.require(path)
        self.url = f"sqlite:///{path}"
        self.driver = library(driver)
        self._path = path
        self._clock = now
        self._book = Book(statements)
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        self._writer = connect(path, self.driver)
        self._combiner = Combiner(self._writer.execute)
        self._readers = threading.local()
        self._opened: list[Driver] = []
        self._lock = threading.Lock()
        self._closed = False

    def write(self, work: Callable[[Tx], T]) -> T:
        return self._combiner.run(lambda: work(SqliteTx(self._writer.execute, self._book, self._clock())))

    def read(self, work: Callable[[Tx], T]) -> T:
        reader = self._reader()
        reader.execute("begin")
        try:
            return work(SqliteTx(reader.execute, self._book, self._clock()))
        finally:
            reader.execute("commit")

    def on(self, connection: Any) -> Tx:
        module = type(connection).__module__.partition(".")[0]
        if module != self.driver:
            raise TypeError(
                f"connection: it is of {module}, the queue uses {self.driver}; two libraries on one file corrupt it"
            )
        if not same_file(connection, self._path):
            raise ValueError("connection: it is open on another file than the queue")
        return SqliteTx(lambda sql, params: list(connection.execute(sql, params)), self._book, self._clock())

    def add(self, statements: Iterable[Statement]) -> None:
        self._book.add(statements)

    def now(self) -> float:
        return self._clock()

    def data_version(self) -> int:
        """Changes whenever another connection has written."""
        return int(self._reader().execute("pragma data_version")[0][0])

    def backup(self, path: str) -> None:
        """A consistent copy while others write."""
        self._reader().backup_to(path)

    def check(self) -> list[str]:
        """What SQLite itself finds wrong with the file; empty when all is well."""
        found = [str(row[0]) for row in self._reader().execute("pragma integrity_check")]
        return [] if found == ["ok"] else found

    def close(self) -> None:
        with self._lock:
            self._closed = True
            for reader in self._opened:
                reader.close()
            self._opened.clear()
            self._writer.close()

    def _reader(self) -> Driver:
        found: Driver | None = getattr(self._readers, "connection", None)
        if found is None:
            with self._lock:
                if self._closed:
                    raise StoreError("the store is closed")
                found = connect(self._path, self.driver)
                self._opened.append(found)
            self._readers.connection = found
        return found
