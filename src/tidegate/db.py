"""The tables and named statements of an application, in the database of the jobs."""

from __future__ import annotations

import asyncio
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeVar

from tidegate import audit, outbox
from tidegate.events import Notice
from tidegate.store.base import BoundStatement, Params, Row, Store, Tx, rows_as, scalar_of
from tidegate.store.clock_steps import SHIFTS, is_behind
from tidegate.store.migrate import Migration, migrate, migrations_in
from tidegate.store.sql import Dialect, bodies, statements

# -- rules for an application's SQL ----------------------------------------------------------------------------------
# It may create and change only tables whose names begin with the application's name.

_TEXT = re.compile(r"'(?:[^']|'')*'")
_COMMENT = re.compile(r"--[^\n]*")
_CHANGED = re.compile(
    r"\b(?:(?:create|drop)\s+(?:unique\s+|temp\s+|temporary\s+)*(?:table|index|view|trigger)\s+(?:if\s+(?:not\s+)?exists\s+)?"
    r"|alter\s+(?:table|index)\s+(?:if\s+exists\s+)?"
    r"|(?:insert|replace)\s+(?:or\s+\w+\s+)?into\s+|delete\s+from\s+"
    r"|(?<!do\s)(?<!for\s)(?<!key\s)update\s+(?:or\s+\w+\s+)?(?!of\b|skip\b|set\b))"
    r'"?([a-z_][a-z0-9_.]*)',
    re.IGNORECASE,
)
_WRITES = re.compile(
    r"\b(insert|update|delete|replace|create|drop|alter)\b|\{(for_update|skip_locked|not_removed)\}", re.IGNORECASE
)
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_][a-z0-9_]*)")
_COLUMNS = re.compile(r"\{rows ([^{}]*)\}")
_PLAIN = (int, float, str, bytes, type(None))
_TYPES = frozenset(_PLAIN)


@lru_cache(4096)  # an application is installed once for each queue
def parameters_of(body: str) -> frozenset[str]:
    """The parameters of a statement, without `:now`, which the store supplies."""
    bare = _bare(body)
    columns = [part.split()[0] for spec in _COLUMNS.findall(bare) for part in spec.split(",") if part.split()]
    return frozenset({*_PARAMETER.findall(_COLUMNS.sub("", bare)), *columns}) - {"now"}


@lru_cache(4096)
def writes(body: str) -> bool:
    """Whether a statement changes or locks rows."""
    return _WRITES.search(_bare(body)) is not None


def check_statement(app: str, name: str, body: str) -> None:
    _own(app, f"statement {name!r}", body)


def check_migration(app: str, migration: Migration) -> None:
    _own(app, f"migration {migration.number:04}_{migration.name}", migration.text)


def check_values(name: str, needed: AbstractSet[str], given: Params) -> None:
    if given.keys() == needed and _TYPES.issuperset(map(type, given.values())):
        return  # the fast path, for batches of a thousand rows
    unknown = sorted(given.keys() - needed)
    if unknown:
        raise TypeError(f"{name}: unknown parameter {unknown[0]!r}; it has {', '.join(sorted(needed)) or 'none'}")
    missing = sorted(needed - given.keys())
    if missing:
        raise TypeError(f"{name}: the parameter {missing[0]!r} is missing; add it")
    for key, value in given.items():
        # SQLite and PostgreSQL differ on all other types: a bool is a number only in SQLite.
        if isinstance(value, bool) or not isinstance(value, _PLAIN):
            raise TypeError(f"{name}: {key}={value!r:.60} is not a plain value; give a number, a text, bytes or None")


@lru_cache(4096)
def _own(app: str, what: str, sql: str) -> None:
    for table in _CHANGED.findall(_bare(sql)):
        if not table.lower().startswith(f"{app}_"):
            raise ValueError(
                f"{what}: {table!r} is not of {app}; the names of its tables and indexes begin with {app}_"
            )


def _bare(sql: str) -> str:
    """SQL without string literals and comments."""
    return _COMMENT.sub("", _TEXT.sub("''", sql))


T = TypeVar("T")
R = TypeVar("R")
Source = str | Path | Traversable

_APP = re.compile(r"(?!tg_|pg_|sqlite_)[a-z][a-z0-9_]{1,29}")
_TAKEN = ("tg", "tidegate", "pg", "sqlite", "information_schema")


