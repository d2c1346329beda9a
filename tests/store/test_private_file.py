"""What jobs carry is not for everybody on the machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidegate.jobs import restore
from tidegate.jobs.queue import Queue


@pytest.fixture(params=[0o022, 0o007, 0o077, 0o000])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


@pytest.mark.parametrize("driver", ["apsw", "sqlite3"])
def test_a_new_database_is_not_for_everybody_and_the_umask_decides_about_the_group(
    tmp_path: Path, umask: int, driver: str
) -> None:
    file, copy, back = (tmp_path / name for name in ("jobs.db", "copy.db", "back.db"))
    with Queue(f"sqlite:///{file}", driver=driver) as queue:
        queue.store.now()
        modes = {each.stat().st_mode & 0o777 for each in tmp_path.iterdir()}
        restore.backup(queue.store, copy)
    restore.restore(back, copy, lambda: 0.0, driver)

    assert modes == {0o660 & ~umask}
    assert copy.stat().st_mode & 0o777 == 0o600
    assert back.stat().st_mode & 0o777 == 0o660 & ~umask


def test_a_database_that_is_there_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "jobs.db").touch(0o644)
    (tmp_path / "jobs.db").chmod(0o644)
    with Queue(f"sqlite:///{tmp_path}/jobs.db") as queue:
        queue.store.now()

    assert (tmp_path / "jobs.db").stat().st_mode & 0o777 == 0o644
