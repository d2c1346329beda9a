"""Numbered SQL files, forward only, one transaction each: a kill at any moment leaves the old schema or the new one."""

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
    """One step of an application's schema."""

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
    """The migrations of a folder, by number; ValueError for a gap or a file that is none."""
    found = []
    for entry in sorted(folder.iterdir(), key=lambda each: each.name):
        if not entry.name.endswith(".sql"):
            continue
        number, _, name = entry.name.removesuffix(".sql").partition("_")
        if not number.isdigit() or not name:
            raise ValueError(f"{entry.name}: a migration is called 0001_what_it_does.sql")
        found.append(Migration(app, int(number), name, entry.read_text(encoding="utf-8")))
    if [each.number for each in found] != list(range(1, len(found) + 1)):
        raise ValueError(f"the migrations of {app} have a gap: {[each.number for each in found]}")
    return found


@cache
def core_migrations() -> list[Migration]:
    """As they were when this process first asked: an update on disk does not make it know more."""
    return migrations_in(files("tidegate.store") / "migrations", CORE)


def applied(store: Store) -> list[Applied]:
    """What has been applied, in order. Writes nothing, whatever database that is."""
    there = "has_migrations_sqlite" if store.dialect is Dialect.SQLITE else "has_migrations_postgres"
    return store.read(lambda tx: _applied(tx) if tx.query(there) else [])


def migrate(store: Store, migrations: list[Migration], progress: Progress = unheard) -> list[Migration]:
    """Applies what is missing, one transaction each; returns what was applied. Two migrators do no harm.

    *progress* hears of each step before it is begun, and of the end; what it raises leaves the rest undone.
    """
    missing = compare(applied(store), migrations)
    done = []
    for n, each in enumerate(missing):
        progress(n, len(missing))
        if store.write(partial(_apply, store.dialect, each)):
            done.append(each)
    progress(len(missing), len(missing))
    return done


def compare(found: list[Applied], migrations: list[Migration]) -> list[Migration]:
    """The migrations that were not applied yet.

    SchemaTooNew, or StoreError when what was applied is not how these migrations begin.
    """
    known = {(migration.app, migration.number): migration for migration in migrations}
    apps = {migration.app for migration in migrations}
    last: dict[str, int] = {}
    for each in found:
        if each.app not in apps:
            continue
        if each.number != last.get(each.app, 0) + 1:
            raise StoreError(f"step {each.number} of {each.app} was applied, but not the one before it")
        last[each.app] = each.number
        mine = known.get((each.app, each.number))
        if mine is None:
            raise SchemaTooNew(
                f"the database has step {each.number} of {each.app}, which this version does not know; update it"
            )
        if mine.checksum != each.checksum:
            raise StoreError(f"step {each.number} of {each.app} was changed after it was applied")
    return [migration for migration in migrations if migration.number > last.get(migration.app, 0)]


class Schema:
    """Whether the schema is still one that this program knows: another may have migrated it meanwhile."""

    def __init__(self, known: list[Migration]) -> None:
        self._known = known
        self._seen = -1  # migrations that were applied when it was looked at last
        self.too_new: str | None = None  # what is wrong, if anything is

    def fits(self, tx: Tx, count: int | None = None) -> bool:
        """False when it is too new. *count*: how many migrations were applied, where the caller knows."""
        found = int(tx.query("migration_count")[0][0]) if count is None else count
        if found != self._seen:
            try:
                compare(_applied(tx), self._known)
            except SchemaTooNew as error:
                self.too_new = str(error)
            self._seen = found
        return self.too_new is None


def _apply(dialect: Dialect, migration: Migration, tx: Tx) -> bool:
    _prepare(tx)
    if any((each.app, each.number) == (migration.app, migration.number) for each in _applied(tx)):
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
    return [Applied(*row) for row in tx.query("migrations")]
