"""Copies of SQLite's file while it is written to, and damage that is found."""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.databases import APSW, SQLITE, Database
from tests.store.jobs import Jobs, new, sqlite
from tidegate.errors import StoreError
from tidegate.jobs import outcome
from tidegate.store.open import core_statements
from tidegate.store.sql import Dialect
from tidegate.store.sqlite import SqliteStore

BOTH_LIBRARIES = pytest.mark.parametrize("db", SQLITE, indirect=True)
ONE_LIBRARY = pytest.mark.parametrize("db", [APSW], indirect=True)


@BOTH_LIBRARIES
def test_a_copy_that_is_made_while_others_write_is_whole(db: Database, jobs: Jobs, tmp_path: Path) -> None:
    stop = threading.Event()

    def write() -> int:
        n = 0
        while not stop.is_set():
            held = jobs.claim(2)
            jobs.put(new(), new())
            jobs.settle(*(outcome.done(job, None) for job in held))
            n += 1
        return n

    with ThreadPoolExecutor(2) as pool:
        writing = pool.submit(write)
        copies = [tmp_path / f"copy{n}.db" for n in range(5)]
        for path in copies:
            sqlite(jobs).backup(str(path))
        stop.set()
        assert writing.result(60) > 0

    for path in copies:
        copy = Jobs(Database(db.name, f"sqlite:///{path}", db.driver).open(jobs.clock), jobs.clock)
        assert sqlite(copy).check() == []
        copy.check()
        assert copy.one()
        copy.store.close()


@BOTH_LIBRARIES
def test_a_copy_tells_how_far_it_is(jobs: Jobs, tmp_path: Path) -> None:
    jobs.put(*(new(str(n), args="x" * 4000) for n in range(1200)))
    heard: list[tuple[int, int]] = []

    sqlite(jobs).backup(str(tmp_path / "copy.db"), lambda done, total: heard.append((done, total)))

    assert len(heard) > 2
    assert heard == sorted(heard)
    assert len({total for _, total in heard}) == 1
    assert heard[-1][0] == heard[-1][1] == (tmp_path / "copy.db").stat().st_size // 4096


@ONE_LIBRARY
def test_a_copy_is_not_begun_anew_when_others_write(jobs: Jobs, tmp_path: Path) -> None:
    jobs.put(*(new(str(n), args="x" * 4000) for n in range(1200)))
    heard: list[tuple[int, int]] = []

    def write(done: int, total: int) -> None:
        heard.append((done, total))
        assert len(heard) < 20, "it begins anew, again and again"
        jobs.put(new(f"while {done}"))

    sqlite(jobs).backup(str(tmp_path / "copy.db"), write)

    assert [done for done, _ in heard[:-1]] == [500 * n for n in range(1, len(heard))]
    copy = Jobs(Database(APSW, f"sqlite:///{tmp_path}/copy.db", "apsw").open(jobs.clock), jobs.clock)
    assert copy.store.read(lambda tx: tx.query("counted_jobs"))[0][2] == 1200
    copy.store.close()


@BOTH_LIBRARIES
def test_a_copy_that_is_stopped_leaves_what_was_there(jobs: Jobs, tmp_path: Path) -> None:
    sqlite(jobs).backup(str(tmp_path / "copy.db"))
    before = (tmp_path / "copy.db").read_bytes()
    jobs.put(*(new(str(n), args="x" * 4000) for n in range(1200)))

    def stop(done: int, total: int) -> None:
        assert done < total
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sqlite(jobs).backup(str(tmp_path / "copy.db"), stop)

    assert (tmp_path / "copy.db").read_bytes() == before
    assert jobs.one()


@BOTH_LIBRARIES
def test_a_copy_that_cannot_be_made_says_so(jobs: Jobs, tmp_path: Path) -> None:
    with pytest.raises(StoreError):
        sqlite(jobs).backup(str(tmp_path / "no" / "folder" / "copy.db"))
    assert jobs.one()


@ONE_LIBRARY
def test_damage_is_found(db: Database, jobs: Jobs, tmp_path: Path) -> None:
    jobs.put(*(new(str(n), args="x" * 500) for n in range(200)))
    assert sqlite(jobs).check() == []
    path = tmp_path / "copy.db"
    sqlite(jobs).backup(str(path))
    damaged = bytearray(path.read_bytes())
    last = len(damaged) // 4096 - 1  # among the pages of the jobs, which were written last
    damaged[last * 4096 : last * 4096 + 64] = b"\xa5" * 64
    path.write_bytes(damaged)

    with contextlib.closing(SqliteStore(str(path), core_statements(Dialect.SQLITE), jobs.clock, "apsw")) as copy:
        assert copy.check() != []
