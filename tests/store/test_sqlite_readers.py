"""The connections that SQLite's readers leave open."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import apsw
import pytest

from tests.databases import APSW, Database, database
from tests.store.jobs import Jobs, sqlite
from tidegate.store.base import Tx


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with database(APSW, tmp_path) as found:
        yield found


def test_readers_that_are_not_needed_any_more_are_closed(jobs: Jobs) -> None:
    store = sqlite(jobs)
    file = store.url.removeprefix("sqlite:///")

    def connections() -> int:  # SQLite keeps the handle of one that is closed, for the next
        return sum(each.filename == file for each in apsw.connections())

    store.read(lambda tx: None)
    alone = connections()
    together = threading.Barrier(5)
    with ThreadPoolExecutor(5) as pool:
        list(pool.map(lambda _: store.read(lambda tx: together.wait(30)), range(5)))
    assert connections() == alone + 4

    for _ in range(1010):
        store.read(lambda tx: None)
    assert connections() == alone


def test_readers_keep_little_of_a_large_database(jobs: Jobs) -> None:
    store, readers = sqlite(jobs), 5
    store.write(lambda tx: tx.execute("create table large (text text)"))
    rows = "with recursive s(i) as (select 1 union all select i + 1 from s where i < 5000)"
    store.write(lambda tx: tx.execute(f"insert into large {rows} select hex(zeroblob(500)) from s"))  # 5 MB
    before = apsw.memory_used()
    together = threading.Barrier(readers)

    def look(tx: Tx) -> None:
        together.wait(30)
        tx.execute("select count(*) from large where text like '%1%'")

    with ThreadPoolExecutor(readers) as pool:
        list(pool.map(lambda _: store.read(look), range(readers)))
    assert apsw.memory_used() - before < readers * 1_000_000
