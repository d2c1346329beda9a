from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.apps.convert.building import Place
from tests.apps.convert.building import place as made
from tests.databases import database


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """Convert on SQLite."""
    with database("sqlite-apsw", tmp_path) as db, made(db, tmp_path) as found:
        yield found


@pytest.fixture(params=["sqlite-apsw", "postgres"])
def each(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Convert on either database."""
    with database(request.param, tmp_path) as db, made(db, tmp_path) as found:
        yield found


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own with room for a few files."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("only root can mount a small disk")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)
