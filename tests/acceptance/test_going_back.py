"""A replica that lacks the last commits takes over, and nobody says so: workers find out before they write anything."""

from __future__ import annotations

import contextlib
import json
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests import pgbouncer
from tests.acceptance.chaos import still_open
from tests.acceptance.checker import rows
from tests.acceptance.crew import crew
from tests.acceptance.pg_server import own_server
from tests.acceptance.program import Effect, Orders, Program
from tests.acceptance.test_pauses import wait_until
from tidegate.jobs.function import JobFunction
from tidegate.jobs.restore import JUMP

# Only the fence tells an old attempt from a new one: no lease ends, and all heartbeats are older than what is lost.
NUMBERS = {"lease": 300.0, "renew_every": 100.0, "margin": 1.0, "sweep_every": 0.3, "poll_every": 0.3, "grace": 5.0}
WORKERS, CONCURRENCY = 2, 6
DONE = "select count(*) from tg_job where state = 'done'"
LATE = "select count(*) from tg_event where kind = 'stale_result'"
EARLIER, LATER = range(1, 20), range(JUMP + 1, JUMP + 50)  # fences before and after the failover


@pytest.mark.timeout(600)
@pytest.mark.parametrize("pooled", [False, pytest.param(True, marks=pytest.mark.full)], ids=["direct", "pooled"])
def test_a_replica_that_is_behind_takes_over_and_only_what_it_lacks_is_lost(tmp_path: Path, pooled: bool) -> None:
    effects, log = tmp_path / "effects.txt", tmp_path / "workers.log"
    effects.touch()
    with contextlib.ExitStack() as stack:
        primary = stack.enter_context(own_server())
        standby = stack.enter_context(primary.standby())
        move: Callable[[], None]
        if pooled:
            pooler = stack.enter_context(pgbouncer.running(primary.url, pool_size=4))
            url, move = pooler.url(primary.url), lambda: pooler.move_to(standby.url)
        else:
            url, move = f"{primary.url},{standby.folder}&target_session_attrs=read-write", lambda: None
        orders = Orders(url=url, effects=str(effects), log=str(log), concurrency=CONCURRENCY, numbers=NUMBERS)
        program = Program(orders)
        stack.callback(program.q.close)
        quick, blocks = program.kinds

        def put(kind: JobFunction[[Effect], Any], numbers: range, until: str = "") -> set[int]:
            return {job.id for job in kind.enqueue_many([(Effect(n, until=until),) for n in numbers])}

        def release(file: str, fences: range) -> None:
            for fence in fences:
                (tmp_path / f"{file}{fence}").touch()

        before = put(quick, range(20))
        people = stack.enter_context(crew(orders, WORKERS))
        wait_until(lambda: rows(primary.url, DONE) == [(20,)])
        undone = put(blocks, range(20, 20 + WORKERS * CONCURRENCY), f"{tmp_path}/first")  # every slot is taken
        wait_until(lambda: undone <= set(begun(effects)))
        for worker in people.at_work:  # it claims ahead of its slots
            people.pause(worker, 600)
        wait_until(lambda: all(psutil.Process(each.pid).status() == psutil.STATUS_STOPPED for each in people.at_work))
        taken = put(blocks, range(50, 54), f"{tmp_path}/second")
        standby.wait_until_current()
        standby.detach()
        people.resume(everybody=True)

        # The replica gets nothing of this: results, new jobs, and the leases of jobs that it knows.
        release("first", EARLIER)
        wait_until(lambda: taken <= set(begun(effects)))
        lost = put(quick, range(100, 180))
        wait_until(lambda: rows(primary.url, DONE) == [(20 + len(undone) + len(lost),)])
        standby.promote()
        move()

        # Each job is begun again while its first attempt is still at work, which ends first.
        release("first", LATER)
        wait_until(lambda: all(max(begun(effects)[id_]) > JUMP for id_ in taken | undone), patience=120)
        release("second", EARLIER)
        wait_until(lambda: rows(standby.url, LATE)[0][0] >= len(taken))
        release("second", LATER)
        again = put(quick, range(100, 180))
        wait_until(lambda: still_open(standby.url) == 0, patience=120)
        found = rows(standby.url, "select id, state, fence, result from tg_job")
        jobs = {id_: (state, fence, json.loads(result)) for id_, state, fence, result in found}
        ends = defaultdict[int, list[int]](list)
        for id_, fence in rows(standby.url, "select job, fence from tg_event where kind = 'done'"):
            ends[id_].append(fence)
        epoch = rows(standby.url, "select value from tg_store where name = 'epoch'")
        assert people.unexpected == []

    assert set(jobs) == before | taken | undone | again
    assert not again & lost
    assert {state for state, _, _ in jobs.values()} == {"done"}
    assert all(len(found) == 1 for found in ends.values()), "each job has one recorded result"
    for id_ in before:
        assert list(begun(effects)[id_].items()) == [(ends[id_][0], 1)], "the replica knew that it was done"
    for id_ in taken | undone:
        _, fence, result = jobs[id_]
        assert JUMP < fence == result["fence"] == ends[id_][0], "no result of an attempt from before counts"
    assert epoch == [("1",)]


def begun(effects: Path) -> defaultdict[int, Counter[int]]:
    """How often each job was begun, by fence."""
    found: defaultdict[int, Counter[int]] = defaultdict(Counter)
    for line in effects.read_text().splitlines():
        id_, fence, _, _ = map(int, line.split())
        found[id_][fence] += 1
    return found
