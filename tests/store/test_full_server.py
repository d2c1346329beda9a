"""PostgreSQL on a disk that fills up: it is said, nothing is half-written, and it goes on when there is room."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from tests.databases import POSTGRES, Database
from tests.postgres import schema, server_url
from tests.store.jobs import Clock, Jobs, new
from tidegate.errors import StoreFull
from tidegate.jobs import outcome

_PLACE = "tg_small_disk"


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A place of a few MB that belongs to whoever runs the server."""
    folder = Path(tempfile.mkdtemp(prefix="tidegate-small-"))
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)]
    here = os.geteuid() == 0 and "TEST_DATABASE_URL" not in os.environ
    if not here or subprocess.run(mount, check=False, capture_output=True).returncode:
        folder.rmdir()
        pytest.skip("only root can mount a small disk for a server of its own")
    try:
        place = folder / "place"
        place.mkdir()
        folder.chmod(0o755)
        with psycopg.connect(server_url(), autocommit=True) as server:
            data = str(server.execute("show data_directory").fetchall()[0][0])
            owner = Path(data).stat()
            os.chown(place, owner.st_uid, owner.st_gid)
            server.execute(SQL("create tablespace {} location {}").format(Identifier(_PLACE), str(place)))
        yield folder
        with psycopg.connect(server_url(), autocommit=True) as server:
            server.execute(SQL("drop tablespace {}").format(Identifier(_PLACE)))
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
        shutil.rmtree(folder, ignore_errors=True)


def test_a_server_whose_disk_fills_up_loses_nothing_that_was_acknowledged(small_disk: Path, clock: Clock) -> None:
    with schema(fresh=True) as url:
        store = Database(POSTGRES, url).open(clock)
        jobs = Jobs(store, clock)
        jobs.migrate()
        (first,) = jobs.put(new())
        (held,) = jobs.claim()
        # The rest of the disk is for their index, and for what the last of them needs to end.
        store.write(lambda tx: tx.execute(f"alter table tg_job set tablespace {_PLACE}"))
        ballast = small_disk / "ballast"
        ballast.write_bytes(b"x" * 3_000_000)

        known = [first.id, *filled(jobs)]
        ballast.unlink()
        known += [each.id for each in jobs.put(*(new(args=text(n)) for n in range(5)))]  # there is room again
        jobs.settle(outcome.done(held, None))

        assert [row[0] for row in jobs.sql("select id from tg_job order by id")] == sorted(known)
        assert jobs.stage(first.id) == "done"
        jobs.check()
        store.close()


def filled(jobs: Jobs) -> list[int]:
    """Puts jobs in until there is no room, and tries some more; the ids of those that were acknowledged."""
    known: list[int] = []
    refusals: list[str] = []
    for n in range(10_000):
        try:
            known += [each.id for each in jobs.put(*(new(args=text(5 * n + i)) for i in range(5)))]
        except StoreFull as error:
            refusals.append(str(error))
        if len(refusals) == 3:
            assert "No space left on device" in refusals[0]
            return known
    raise AssertionError("the disk is not full")


def text(n: int) -> str:
    """As long as a page takes it without putting it elsewhere."""
    return f"{n:06}" + "x" * 1500
