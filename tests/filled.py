"""Databases with many jobs, made in seconds."""

from __future__ import annotations

import time
from typing import Any, LiteralString

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
            tidied(server)


def tidied(server: psycopg.Connection[Any], tables: LiteralString = "tg_job, tg_target, tg_hold, tg_tally") -> None:
    """Lets PostgreSQL learn what there is.

    While tests beside this one have old transactions open, it cannot see that every row is settled, and plans as if it
    had to look at each.
    """
    end = time.monotonic() + 60
    while True:
        server.execute(f"vacuum analyze {tables}")
        row = server.execute("select relallvisible, relpages from pg_class where oid = 'tg_job'::regclass").fetchone()
        assert row is not None
        if row[0] >= row[1]:
            return
        assert time.monotonic() < end, "somebody has a transaction open for ever"
        time.sleep(0.1)
