"""SQLite's file is removed, replaced, cut or damaged: nothing is acknowledged, and no empty one takes its place."""

from __future__ import annotations

import contextlib
import random
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.databases import SQLITE, Database, database
from tidegate.errors import StoreDamaged, StoreError, StoreMissing
from tidegate.jobs import restore
from tidegate.jobs.function import JobFunction
from tidegate.jobs.queue import Queue
from tidegate.store.open import core_statements
from tidegate.store.sql import Dialect
from tidegate.store.sqlite import SqliteStore
from tidegate.store.sqlite_driver import wal_is_safe

JOBS = 300
TEXTS = [f"{n} {'x' * 500}" for n in range(JOBS)]


@pytest.fixture(params=SQLITE)
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    with database(request.param, tmp_path) as found:
        yield found


@pytest.fixture
def wal_db(db: Database) -> Database:
    if not wal_is_safe(db.driver or ""):
        pytest.skip("this library keeps no log beside the file")
    return db


def opened(db: Database) -> Queue:
    return Queue(db.url, driver=db.driver)


def kind_on(q: Queue) -> JobFunction[[str], None]:
    @q.job(queue="mail", name="send")
    def send(text: str) -> None: ...

    return send


def filled(db: Database) -> list[int]:
    """The ids of jobs whose rows are in the file itself, not only in its log."""
    with opened(db) as q:
        made = kind_on(q).enqueue_many([(each,) for each in TEXTS])
        return [job.id for job in made]


def texts(q: Queue, ids: list[int]) -> list[str]:
    """What each job is to send."""
    return [q.get(each).args["text"] for each in ids]


def marker(db: Database) -> Path:
    return Path(f"{db.path}.id")


# -- while it is open --------------------------------------------------------------------------------------------------


def remove(path: Path) -> None:
    path.unlink()


def replace_by_a_copy(path: Path) -> None:
    copy = path.with_name("copy")
    shutil.copyfile(path, copy)
    copy.replace(path)


def replace_by_nothing(path: Path) -> None:
    path.unlink()
    path.touch()


@pytest.mark.parametrize("harm", [remove, replace_by_a_copy, replace_by_nothing])
def test_a_file_that_is_removed_or_replaced_acknowledges_nothing(db: Database, harm: Callable[[Path], None]) -> None:
    filled(db)
    with opened(db) as q:
        send = kind_on(q)
        send.enqueue("before")

        harm(db.path)

        with pytest.raises(StoreMissing):
            send.enqueue("after")
        with pytest.raises(StoreMissing):
            q.store.read(lambda tx: tx.query("clock"))
        assert db.path.exists() == (harm is not remove)  # nobody made an empty one


@pytest.mark.parametrize("suffix", ["-wal", "-shm"])
def test_a_log_that_is_removed_acknowledges_nothing(wal_db: Database, suffix: str) -> None:
    with opened(wal_db) as q:
        send = kind_on(q)
        send.enqueue("before")

        Path(f"{wal_db.path}{suffix}").unlink()

        with pytest.raises(StoreMissing):
            send.enqueue("after")


def test_work_goes_on_when_the_file_is_back(db: Database) -> None:
    with opened(db) as q:
        send = kind_on(q)
        first = send.enqueue("before")
        aside = db.path.rename(db.path.with_name("aside"))
        with pytest.raises(StoreMissing):
            send.enqueue("meanwhile")

        aside.rename(db.path)

        last = send.enqueue("after")
    with opened(db) as q:
        assert texts(q, [first.id, last.id]) == ["before", "after"]