class RowReader(ABC):
    """Reads the rows of an application's statements as values."""

    __slots__ = ()

    @abstractmethod
    def all(self, name: str, /, **params: object) -> list[Row]:
        """The rows of a statement."""

    def one(self, name: str, /, **params: object) -> Row | None:
        """The first row of a statement; None when there is none."""
        return next(iter(self.all(name, **params)), None)

    def query_as(self, row: type[R], name: str, /, **params: object) -> list[R]:
        """The rows of a statement as values of *row*: a NamedTuple or a dataclass with a field per column."""
        return rows_as(row, name, self.all(name, **params))

    def first(self, row: type[R], name: str, /, **params: object) -> R | None:
        """The first row of a statement as a value of *row*; None when there is none."""
        return next(iter(self.query_as(row, name, **params)), None)

    def scalar(self, kind: Callable[[Any], T], name: str, /, **params: object) -> T:
        """The first column of the first row, converted by *kind*: `db.scalar(int, "count_files", owner=7)`."""
        return kind(self.all(name, **params)[0][0])

    def scalar_or_none(self, kind: Callable[[Any], T], name: str, /, **params: object) -> T | None:
        """As `scalar`; None without a row or a value."""
        return scalar_of(kind, self.all(name, **params))

    def scalars(self, kind: Callable[[Any], T], name: str, /, **params: object) -> list[T]:
        """The first column of every row, converted by *kind*."""
        return [kind(value) for value, *_ in self.all(name, **params)]


class DbTx(RowReader):
    """An open transaction of an application. Pass it as `connection=` to enqueue a job in the same transaction."""

    __slots__ = ("_db", "took_in", "tx")

    def __init__(self, db: Db, tx: Tx) -> None:
        self._db = db
        self.tx = tx
        self.took_in = False  # a job was inserted or changed in it

    def all(self, name: str, /, **params: object) -> list[Row]:
        """The rows of a statement."""
        return self.run(self._db.bind(name, **params))

    def run(self, bound: BoundStatement) -> list[Row]:
        """The rows of a bound statement; see `Db.bind`. It may belong to another application."""
        return self.tx.query(bound.name, bound.params)

    def many(self, name: str, rows: Sequence[Params], /, **params: object) -> list[Row]:
        """Runs one statement over a table of parameters (`{rows ...}`)."""
        for row in rows:
            self._db.check(name, {**params, **row} if params else row)
        return self.tx.query_many(self._db.full_name(name), list(rows), params)

    def many_as(self, row: type[R], name: str, rows: Sequence[Params], /, **params: object) -> list[R]:
        """As `many`, with the rows as values of *row*."""
        return rows_as(row, name, self.many(name, rows, **params))

    def tell(self, notice: Notice) -> bool:
        """Records a notice in this transaction. Returns False when it is a duplicate.

        A notice of the kind `recovered` resolves the open notices of its key, and is sent only if there was one.
        """
        lane = "" if notice.key is None else str(notice.key)
        return outbox.record_target_notice(self.tx, outbox.of_target(notice, lane)) is not None

    def settled(self, target: str, key: object) -> None:
        """Resolves the open notices of a key after a user has fixed it."""
        outbox.acknowledge_recovered(self.tx, target, str(key))

    def noted(
        self,
        by: str,
        action: str,
        target: str,
        key: object = None,
        *,
        was: Mapping[str, object] | None = None,
        became: Mapping[str, object] | None = None,
    ) -> None:
        """Appends an audit entry in this transaction. The page Activity shows it.

        *by*: the user, as `current_user` or a command's `me` returns it. *action*: for example `target_paused`.
        """
        place = audit.AuditSubject(subject="target", name=target, lane=None if key is None else str(key))
        audit.append_entry(self.tx, by, action, place, was=was, became=became)


