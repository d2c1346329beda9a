"""A restore that is killed at any step leaves a whole database or none, and never makes way for an empty one."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.databases import Database, database
from tidegate import Queue
from tidegate.errors import StoreDamaged, StoreMissing
from tidegate.jobs import restore
from tidegate.store import sqlite_files

KILLED = 77
STEPS = (
    "os.rename",
    "os.remove",
    "os.chmod",
    "open",
    "os.mkdir",
)  # SQLite has its own tests


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with database("sqlite-apsw", tmp_path) as found:
        yield found


def add(db: Database, *texts: str) -> None:
    with Queue(db.url, driver=db.driver) as queue:
        kind = queue.job(name="say")(say)
        for text in texts:
            kind.enqueue(text)


def say(text: str) -> None: ...


def count(db: Database) -> int:
    with Queue(db.url, driver=db.driver) as queue:
        return queue.store.read(lambda tx: sum(int(row[2]) for row in tx.query("counted_jobs")))


def copy_of(db: Database, file: Path) -> None:
    with Queue(db.url, driver=db.driver) as queue:
        restore.backup(queue.store, file, replace=True)


def killed(db: Database, copy: Path, step: int) -> bool:
    """Restores in a process that ends at a step. Returns whether it got that far."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == KILLED
    left = step

    def end(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        if event in STEPS and str(db.path) in str(arguments[0]).replace("/.", "/"):
            left -= 1
            if left < 0:
                os._exit(KILLED)

    def stages(name: str) -> Any:
        if name == "Putting it back" and step == 0:
            return lambda done, total: os._exit(KILLED)
        return lambda done, total: None

    sys.addaudithook(end)
    if step == 0:
        left = 10_000
    try:
        restore.restore(db.path, copy, lambda: 1e9, db.driver, stages=stages)
    finally:
        os._exit(0)


@pytest.mark.parametrize("copied", ["itself", "another"])
@pytest.mark.parametrize("harm", ["none", "removed", "emptied", "cut", "cut without a marker"])
def test_a_killed_restore_never_leads_to_an_empty_database(
    db: Database, tmp_path: Path, harm: str, copied: str
) -> None:
    add(db, "first")
    if copied == "itself":
        copy_of(db, tmp_path / "copy.db")
    else:
        (tmp_path / "second").mkdir()
        other = Database(db.name, f"sqlite:///{tmp_path}/second/jobs.db", db.driver)
        add(other, "another")
        copy_of(other, tmp_path / "copy.db")
    add(db, "second", "third")
    whole = db.path.read_bytes()
    marker = sqlite_files.marker_file(str(db.path)).read_bytes()
    for step in range(100):
        for each in db.path.parent.glob("*jobs.db*"):
            each.unlink() if each.is_file() else None
        db.path.write_bytes(whole)
        sqlite_files.marker_file(str(db.path)).write_bytes(marker)
        if harm == "removed":
            db.path.unlink()
        elif harm != "none":
            db.path.write_bytes(b"" if harm == "emptied" else whole[: len(whole) // 2])
        if harm == "cut without a marker":
            sqlite_files.remove_marker(str(db.path))
        went_on = not killed(db, tmp_path / "copy.db", step)

        assert db.path.exists() or sqlite_files.marker_file(str(db.path)).exists(), step
        try:
            assert count(db) in ({1, 3} if harm == "none" else {1}), step
        except (StoreMissing, StoreDamaged):
            assert harm != "none", step
            restore.restore(db.path, tmp_path / "copy.db", lambda: 1e9, db.driver)
            assert count(db) == 1
        if went_on and step:
            assert count(db) == 1
            assert sqlite_files.read_marker(str(db.path)) == sqlite_files.Marker(_id(db))
            break
    assert step > 3


def test_a_copy_is_restored_with_its_write_ahead_log(db: Database, tmp_path: Path) -> None:
    with Queue(db.url, driver=db.driver) as queue:
        kind = queue.job(name="say")(say)
        kind.enqueue("first")
        for suffix in ("", "-wal"):
            shutil.copyfile(f"{db.path}{suffix}", tmp_path / f"copy.db{suffix}")
    log = (tmp_path / "copy.db-wal").read_bytes()
    assert log
    restore.restore(db.path, tmp_path / "copy.db", lambda: 1e9, db.driver)
    assert count(db) == 1
    assert (tmp_path / "copy.db-wal").read_bytes() == log


def _id(db: Database) -> str:
    with Queue(db.url, driver=db.driver) as queue:
        return str(queue.store.read(lambda tx: tx.query("store_value", {"name": "id"}))[0][0])