@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 0.97])
def test_a_file_that_is_cut_acknowledges_nothing_and_is_refused_later(db: Database, share: float) -> None:
    filled(db)
    with opened(db) as q:
        send = kind_on(q)
        q.store.read(lambda tx: tx.query("clock"))

        size = db.path.stat().st_size
        with db.path.open("r+b") as file:
            file.truncate(round(size * share) // 4096 * 4096)

        with pytest.raises(StoreDamaged):
            send.enqueue("after")
        with pytest.raises(StoreDamaged):
            q.store.read(lambda tx: tx.query("clock"))

    with pytest.raises((StoreDamaged, StoreMissing)), opened(db) as q:
        kind_on(q).enqueue("later")


def test_a_copy_with_fewer_jobs_that_is_restored_is_no_damage(db: Database, tmp_path: Path) -> None:
    with opened(db) as q:
        send = kind_on(q)
        send.enqueue("before")
        restore.backup(q.store, tmp_path / "copy.db")
        send.enqueue_many([(each,) for each in TEXTS])

        restore.restore(db.path, tmp_path / "copy.db", q.clock.now, db.driver)

        assert send.enqueue("after").created
    with opened(db) as q:
        assert q.store.read(lambda tx: tx.query("counted_jobs")) == [("mail", "ready", 2)]


# -- when it is opened -------------------------------------------------------------------------------------------------


def test_a_database_that_was_here_is_not_made_again(db: Database) -> None:
    filled(db)
    db.path.unlink()

    with pytest.raises(StoreMissing, match=r"tidegate db migrate --new"), opened(db) as q:
        kind_on(q).enqueue("after")

    assert not db.path.exists()


def test_a_file_that_is_removed_while_it_is_opened_is_not_made_again(db: Database) -> None:
    filled(db)
    db.path.unlink()  # after the check of the marker: an empty file beside the log would make SQLite drop that log

    with pytest.raises(StoreMissing):
        SqliteStore(str(db.path), core_statements(Dialect.SQLITE), time.time, db.driver)
    assert not db.path.exists()


def test_a_file_that_comes_and_goes_while_it_is_opened_is_refused_or_opened(db: Database) -> None:
    ids = filled(db)
    away, over = db.path.with_name("away"), threading.Event()

    def move() -> None:
        while not over.is_set():
            db.path.rename(away)
            time.sleep(0.0003)
            away.rename(db.path)
            time.sleep(0.0003)

    mover = threading.Thread(target=move)
    mover.start()
    try:
        for _ in range(300):
            with contextlib.suppress(StoreError):
                SqliteStore(str(db.path), core_statements(Dialect.SQLITE), time.time, db.driver).close()
    finally:
        over.set()
        mover.join()
    with opened(db) as q:
        assert texts(q, ids) == TEXTS


def test_an_empty_file_in_its_place_is_refused(db: Database) -> None:
    filled(db)
    db.path.write_bytes(b"")

    with pytest.raises(StoreMissing), opened(db) as q:
        kind_on(q).enqueue("after")

    assert db.path.read_bytes() == b""


def test_another_database_in_its_place_is_refused_and_left_as_it_is(db: Database, tmp_path: Path) -> None:
    filled(db)
    (tmp_path / "second").mkdir()
    other = Database(db.name, f"sqlite:///{tmp_path}/second/jobs.db", db.driver)
    filled(other)
    shutil.copyfile(other.path, db.path)
    before = db.path.read_bytes()

    with pytest.raises(StoreMissing), opened(db) as q:
        kind_on(q).enqueue("after")

    assert db.path.read_bytes() == before


def test_a_database_without_its_marker_is_adopted(db: Database, tmp_path: Path) -> None:
    ids = filled(db)
    (tmp_path / "host").mkdir()
    moved = Database(db.name, f"sqlite:///{tmp_path}/host/jobs.db", db.driver)
    shutil.copyfile(db.path, moved.path)

    with opened(moved) as q:
        assert texts(q, ids) == TEXTS

    assert marker(moved).read_text() == marker(db).read_text()


@pytest.mark.parametrize("text", ["", "{id} damaged"])
def test_a_marker_that_says_nothing_or_too_much_is_put_right(db: Database, text: str) -> None:
    filled(db)
    right = marker(db).read_text()
    marker(db).write_text(text.format(id=right.strip()))

    with opened(db) as q:
        assert kind_on(q).enqueue("after").created

    assert marker(db).read_text() == right


@pytest.mark.parametrize("share", [0.02, 0.3, 0.5, 0.97])
def test_a_file_that_was_cut_while_nobody_had_it_open_is_refused(db: Database, share: float) -> None:
    filled(db)
    with db.path.open("r+b") as file:
        file.truncate(round(db.path.stat().st_size * share) // 4096 * 4096)

    with pytest.raises(StoreDamaged), opened(db) as q:
        kind_on(q).enqueue("after")


@pytest.mark.parametrize("share", [0.02, 0.5, 0.97])
def test_a_file_that_was_cut_beside_its_log_is_refused(wal_db: Database, tmp_path: Path, share: float) -> None:
    """As after a kill: the log is there, and SQLite takes the end of the database from it."""
    filled(wal_db)
    killed = tmp_path / "killed"
    killed.mkdir()
    with opened(wal_db) as q:
        kind_on(q).enqueue("in the log only")
        for suffix in ("", "-wal", ".id"):
            shutil.copyfile(f"{wal_db.path}{suffix}", killed / f"jobs.db{suffix}")
    left = Database(wal_db.name, f"sqlite:///{killed}/jobs.db", wal_db.driver)
    with left.path.open("r+b") as file:
        file.truncate(round(left.path.stat().st_size * share) // 4096 * 4096)

    with pytest.raises(StoreDamaged), opened(left) as q:
        kind_on(q).enqueue("after")


@pytest.mark.parametrize("content", [bytes(40960), b"not a database" * 500])
def test_what_is_no_database_is_refused_and_left_as_it_is(db: Database, content: bytes) -> None:
    filled(db)
    db.path.write_bytes(content)

    with pytest.raises(StoreDamaged), opened(db) as q:
        kind_on(q).enqueue("after")

    assert db.path.read_bytes() == content


@pytest.mark.parametrize("seed", range(12))
def test_a_damaged_page_is_told_or_every_job_is_right(db: Database, seed: int) -> None:
    """The bytes of whole pages, drawn from the seed. What SQLite cannot tell is checked: the bodies have a pattern."""
    ids = filled(db)
    dice = random.Random(seed)
    content = bytearray(db.path.read_bytes())
    for page in dice.sample(range(len(content) // 4096), 3):
        content[page * 4096 : page * 4096 + 4096] = dice.randbytes(4096)
    db.path.write_bytes(content)

    try:
        with opened(db) as q:
            assert texts(q, ids) == TEXTS
            assert q.store.read(lambda tx: tx.query("counted_jobs")) == [("mail", "ready", JOBS)]
    except StoreDamaged:
        with pytest.raises(StoreDamaged), opened(db) as q:  # and it stays so
            kind_on(q).enqueue("after")


# -- the way out -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["removed", "emptied", "cut", "overwritten", "another"])
def test_a_copy_can_be_restored_whatever_became_of_the_file(db: Database, tmp_path: Path, how: str) -> None:
    ids = filled(db)
    with opened(db) as q:
        restore.backup(q.store, tmp_path / "copy.db")
    if how == "removed":
        db.path.unlink()
    else:
        content = db.path.read_bytes()
        became = {"emptied": b"", "cut": content[: len(content) // 2], "overwritten": bytes(8192), "another": content}
        db.path.write_bytes(became[how])
    if how == "another":
        (tmp_path / "second").mkdir()
        other = Database(db.name, f"sqlite:///{tmp_path}/second/jobs.db", db.driver)
        filled(other)
        with opened(other) as q:
            restore.backup(q.store, tmp_path / "copy.db", replace=True)

    restore.restore(db.path, tmp_path / "copy.db", lambda: 1e9, db.driver)

    with opened(db) as q:
        assert texts(q, ids) == TEXTS
        assert kind_on(q).enqueue("after").created
    kept = [each for each in tmp_path.iterdir() if ".damaged-" in each.name and each.name.endswith("Z")]
    assert bool(kept) == (how in ("emptied", "cut", "overwritten"))


def test_a_store_that_is_refused_leaves_the_library_free(db: Database) -> None:
    filled(db)
    kept = db.path.read_bytes()
    db.path.write_bytes(bytes(8192))
    with pytest.raises(StoreError), opened(db) as q:
        kind_on(q).enqueue("after")

    db.path.write_bytes(kept)

    with opened(db) as q:
        assert kind_on(q).enqueue("after").created
