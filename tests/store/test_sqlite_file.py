"""What SQLite's file goes through: many writers, copies while it is written to, and a disk that is full."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.databases import APSW, SQLITE, STDLIB, Database, database
from tests.store.jobs import Clock, Jobs, new
from tidegate.errors import StoreBusy, StoreError, StoreFull
from tidegate.machine import lifecycle
from tidegate.store import local_disk, sqlite_driver
from tidegate.store.dialect import Dialect
from tidegate.store.opening import core_statements
from tidegate.store.sqlite import SqliteStore

BOTH_LIBRARIES = pytest.mark.parametrize("db", SQLITE, indirect=True)


@pytest.fixture(params=[APSW])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    with database(request.param, tmp_path) as found:
        yield found


def sqlite(jobs: Jobs) -> SqliteStore:
    assert isinstance(jobs.store, SqliteStore)
    return jobs.store


@BOTH_LIBRARIES
def test_each_connection_is_durable_against_power_loss(db: Database) -> None:
    connection = sqlite_driver.connect(str(db.path), db.driver or "")

    def value(pragma: str) -> object:
        return connection.execute(f"pragma {pragma}")[0][0]

    safe = sqlite_driver.wal_is_safe(db.driver or "")
    assert value("journal_mode") == ("wal" if safe else "truncate")
    assert (value("synchronous"), value("busy_timeout"), value("mmap_size")) == (2, 10_000, 0)
    connection.close()


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
        values = {"now": 0.0, "queue": word, "target": word, "lane": word, "n": n, "newest": n}
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

    with pytest.raises(StoreError, match=r"SQLite 3\.34\.1 is too old"):
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


@BOTH_LIBRARIES
def test_several_processes_write_to_one_file(db: Database, jobs: Jobs) -> None:
    code = (
        "import sys, time\nfrom tidegate.store.opening import open_store\nfrom tidegate.store import intake\n"
        "from tidegate.core.job import NewJob\nstore = open_store(sys.argv[1], now=time.time, driver=sys.argv[2])\n"
        "three = [NewJob(queue='q', kind='k', args='1')] * 3\n"
        "for n in range(40):\n    store.write(lambda tx: intake.enqueue(tx, three))\n"
        "print(store.read(lambda tx: len(tx.all('fronts', {'queues': '\\nq\\n', 'sep': '\\n', 'most': 9}))))"
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


# -- copies -----------------------------------------------------------------------------------------------------


@BOTH_LIBRARIES
def test_a_copy_that_is_made_while_others_write_is_whole(db: Database, jobs: Jobs, tmp_path: Path) -> None:
    stop = threading.Event()

    def write() -> int:
        n = 0
        while not stop.is_set():
            held = jobs.claim(2)
            jobs.put(new(), new())
            jobs.settle(*(lifecycle.done(job, None) for job in held))
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
    assert copy.store.read(lambda tx: tx.all("counted_jobs"))[0][2] == 1200
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


# -- a full disk ------------------------------------------------------------------------------------------------


@BOTH_LIBRARIES
@pytest.mark.req("CNV-04")
def test_a_full_disk_is_said_nothing_is_half_written_and_it_goes_on_when_there_is_room(
    db: Database, jobs: Jobs
) -> None:
    jobs.put(*(new(str(n)) for n in range(20)))
    (held, *_) = jobs.claim(20)
    store = sqlite(jobs)

    def room(pages: int) -> None:
        store.write(lambda tx: tx.plain(f"pragma max_page_count = {pages}"))

    used = jobs.sql("pragma page_count")[0][0]
    room(used)
    before = jobs.sql("select count(*) from tg_job"), jobs.tallies()

    for _ in range(3):
        with pytest.raises(StoreFull):
            jobs.put(*(new(args="x" * 20_000) for _ in range(10)))
    assert (jobs.sql("select count(*) from tg_job"), jobs.tallies()) == before
    assert jobs.renew(held)[0].extended  # what needs no room goes on
    room(1_000_000)
    jobs.put(*(new(args="x" * 20_000) for _ in range(10)))
    jobs.settle(lifecycle.done(held, None))

    assert jobs.sql("select count(*) from tg_job") == [(30,)]
    assert store.check() == []


@BOTH_LIBRARIES
def test_on_a_full_disk_those_who_fit_are_written(jobs: Jobs) -> None:
    store = sqlite(jobs)
    jobs.put(*(new(args="x" * 3000) for _ in range(200)))
    for job in jobs.claim(200):
        jobs.settle(lifecycle.done(job, None))
        jobs.forget(job.id)  # pages that can be used again
    free, used = jobs.sql("pragma freelist_count")[0][0], jobs.sql("pragma page_count")[0][0]
    assert free > 50
    store.write(lambda tx: tx.plain(f"pragma max_page_count = {used}"))

    def work(n: int) -> bool:
        try:
            jobs.put(new(args="x" * (10_000_000 if n % 4 == 0 else 10)))
        except StoreFull:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(work, range(32)))

    assert results == [n % 4 != 0 for n in range(32)]
    assert jobs.sql("select count(*) from tg_job") == [(24,)]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    if (
        os.geteuid() != 0
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)], check=False, capture_output=True
        ).returncode
    ):
        pytest.skip("only root can mount a small disk")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@BOTH_LIBRARIES
@pytest.mark.req("CNV-04")
def test_a_real_disk_that_fills_up_loses_nothing_that_was_acknowledged(
    db: Database, small_disk: Path, clock: Clock
) -> None:
    (small_disk / "ballast").write_bytes(b"x" * 600_000)
    jobs = Jobs(Database(db.name, f"sqlite:///{small_disk / 'jobs.db'}", db.driver).open(clock), clock)
    jobs.migrate()
    known = fill(jobs)
    (small_disk / "ballast").unlink()
    known += [jobs.one()]  # there is room again
    known += fill(jobs)

    found = [row[0] for row in jobs.sql("select id from tg_job order by id")]
    assert found == sorted(known)
    jobs.check()
    assert sqlite(jobs).check() == []
    jobs.store.close()


def fill(jobs: Jobs) -> list[int]:
    """Puts jobs in until there is no room; the ids of those that were acknowledged."""
    known: list[int] = []
    for _ in range(10_000):
        try:
            known += [each.id for each in jobs.put(*(new(args="x" * 4000) for _ in range(5)))]
        except StoreFull:
            return known
    raise AssertionError("the disk is not full")


# -- where the file lies ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "fuse.sshfs", "9p", "ceph", "smb3"])
def test_a_network_file_system_is_refused(tmp_path: Path, kind: str) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/sda / ext4 rw 0 0\nserver:/x {tmp_path}/net {kind} rw 0 0\n")

    with pytest.raises(StoreError, match=f"network file system \\({kind}\\)"):
        local_disk.require(str(tmp_path / "net" / "deep" / "jobs.db"), str(mounts))
    local_disk.require(str(tmp_path / "network.db"), str(mounts))
    local_disk.require(str(tmp_path / "nets" / "jobs.db"), str(mounts))


def test_the_nearest_mount_decides_and_links_are_followed(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    disk = f"{tmp_path}/my\\040disk"
    mounts.write_text(f"s:/ / nfs rw 0 0\n/dev/sdb {disk} ext4 rw 0 0\ns:/y {disk}/n nfs rw 0 0\n")
    (tmp_path / "my disk" / "n").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "my disk" / "n")

    local_disk.require(str(tmp_path / "my disk" / "jobs.db"), str(mounts))
    for path in ("my disk/n/jobs.db", "link/jobs.db", "other/jobs.db"):
        with pytest.raises(StoreError):
            local_disk.require(str(tmp_path / path), str(mounts))


def test_where_mounts_cannot_be_read_nothing_is_said(tmp_path: Path) -> None:
    local_disk.require(str(tmp_path / "jobs.db"), str(tmp_path / "no such file"))
    (tmp_path / "odd").write_text("\n\nnonsense\n")
    local_disk.require(str(tmp_path / "jobs.db"), str(tmp_path / "odd"))
