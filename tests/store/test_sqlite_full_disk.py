"""SQLite's file on a disk that is full: that is said, and nothing is half written."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.databases import SQLITE, Database
from tests.store.jobs import Clock, Jobs, new, sqlite
from tidegate.errors import StoreFull
from tidegate.jobs import outcome

BOTH_LIBRARIES = pytest.mark.parametrize("db", SQLITE, indirect=True)


@BOTH_LIBRARIES
@pytest.mark.req("CNV-04")
def test_a_full_disk_is_said_nothing_is_half_written_and_it_goes_on_when_there_is_room(
    db: Database, jobs: Jobs
) -> None:
    jobs.put(*(new(str(n)) for n in range(20)))
    (held, *_) = jobs.claim(20)
    store = sqlite(jobs)

    def room(pages: int) -> None:
        store.write(lambda tx: tx.execute(f"pragma max_page_count = {pages}"))

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
    jobs.settle(outcome.done(held, None))

    assert jobs.sql("select count(*) from tg_job") == [(30,)]
    assert store.check() == []


@BOTH_LIBRARIES
def test_on_a_full_disk_those_who_fit_are_written(jobs: Jobs) -> None:
    store = sqlite(jobs)
    jobs.put(*(new(args="x" * 3000) for _ in range(200)))
    for job in jobs.claim(200):
        jobs.settle(outcome.done(job, None))
        jobs.forget(job.id)  # pages that can be used again
    free, used = jobs.sql("pragma freelist_count")[0][0], jobs.sql("pragma page_count")[0][0]
    assert free > 50
    store.write(lambda tx: tx.execute(f"pragma max_page_count = {used}"))

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
