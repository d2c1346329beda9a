"""What SQLite's file goes through: how it is opened, many writers, and where it lies."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.databases import APSW, SQLITE, STDLIB, Database, database
from tests.store.jobs import Clock, Jobs, new, sqlite
from tidegate.errors import StoreBusy, StoreError
from tidegate.store import sqlite_driver, sqlite_files
from tidegate.store.open import core_statements
from tidegate.store.sql import Dialect
from tidegate.store.sqlite import SqliteStore

BOTH_LIBRARIES = pytest.mark.parametrize("db", SQLITE, indirect=True)


@pytest.fixture(params=[APSW])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    with database(request.param, tmp_path) as found:
        yield found


@BOTH_LIBRARIES
def test_each_connection_is_durable_against_power_loss(db: Database) -> None:
    sqlite_driver.make_private(str(db.path))
    connection = sqlite_driver.connect(str(db.path), db.driver or "")

    def value(pragma: str) -> object:
        return connection.execute(f"pragma {pragma}")[0][0]

    safe = sqlite_driver.wal_is_safe(db.driver or "")
    assert value("journal_mode") == ("wal" if safe else "truncate")
    assert (value("synchronous"), value("busy_timeout"), value("mmap_size")) == (2, 10_000, 0)
    connection.close()


@BOTH_LIBRARIES
def test_two_that_open_a_new_file_at_once_both_get_it(db: Database, tmp_path: Path) -> None:
    def opened(path: Path) -> None:
        both.wait(10)
        sqlite_driver.make_private(str(path))
        sqlite_driver.connect(str(path), db.driver or "").close()

    both = threading.Barrier(2)
    with ThreadPoolExecutor(2) as pool:
        for n in range(300):  # about every seventh pair meets
            list(pool.map(opened, [tmp_path / f"{n}.db"] * 2))


@BOTH_LIBRARIES
def test_a_new_file_that_another_holds_is_refused_when_patience_ends(db: Database, tmp_path: Path) -> None:
    path = str(tmp_path / "new.db")
    sqlite_driver.make_private(path)
    holder = sqlite_driver.ApswDriver(path) if db.driver == "apsw" else sqlite_driver.StdlibDriver(path)
    holder.execute("begin exclusive")

    with pytest.raises(StoreBusy, match="locked"):
        sqlite_driver.connect(path, db.driver or "", patience=0.1)

    holder.close()


@pytest.mark.parametrize("name", ["only_lane", "pick"])
def test_a_statement_is_planned_once_whatever_values_it_is_given_later(jobs: Jobs, name: str) -> None:
    planned: list[str | None] = []

    def asked(_code: int, table: str | None, *_: object) -> int:
        """For each column, while a statement is planned; never while it runs."""
        planned.append(table)
        return 0

    sql = next(each.sql for each in core_statements(Dialect.SQLITE) if each.name == name)
    connection = sqlite_driver.connect(sqlite(jobs).url.removeprefix("sqlite:///"), "apsw")
    connection.raw.authorizer = asked

    def run(word: str, n: int) -> None:
        values = {"now": 0.0, "queue": word, "target": word, "lane": word, "n": n}
        connection.execute(sql, values)

    run("first", 1)
    assert "tg_job" in planned
    planned.clear()

    for n, word in enumerate(("second", "third", ""), 2):
        run(word, n)
    connection.close()

    assert "tg_job" not in planned


def test_a_library_with_a_known_fault_does_not_keep_a_wal(monkeypatch: pytest.MonkeyPatch) -> None:
    for version, safe in (((3, 40, 1), False), ((3, 51, 2), False), ((3, 51, 3), True), ((3, 54, 0), True)):
        monkeypatch.setattr(sqlite3, "sqlite_version_info", version)
        assert sqlite_driver.wal_is_safe("sqlite3") == safe


def test_a_library_that_is_too_old_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 34, 1))

    sqlite_driver.make_private(str(tmp_path / "x.db"))
    with pytest.raises(StoreError, match=r"SQLite 3\.34\.1"):
        sqlite_driver.connect(str(tmp_path / "x.db"), "sqlite3")


@pytest.mark.parametrize("db", [STDLIB], indirect=True)
def test_an_older_library_is_not_let_in_beside_a_newer_one_that_keeps_a_wal(db: Database, clock: Clock) -> None:
    if sqlite_driver.wal_is_safe("sqlite3"):
        pytest.skip("both libraries are new")
    code = (
        "import apsw, sys; c = apsw.Connection(sys.argv[1]); c.execute('pragma journal_mode = wal');"
        "c.execute('create table x (y)'); print(); sys.stdin.read()"
    )
    other = subprocess.Popen([sys.executable, "-c", code, str(db.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert other.stdout is not None
    other.stdout.readline()

    with pytest.raises(StoreBusy):
        SqliteStore(str(db.path), core_statements(Dialect.SQLITE), clock, "sqlite3", patience=0.05)
    other.communicate(b"")

    Jobs(db.open(clock), clock).store.close()


@BOTH_LIBRARIES
def test_thirty_two_threads_write_and_all_of_it_is_there(jobs: Jobs) -> None:
    def work(n: int) -> list[int]:
        return [jobs.put(new(f"{n} {k}", args=str(k)))[0].id for k in range(12)]

    with ThreadPoolExecutor(32) as pool:
        ids = [id_ for each in pool.map(work, range(32)) for id_ in each]

    assert len(set(ids)) == 32 * 12
    assert jobs.sql("select count(*) from tg_job") == [(32 * 12,)]


@BOTH_LIBRARIES
def test_one_that_fails_among_thirty_two_is_the_only_one(jobs: Jobs) -> None:
    def work(n: int) -> str:
        try:
            jobs.put(new(), new(parents=(999,)) if n % 2 else new())
        except ValueError:
            return "refused"
        return "written"

    with ThreadPoolExecutor(32) as pool:
        results = list(pool.map(work, range(64)))

    assert results == ["written", "refused"] * 32
    assert jobs.sql("select count(*) from tg_job") == [(64,)]


def test_one_job_writes_three_pages_and_no_more(db: Database, clock: Clock) -> None:
    first = Jobs(db.open(clock), clock)
    first.migrate()
    first.store.close()  # and its log is gone
    jobs = Jobs(db.open(clock), clock)
    for _ in range(20):
        jobs.one()
    log = Path(f"{db.path}-wal").read_bytes()
    jobs.store.close()

    page = 24 + int.from_bytes(log[8:12], "big")
    assert 3 * 20 <= (len(log) - 32) // page <= 3 * 20 + 4  # now and then one of them is full, and divided


@BOTH_LIBRARIES
def test_several_processes_write_to_one_file(db: Database, jobs: Jobs) -> None:
    code = (
        "import sys, time\nfrom tidegate.store.open import open_store\nfrom tidegate.jobs import insert as intake\n"
        "from tidegate.jobs.job import NewJob\nstore = open_store(sys.argv[1], now=time.time, driver=sys.argv[2])\n"
        "three = [NewJob(queue='q', kind='k', args='1')] * 3\n"
        "for n in range(40):\n    store.write(lambda tx: intake.enqueue(tx, three))\n"
        "print(store.read(lambda tx: len(tx.query('fronts', {'queues': '\\nq\\n', 'sep': '\\n', 'most': 9}))))"
    )
    children = [
        subprocess.Popen([sys.executable, "-c", code, db.url, db.driver or ""], stdout=subprocess.PIPE)
        for _ in range(3)
    ]
    jobs.put(*(new() for _ in range(5)))

    assert [child.communicate()[0].strip() for child in children] == [b"1"] * 3
    assert jobs.sql("select count(*) from tg_job") == [(3 * 40 * 3 + 5,)]


@BOTH_LIBRARIES
def test_a_write_of_another_connection_is_noticed(db: Database, jobs: Jobs, clock: Clock) -> None:
    store = sqlite(jobs)
    first = store.data_version()
    assert store.data_version() == first
    other = Jobs(db.open(clock), clock)
    other.one()

    assert store.data_version() != first
    other.store.close()


# -- where the file lies ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "fuse.sshfs", "9p", "ceph", "smb3"])
def test_a_network_file_system_is_refused(tmp_path: Path, kind: str) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/sda / ext4 rw 0 0\nserver:/x {tmp_path}/net {kind} rw 0 0\n")

    with pytest.raises(StoreError, match=f"network file system \\({kind}\\)"):
        sqlite_files.require(str(tmp_path / "net" / "deep" / "jobs.db"), str(mounts))
    sqlite_files.require(str(tmp_path / "network.db"), str(mounts))
    sqlite_files.require(str(tmp_path / "nets" / "jobs.db"), str(mounts))


def test_the_nearest_mount_decides_and_links_are_followed(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    disk = f"{tmp_path}/my\\040disk"
    mounts.write_text(f"s:/ / nfs rw 0 0\n/dev/sdb {disk} ext4 rw 0 0\ns:/y {disk}/n nfs rw 0 0\n")
    (tmp_path / "my disk" / "n").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "my disk" / "n")

    sqlite_files.require(str(tmp_path / "my disk" / "jobs.db"), str(mounts))
    for path in ("my disk/n/jobs.db", "link/jobs.db", "other/jobs.db"):
        with pytest.raises(StoreError):
            sqlite_files.require(str(tmp_path / path), str(mounts))


def test_where_mounts_cannot_be_read_nothing_is_said(tmp_path: Path) -> None:
    sqlite_files.require(str(tmp_path / "jobs.db"), str(tmp_path / "no such file"))
    (tmp_path / "odd").write_text("\n\nnonsense\n")
    sqlite_files.require(str(tmp_path / "jobs.db"), str(tmp_path / "odd"))
