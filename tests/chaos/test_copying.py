"""A copy is made, or it is said why not."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import apsw
import pytest

from tests.acceptance.pg_server import Server
from tests.chaos.copies import Copies


class Tools:
    """Of a server that can do nothing, for this reason."""

    def __init__(self, why: Exception) -> None:
        self._why = why

    def tool(self, *command: Any) -> None:
        raise self._why


def copies(folder: Path, why: Exception) -> Copies:
    database = apsw.Connection(str(folder / "jobs.db"))
    database.execute("create table tg_job (id, state)")
    database.close()
    return Copies(f"sqlite:///{folder / 'jobs.db'}", folder, cast("Server", Tools(why)))


def test_a_copy_that_cannot_be_made_just_now_is_no_promise_broken(tmp_path: Path) -> None:
    found = copies(tmp_path, RuntimeError("the disk is full"))

    assert not found.make()
    assert (found.failed, found.wrong()) == (["the disk is full"], [])


def test_one_that_ends_without_a_word_is(tmp_path: Path) -> None:
    found = copies(tmp_path, ValueError("what it said is no JSON"))

    with pytest.raises(ValueError, match="no JSON"):  # in a thread, for nobody to hear
        found.make()
    assert found.wrong() == ["copies that ended without a word: 1"]
