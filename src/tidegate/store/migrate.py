"""Schema migrations: numbered SQL files, forward only, one transaction each.

A process that is killed at any moment leaves the old schema or the new one.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files
from importlib.resources.abc import Traversable

from tidegate.errors import SchemaTooNew, StoreError
from tidegate.store.base import Progress, Store, Tx, unheard
from tidegate.store.sql import Dialect, script

CORE = "tidegate"
_CREATE = """create table if not exists tg_migration (
    app text not null, number integer not null, name text not null, checksum text not null,
    applied_at double precision not null, primary key (app, number))"""


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of a schema."""

    app: str
    number: int
    name: str
    text: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Applied:
    app: str
    number: int
    name: str
    checksum: str
    applied_at: float


def migrations_in(folder: Traversable, app: str) -> list[Migration]:
    """Returns the migrations of a folder, by number. Raises ValueError for a gap or an unexpected file."""
    migrations = []
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if not entry.name.endswith(".sql"):
            continue
        number, _, name = entry.name.removesuffix(".sql").partition("_")
        if not number.isdigit() or not name:
            raise ValueError(f"{entry.name} is not the name of a migration; name it like 0001_what_it_does.sql")
        migrations.append(Migration(app, int(number), name, entry.read_text(encoding="utf-8")))
    if [migration.number for migration in migrations] != list(range(1, len(migrations) + 1)):
        raise ValueError(
            f"the migrations of {app} have a gap; number them from 1: {[migration.number for migration in migrations]}"
        )
    return migrations


@cache
def core_migrations() -> list[Migration]:
    """Returns the core's migrations, cached: an upgrade on disk does not change what this process knows."""
    return migrations_in(files("tidegate.store") / "migrations", CORE)


def applied(store: Store) -> list[Applied]:
    """Returns the applied migrations, in order. Never writes."""
    exists_query = "has_migrations_sqlite" if store.dialect is Dialect.SQLITE else "has_migrations_postgres"
    return store.read(lambda tx: _applied(tx) if tx.query(exists_query) else [])


def migrate(store: Store, migrations: list[Migration], progress: Progress = unheard) -> list[Migration]:
    """Applies the missing migrations, one transaction each, and returns those it applied. Safe to run concurrently.

    *progress* is called before each step and at the end. If it raises, the remaining steps are not applied.
    """
    missing = compare(applied(store), migrations)
    done = []
    for n, migration in enumerate(missing):
        progress(n, len(missing))
        if store.write(partial(_apply, store.dialect, migration)):
            done.append(migration)
    progress(len(missing), len(missing))
    return done


def compare(applied_rows: list[Applied], migrations: list[Migration]) -> list[Migration]:
    """Returns the migrations that are not applied yet.

    Raises SchemaTooNew, or StoreError if the applied ones are not the beginning of *migrations*.
    """
    known = {(migration.app, migration.number): migration for migration in migrations}
    apps = {migration.app for migration in migrations}
    last: dict[str, int] = {}
    for row in applied_rows:
        if row.app not in apps:
            continue
        if row.number != last.get(row.app, 0) + 1:
            raise StoreError(f"step {row.number} of {row.app} was applied, but not the one before it")
        last[row.app] = row.number
        mine = known.get((row.app, row.number))
        if mine is None:
            raise SchemaTooNew(
                f"the database has step {row.number} of {row.app}, which this version does not know; update it"
            )
        if mine.checksum != row.checksum:
            raise StoreError(f"step {row.number} of {row.app} was changed after it was applied")
    return [migration for migration in migrations if migration.number > last.get(migration.app, 0)]


class Schema:
    """Whether this program still knows the schema. Another process may have migrated it."""

    def __init__(self, known: list[Migration]) -> None:
        self._known = known
        self._seen = -1  # applied migrations at the last check
        self.too_new: str | None = None  # the error text, if the schema is too new

    def fits(self, tx: Tx, count: int | None = None) -> bool:
        """Returns False if the schema is too new. *count*: the number of applied migrations, if the caller knows it."""
        applied_count = tx.scalar(int, "migration_count") if count is None else count
        if applied_count != self._seen:
            try:
                compare(_applied(tx), self._known)
            except SchemaTooNew as error:
                self.too_new = str(error)
            self._seen = applied_count
        return self.too_new is None


def _apply(dialect: Dialect, migration: Migration, tx: Tx) -> bool:
    _prepare(tx)
    if any((row.app, row.number) == (migration.app, migration.number) for row in _applied(tx)):
        return False
    for line in script(migration.text, dialect):
        tx.execute(line)
    tx.query(
        "migrated",
        {"app": migration.app, "number": migration.number, "name": migration.name, "checksum": migration.checksum},
    )
    return True


def _prepare(tx: Tx) -> None:
    tx.lock_migrations()
    tx.execute(_CREATE)


def _applied(tx: Tx) -> list[Applied]:
    return tx.query_as(Applied, "migrations")
