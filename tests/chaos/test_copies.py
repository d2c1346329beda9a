"""Copies made while workers work and die can be put back; who worked before has no say in what was put back."""

from __future__ import annotations

import contextlib
import json
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.chaos import Feeder, Plan, still_open
from tests.acceptance.checker import rows
from tests.acceptance.crew import crew
from tests.acceptance.pg_server import Server, own_server
from tests.acceptance.program import Effect, Orders, Program
from tests.acceptance.test_pauses import begun, stand_still, wait_until
from tests.chaos.copies import Copies, tidegate
from tidegate.jobs.restore import JUMP

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

JOBS = 4
NUMBERS = {"lease": 4.0, "renew_every": 0.5, "margin": 0.5, "sweep_every": 0.1, "poll_every": 0.1, "grace": 5.0}


@contextlib.contextmanager
def place(database: str, folder: Path) -> Iterator[tuple[str, Server | None]]:
    if database == "sqlite":
        yield f"sqlite:///{folder / 'jobs.db'}", None
        return
    with own_server() as server:
        yield server.url, server


@pytest.mark.parametrize(("database", "times"), [("sqlite", 12), ("postgres", 4)])
def test_copies_made_under_load_are_sound_and_can_be_worked_on_to_their_end(
    tmp_path: Path, database: str, times: int
) -> None:
    dice = random.Random(times)
    (tmp_path / "copies").mkdir()
    with place(database, tmp_path) as (url, server):
        plan = Plan(url=url, lease=4.0)
        orders = Orders(
            url=url, effects=str(tmp_path / "effects"), log=str(tmp_path / "log"), numbers=plan.numbers
        )  # fmt: skip
        program, copies = Program(orders), Copies(url, tmp_path / "copies", server)
        feeder = Feeder(program, plan)
        assert program.q.store.now() > 0  # it is made now
        feeder.feed()
        with crew(orders, 3) as people, feeder.feeding():
            for _ in range(times):
                people.kill(dice.choice(people.at_work))
                people.fill()
                assert copies.make(), copies.failed
                time.sleep(dice.random())
        program.q.close()

        restored, wrong = copies.put_back(*copies.made[-1])
        assert [*wrong, *(each for copy in copies.made[:-1] for each in copies.put_back(*copy)[1])] == []
        before = {id_ for (id_,) in rows(restored, "select id from tg_job")}
        again = Orders(url=restored, effects=orders.effects, log=orders.log, numbers=plan.numbers)
        with crew(again, 1):
            wait_until(lambda: still_open(restored) == 0, patience=300)
        ended = rows(restored, "select id, state from tg_job")
        assert {id_ for id_, _ in ended} == before
        assert {state for _, state in ended} <= {"done", "failed"}  # three of its workers were killed: failed


def test_a_worker_of_before_a_restore_of_postgresql_settles_nothing_after_it(tmp_path: Path) -> None:
    effects, go = tmp_path / "effects.txt", tmp_path / "go"
    with own_server() as server:
        orders = Orders(url=server.url, effects=str(effects), log=str(tmp_path / "log"), numbers=NUMBERS)
        program = Program(orders)
        program.kinds[1].enqueue_many([(Effect(n, until=str(go)),) for n in range(JOBS)])
        server.tool("pg_dump", "-Fc", "-f", str(tmp_path / "copy"), server.url)
        with crew(orders, 1) as people:
            wait_until(lambda: len(begun(effects)) == JOBS)
            stand_still(people, server.url)
            program.q.close()
            server.tool("pg_restore", "--clean", "--if-exists", "-d", server.url, str(tmp_path / "copy"))
            assert tidegate("db", "restore", "--yes", "--db", server.url) == {"epoch": 1, "requeued": 0}
            for fence in (1, *range(JUMP + 1, JUMP + 50)):  # a slow machine may lose leases
                Path(f"{go}{fence}").touch()
            people.resume(everybody=True)
            people.size = 2  # the one of before may be busy with itself
            people.fill()
            wait_until(lambda: still_open(server.url) == 0, patience=120)
        found = rows(server.url, "select state, fence, result from tg_job")

    assert [state for state, _, _ in found] == ["done"] * JOBS
    assert all(json.loads(result)["fence"] == fence > JUMP for _, fence, result in found)
