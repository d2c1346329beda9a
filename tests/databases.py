"""The databases that a test can ask for, by name."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import pgbouncer, postgres
from tidegate.store.base import Store
from tidegate.store.open import core_statements, open_store
from tidegate.store.postgres import PostgresStore
from tidegate.store.sql import Dialect

APSW, STDLIB, POSTGRES = "sqlite-apsw", "sqlite-stdlib", "postgres"
PIPELINED = "postgres-pipelined"  # as through a network
SQLITE = (APSW, STDLIB)
BOTH = (APSW, POSTGRES)
POOLED = "postgres-pooled"  # through PgBouncer, and pipelined
EVERY = (*SQLITE, POSTGRES, PIPELINED, pytest.param(POOLED, marks=pytest.mark.full))


@dataclass(frozen=True, slots=True)
class Database:
    """An empty database: what its URL is, and which library opens it."""

    name: str
    url: str
    driver: str | None = None
    direct: str = ""  # the URL that leads past a pooler

    @property
    def sqlite(self) -> bool:
        return self.name in SQLITE

    @property
    def path(self) -> Path:
        assert self.sqlite
        return Path(self.url.removeprefix("sqlite:///"))

    def open(self, now: Callable[[], float], *, virtual: bool = True) -> Store:
        if self.name == PIPELINED:
            clock = now if virtual else None
            return PostgresStore(self.url, core_statements(Dialect.POSTGRES), clock, pipelined=True)
        return open_store(self.url, now=now, driver=self.driver, virtual=virtual)


@contextlib.contextmanager
def database(name: str, folder: Path, *, fresh: bool = False) -> Iterator[Database]:
    """An empty one; *fresh*: without a table, too."""
    if name in (POSTGRES, PIPELINED, POOLED):
        if name == POOLED:
            pgbouncer.require()
        with postgres.schema(fresh=fresh) as url:
            yield Database(name, pgbouncer.shared().url(url) if name == POOLED else url, direct=url)
        return
    yield Database(name, f"sqlite:///{folder / 'jobs.db'}", "apsw" if name == APSW else "sqlite3")