class Db(RowReader):
    """The named statements and migrations of one application.

    db = q.db("convert", package="tidegate_apps.convert")       # its statements.sql, its migrations/0001_....sql
    files = db.query_as(FileRow, "files_of", owner=7)
    return Done(result, writes=[db.bind("set_result", id=7, path="a.xml")])
    """

    def __init__(
        self,
        store: Store | Callable[[], Store],
        app: str,
        package: str | None = None,
        *,
        statements: Source | None = None,
        migrations: Source | None = None,
        written: Callable[[], None] | None = None,
    ) -> None:
        """*statements*: a file or its text. *migrations*: a folder. Both default to those of *package*.

        If *store* is a function, the first use opens the database. Raises ValueError when a statement or migration
        changes a table whose name does not begin with the application's name.
        """
        self.app = _checked_name(app)
        home = None if package is None else files(package)
        self._text = _text(statements if statements is not None or home is None else home / "statements.sql")
        folder = migrations if migrations is not None or home is None else _if_there(home / "migrations")
        self.migrations: list[Migration] = [] if folder is None else migrations_in(_folder(folder), app)
        self._bodies = bodies(self._text)
        self._parameters = {name: parameters_of(body) for name, body in self._bodies.items()}
        self._check()
        self._written = written or (lambda: None)
        self._open = store if callable(store) else (lambda: store)
        self._attached: Store | None = None
        self._lock = threading.Lock()
        if not callable(store):
            self.attach(store)

    # -- running statements --------------------------------------------------------------------------------------

    @staticmethod
    def containing(text: str) -> str:
        """The LIKE pattern for *text* anywhere in a value: `name like :pattern escape '!'`."""
        return "%" + text.replace("!", "!!").replace("%", "!%").replace("_", "!_") + "%"

    def all(self, name: str, /, **params: object) -> list[Row]:
        """Runs a statement in its own transaction and returns its rows."""
        bound = self.bind(name, **params)
        store = self._store()
        run = store.write if writes(self._bodies[name]) else store.read
        return run(lambda tx: tx.query(bound.name, bound.params))

    def read(self, work: Callable[[DbTx], T]) -> T:
        """Runs *work* in one read transaction, which sees a consistent snapshot."""
        return self._store().read(lambda tx: work(DbTx(self, tx)))

    def write(self, work: Callable[[DbTx], T]) -> T:
        """Runs *work* in one transaction, which is on disk when this returns.

        The store may run *work* more than once, so it must have no other side effects.
        """
        last: DbTx | None = None

        def run(tx: Tx) -> T:
            nonlocal last
            last = DbTx(self, tx)
            return work(last)

        result = self._store().write(run)
        if last is not None and last.took_in:
            self._written()  # wakes the workers only if a job has changed
        return result

    async def aall(self, name: str, /, **params: object) -> list[Row]:
        """As `all`, without blocking the loop."""
        return await _elsewhere(lambda: self.all(name, **params))

    async def aquery_as(self, row: type[R], name: str, /, **params: object) -> list[R]:
        """As `query_as`, without blocking the loop."""
        return await _elsewhere(lambda: self.query_as(row, name, **params))

    async def afirst(self, row: type[R], name: str, /, **params: object) -> R | None:
        """As `first`, without blocking the loop."""
        return await _elsewhere(lambda: self.first(row, name, **params))

    async def awrite(self, work: Callable[[DbTx], T]) -> T:
        """As `write`, without blocking the loop."""
        return await _elsewhere(lambda: self.write(work))

    def bind(self, name: str, /, **params: object) -> BoundStatement:
        """Binds a statement to values, for `Done(writes=[...])`. It runs in the transaction that settles the job."""
        self.check(name, params)
        return BoundStatement(self.full_name(name), params)

    # -- names and values ----------------------------------------------------------------------------------------

    def full_name(self, name: str) -> str:
        if name not in self._bodies:
            known = ", ".join(sorted(self._bodies)) or "none"
            raise KeyError(f"there is no statement {name!r} of {self.app}; known: {known}")
        return f"{self.app}.{name}"

    def check(self, name: str, params: Params) -> None:
        """Raises KeyError for an unknown statement, and TypeError for a wrong parameter or value."""
        self.full_name(name)
        check_values(f"{self.app}.{name}", self._parameters[name], params)

    # -- opening -------------------------------------------------------------------------------------------------

    def attach(self, store: Store) -> None:
        """Migrates the tables and registers the statements at an open store."""
        with self._lock:
            if self._attached is store:
                return
            migrate(store, self.migrations)
            store.add(statements(self._text, store.dialect, f"{self.app}."))
            self._attached = store
            if any(name.startswith(SHIFTS) for name in self._bodies) and store.read(lambda tx: is_behind(tx, self.app)):
                store.write(store.check_clock)  # applies clock steps that were detected earlier to its times

    def _store(self) -> Store:
        store = self._open()
        self.attach(store)
        return store

    def _check(self) -> None:
        for dialect in Dialect:
            statements(self._text, dialect)
        for name, body in self._bodies.items():
            check_statement(self.app, name, body)
        for migration in self.migrations:
            check_migration(self.app, migration)


async def _elsewhere(work: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(None, work)


def _checked_name(app: object) -> str:
    if not isinstance(app, str) or not _APP.fullmatch(app) or app in _TAKEN:
        raise ValueError(
            f"app: {app!r} is not allowed; give 2 to 30 small letters, digits and underscores, and none of: "
            + ", ".join(_TAKEN)
        )
    return app


def _text(source: Source | None) -> str:
    if source is None or isinstance(source, str):
        return source or ""
    return source.read_text(encoding="utf-8")


def _if_there(folder: Traversable) -> Traversable | None:
    """The folder, or None for an application without tables."""
    return folder if folder.is_dir() else None


def _folder(source: Source) -> Traversable:
    folder = Path(source) if isinstance(source, str) else source
    if not folder.is_dir():
        raise ValueError(f"migrations: {folder} is not a folder; give the folder with the .sql files")
    return folder
