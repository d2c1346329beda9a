"""Backup and restore.

After the backup, workers claimed jobs and got ids that the backup does not have. A restore therefore moves every fence
and the next id far ahead, so that no lost lease or id can match a new one.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from tidegate.errors import Rejected, StoreDamaged, StoreError
from tidegate.guard.breaker_state import OPEN
from tidegate.jobs import settle
from tidegate.store import sqlite_files
from tidegate.store.base import Stages, Store, Tx, unwatched
from tidegate.store.migrate import core_migrations, migrate
from tidegate.store.open import core_statements, identify
from tidegate.store.sql import Dialect
from tidegate.store.sqlite import SqliteStore
from tidegate.store.sqlite_driver import connect, make_private
from tidegate.targets import breaker, table

JUMP = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Restored:
    epoch: int  # how often this database was restored
    requeued: int  # jobs that were running at the time of the backup


def backup(store: Store, file: Path, *, replace: bool = False, stages: Stages = unwatched) -> None:
    """Writes a consistent backup while the database is in use. The file appears complete or not at all."""
    if not isinstance(store, SqliteStore):
        raise Rejected("a backup of PostgreSQL is made by its own tools: pg_dump, or a base backup")
    _refuse_itself(Path(store.url.removeprefix("sqlite:///")), file)
    if file.exists() and not replace:
        raise Rejected(f"{file} is there already")
    draft = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    try:
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        store.backup(str(draft), stages("Copying"))
        _flush(draft)
        draft.replace(file)
        _flush(file.absolute().parent)
    except OSError as error:
        raise StoreError(f"{file}: it cannot be written ({error.strerror or type(error).__name__})") from error
    finally:
        _remove(draft)


def restore(
    path: Path, file: Path, now: Callable[[], float], driver: str | None = None, *, stages: Stages = unwatched
) -> Restored:
    """Restores a SQLite database from a backup, also while workers have it open.

    The backup is checked, migrated and prepared in a draft file, and then copied over in one transaction. A damaged
    database is kept under another name, and the draft takes its place. The processes that have it open must be
    restarted. The marker expects a database at any moment, so that a restore that is killed leaves the former
    database, the restored one, or none: then nothing starts until the restore is repeated.
    """
    if not _is_database(file):
        raise Rejected(f"{file} is no SQLite database")
    _refuse_itself(path, file)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        stages("Copying")
        make_private(str(draft))
        shutil.copyfile(file, draft)
        if (log := Path(f"{file}-wal")).exists():  # the latest commits of a copy that `cp` made
            shutil.copyfile(log, f"{draft}-wal")
        store = _opened(draft, file, now, driver)
        try:
            stages("Checking")
            found = _prepared(store, file)
            marker = sqlite_files.Marker(identify(store))
            is_usable = _is_usable(path, store.driver)
            _announce(path, marker, is_usable=is_usable)
            progress = stages("Putting it back")
            if is_usable:
                store.backup(str(path), progress)
        finally:
            store.close()
        if not is_usable:
            _move_aside(path, now())
            _replace(draft, path)
        sqlite_files.write_marker(str(path), marker)
    except OSError as error:
        raise StoreError(f"{file}: it cannot be put back ({error.strerror or type(error).__name__})") from error
    finally:
        _remove(draft)
    return found


def _announce(path: Path, copy: sqlite_files.Marker, *, is_usable: bool) -> None:
    """Lets the marker expect the restored database, besides the former one or instead of an unusable one."""
    marker = sqlite_files.read_marker(str(path))
    if marker is not None and marker.id != copy.id:
        sqlite_files.write_marker(str(path), replace(marker, restoring=copy.id))
    elif marker is None and not is_usable:
        sqlite_files.write_marker(str(path), copy)


def _replace(draft: Path, path: Path) -> None:
    """Gives the closed draft its name, durably."""
    if Path(f"{draft}-wal").exists():  # closing it writes the log into the file
        raise StoreError(f"{draft}: another process has it open; try again")
    _flush(draft)
    draft.replace(path)
    _flush(path.absolute().parent)


def _flush(path: Path) -> None:
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _opened(draft: Path, file: Path, now: Callable[[], float], driver: str | None) -> SqliteStore:
    try:
        return SqliteStore(str(draft), core_statements(Dialect.SQLITE), now, driver)
    except StoreDamaged as error:
        raise Rejected(f"{file} is damaged: it cannot be opened; choose another copy") from error


def _is_usable(path: Path, driver: str) -> bool:
    """Whether the existing database can be overwritten in place."""
    if not path.exists() or not path.stat().st_size:
        return False
    try:
        connect(str(path), driver).close()
    except StoreDamaged:
        return False
    marker = sqlite_files.read_marker(str(path))
    return marker is None or not marker.damaged


def _move_aside(path: Path, now: float) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):
        old = Path(f"{path}{suffix}")
        if old.exists():
            old.rename(f"{path}.damaged-{datetime.fromtimestamp(now, UTC):%Y%m%dT%H%M%SZ}{suffix}")


def _prepared(store: SqliteStore, file: Path) -> Restored:
    wrong = store.check()
    if wrong:
        raise Rejected(f"{file} is damaged: {wrong[0]}")
    migrate(store, core_migrations())
    return store.write(lambda tx: restored(tx, store.dialect))


def restored(tx: Tx, dialect: Dialect) -> Restored:
    """Prepares a restored database before workers use it: fences, ids, running jobs, breakers and workers."""
    tx.lock_migrations()  # takes long with many jobs
    if dialect is Dialect.POSTGRES:
        tx.execute("lock table tg_job in exclusive mode")  # after a failover, workers may be running
    tx.query("restored_fences", {"step": JUMP})
    tx.query("restored_ids_sqlite" if dialect is Dialect.SQLITE else "restored_ids_postgres", {"step": JUMP})
    tx.query("restored_notices")
    tx.query("restored_deliveries")
    running = tx.query("restored_running")
    tx.query_many(
        "action_events",
        [{"id": id_, "kind": "restored", "code": None, "message": None, "actor": "restore"} for id_, _ in running],
    )
    settle.count_moves(tx, Counter((queue, "running", "ready") for _, queue in running))
    _half_open(tx)
    for name in ("restored_probes", "restored_leaders", "restored_workers", "restored_at"):
        tx.query(name)
    return Restored(tx.scalar(int, "restored_epoch"), len(running))


def _half_open(tx: Tx) -> None:
    """Half-opens open breakers, because the current health of their targets is unknown."""
    names = [row.name for row in table.targets(tx) if row.breaker.state == OPEN]
    rows, now = table.lock_targets(tx, names)
    for name, row in rows.items():
        table.put_breaker(tx, name, row.breaker, breaker.half_open(row.breaker, now or row.breaker.since))


def wrong_with(store: Store) -> list[str]:
    """The problems of a database; empty when there are none. It counts every job, so it is slow."""
    found = store.check() if isinstance(store, SqliteStore) else []
    return found or store.read(_wrong)


def _wrong(tx: Tx) -> list[str]:
    counted = {(queue, state): int(n) for queue, state, n in tx.query("counted_jobs")}
    tallied = {key: n for key, n in settle.read(tx).items() if n and "total" not in key[1]}
    found = [
        f"queue {queue}: {tallied.get((queue, state), 0)} are said to be {state}, {counted.get((queue, state), 0)} are"
        for queue, state in sorted({*counted, *tallied})
        if counted.get((queue, state), 0) != tallied.get((queue, state), 0)
    ]
    loose = tx.scalar(int, "loose_links")
    return [*found, *([f"{loose} jobs wait for jobs that are not there"] if loose else [])]


def _refuse_itself(path: Path, file: Path) -> None:
    # Replacing the file would not affect open connections, and a plain copy lacks the commits in the WAL.
    if path.exists() and file.exists() and path.samefile(file):
        raise Rejected(f"{file} is the database itself; name another file")


def _is_database(file: Path) -> bool:
    try:
        with file.open("rb") as opened:
            return opened.read(16) == b"SQLite format 3\0"
    except OSError as error:
        raise Rejected(f"{file}: it cannot be read ({error.strerror or type(error).__name__})") from error


def _remove(draft: Path) -> None:
    for suffix in ("", "-wal", "-shm", "-journal", ".id"):
        Path(f"{draft}{suffix}").unlink(missing_ok=True)
