"""A process that stands still in the middle of a transaction: its locks are taken from it."""

from __future__ import annotations

import contextlib
import threading
import time

import pytest

from tests.databases import PIPELINED, POSTGRES, Database
from tests.store.jobs import Jobs
from tidegate.errors import StoreBusy, StoreError
from tidegate.store.base import Store, Tx
from tidegate.store.sql import Dialect, Statement, compiled

ON_POSTGRES = pytest.mark.parametrize("db", [POSTGRES, PIPELINED], indirect=True)
PATIENCE = 60.0
SOON = "options=-c%20transaction_timeout%3D1s%20"
TOUCHED = compiled("touched", "update tg_store set value = :value where name = 'touched'", Dialect.POSTGRES)


def touch(store: Store, value: str) -> None:
    store.write(lambda tx: tx.query("touched", {"value": value}))


@ON_POSTGRES
def test_who_is_frozen_in_a_transaction_keeps_nobody_from_the_rows_that_it_has_locked(db: Database, jobs: Jobs) -> None:
    jobs.store.add([Statement("made", "insert into tg_store values ('touched', '0')", returns=False), TOUCHED])
    jobs.store.write(lambda tx: tx.query("made"))
    frozen = Database(db.name, db.url.replace("options=", SOON)).open(jobs.clock)
    frozen.add([TOUCHED, Statement("seen", "select value from tg_store where name = 'touched'")])
    locked, over = threading.Event(), threading.Event()

    def stand_still(tx: Tx) -> None:
        tx.query("touched", {"value": "1"})
        tx.query("seen")
        locked.set()
        over.wait(PATIENCE)
        tx.query("seen")

    def freeze() -> None:
        with contextlib.suppress(StoreError):  # or it is done again, on another connection
            frozen.write(stand_still)

    thread = threading.Thread(target=freeze)
    thread.start()
    assert locked.wait(PATIENCE)
    ends = time.monotonic() + PATIENCE
    while True:
        try:
            touch(jobs.store, "2")
            break
        except StoreBusy:
            assert time.monotonic() < ends
    over.set()
    thread.join(PATIENCE)
    frozen.close()
    assert not thread.is_alive()


@ON_POSTGRES
def test_a_transaction_may_take_a_minute_unless_the_url_says_otherwise(db: Database, jobs: Jobs) -> None:
    asked = Statement("asked", "select current_setting('transaction_timeout')")
    for url, most in ((db.url, "1min"), (db.url.replace("options=", SOON), "1s")):
        store = Database(db.name, url).open(jobs.clock)
        store.add([asked])
        assert store.read(lambda tx: tx.query("asked")) == [(most,)]
        store.close()


@ON_POSTGRES
def test_a_migration_may_take_longer(db: Database, jobs: Jobs) -> None:
    asked = Statement("asked", "select current_setting('transaction_timeout')")
    jobs.store.add([asked])

    def as_migrator(tx: Tx) -> list[tuple[object, ...]]:
        tx.lock_migrations()
        return tx.query("asked")

    assert jobs.store.write(as_migrator) == [("0",)]
