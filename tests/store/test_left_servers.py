"""What a run that was killed left of its PostgreSQL is removed by the next one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.postgres import PREFIX, reap


def folder(place: Path, owner: int, postmaster: int | None = None) -> Path:
    made = place / f"{PREFIX}left"
    made.mkdir()
    (made / ".handle_pids.json").write_text(json.dumps([owner]))
    if postmaster is not None:
        (made / "postmaster.pid").write_text(f"{postmaster}\n{made}\n")
    return made


@pytest.fixture(scope="module")
def ended() -> int:
    """The number of a process that is no more."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@pytest.mark.parametrize("says", ["nothing", "one that is gone", "one that is no server"])
def test_the_folder_of_a_server_that_is_gone_goes_whatever_it_says_of_the_server(
    says: str, ended: int, tmp_path: Path
) -> None:
    postmaster = {"nothing": None, "one that is gone": ended, "one that is no server": os.getpid()}[says]
    left = folder(tmp_path, ended, postmaster)
    reap(tmp_path)
    assert not left.exists()


def test_the_folder_of_a_run_that_goes_on_stays(tmp_path: Path) -> None:
    mine = folder(tmp_path, os.getpid())
    reap(tmp_path)
    assert mine.exists()
