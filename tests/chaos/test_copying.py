"""A copy is made, or it is said why not."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, cast

import apsw
import pytest

from tests.acceptance.pg_server import Server
from tests.chaos.campaign import COPIED, Outcome, Plan
from tests.chaos.copies import Copies
from tests.chaos.report import table
from tests.text import numbers


class Tools:
    """Of a server that cannot do it, for these reasons, one after the other; then it can."""

    def __init__(self, *whys: Exception) -> None:
        self._whys = list(whys)

    def tool(self, *command: Any) -> None:
        if self._whys:
            raise self._whys.pop(0)


def copies(folder: Path, *whys: Exception) -> Copies:
    database = apsw.Connection(str(folder / "jobs.db"))
    database.execute("create table tg_job (id, state)")
    database.close()
    return Copies(f"sqlite:///{folder / 'jobs.db'}", folder, cast("Server", Tools(*whys)))


def outcome(folder: Path, found: Copies) -> Outcome:
    made = Outcome(Plan("sqlite", seconds=1, seed=1, folder=folder))
    made.copied(found)
    return made


def test_a_copy_that_cannot_be_made_just_now_is_no_promise_broken_where_another_one_is(tmp_path: Path) -> None:
    found = copies(tmp_path, RuntimeError("the disk is full"))

    assert [found.make(), found.make()] == [False, True]
    assert (found.failed, found.unmade()) == (["the disk is full"], [])


def test_a_run_fails_in_which_no_copy_could_be_made(tmp_path: Path) -> None:
    found = copies(tmp_path, RuntimeError("the disk is full"), RuntimeError("there is no\n  pg_dump"))
    assert [found.make(), found.make()] == [False, False]
    run = outcome(tmp_path, found)

    assert run.wrong == {COPIED: ["the disk is full", "there is no pg_dump"]}
    assert f"BROKEN on sqlite: {COPIED}: 2" in table([run])
    assert (run.figures["copies made, and put back"], run.figures["copies not made"]) == (0, 2)


def test_a_run_to_which_no_copy_belongs_does_not_fail_for_it(tmp_path: Path) -> None:
    assert outcome(tmp_path, copies(tmp_path)).wrong == {}


def test_the_first_copy_is_tried_until_it_is_made(tmp_path: Path) -> None:
    found = copies(tmp_path, RuntimeError("it restarts"), RuntimeError("it starts"))
    found.make_one(threading.Event(), pause=0)

    assert (len(found.failed), len(found.made)) == (2, 1)


def test_it_is_not_tried_again_after_the_fire(tmp_path: Path) -> None:
    found, over = copies(tmp_path, RuntimeError("it restarts")), threading.Event()
    over.set()
    found.make_one(over, pause=60)

    assert (len(found.failed), len(found.made)) == (1, 0)


def test_one_that_ends_without_a_word_is(tmp_path: Path) -> None:
    found = copies(tmp_path, ValueError("what it said is no JSON"))

    with pytest.raises(ValueError, match="no JSON"):  # in a thread, for nobody to hear
        found.make()
    (wrong,) = found.wrong()
    assert numbers(wrong) == [1]
