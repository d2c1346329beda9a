"""Databases with many jobs, made in seconds."""

from __future__ import annotations

import apsw
import psycopg

from bench.filling import NOW, Size, fill
from tests.databases import Database
from tidegate.store.migrate import core_migrations, migrate


def filled(db: Database, size: Size) -> None:
    """Migrates an empty database and fills it; its clock stands at `bench.filling.NOW`."""
    store = db.open(lambda: NOW)
    migrate(store, core_migrations())
    store.close()
    if db.sqlite:
        connection = apsw.Connection(str(db.path))
        connection.execute("begin")
        fill(connection, sqlite=True, size=size)
        connection.execute("commit")
        connection.close()
    else:
        with psycopg.connect(db.url, autocommit=True) as server:
            fill(server, sqlite=False, size=size)
            server.execute("vacuum analyze tg_job, tg_target, tg_hold, tg_tally")
