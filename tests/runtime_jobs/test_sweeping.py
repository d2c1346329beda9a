"""What the leader removes: old events, notices and leads that ended, answers of yesterday; a slice at a time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.databases import BOTH, Database
from tests.runtime_jobs.gating import play, queue_on, working
from tests.store.jobs import rows
from tidegate.face.queue import Queue
from tidegate.ops import idempotency
from tidegate.runtime.clock import VirtualClock
from tidegate.store import gate_rows, notice_rows
from tidegate.store.notice_rows import NewNotice, Place
from tidegate.store.tx import Tx

pytestmark = pytest.mark.parametrize("db", BOTH, indirect=True)

DAY = 86_400


def fill(tx: Tx, n: int) -> None:
    """So many of each; every other notice has ended."""
    for i in range(n):
        gate_rows.happened(tx, "target", "svc", "target_paused", "ada")
        place = Place(subject="target", name="svc", lane=str(i))
        told = NewNotice(kind="fatal", level="error", place=place, episode=float(i), title="T", message="M.")
        notice_rows.raised(tx, told)
        if i % 2:
            notice_rows.ended(tx, place)
        idempotency.begin(tx, f"k{i}", "ada POST /", "d")
        tx.all("lead", {"name": f"probe:{i}", "holder": "gone", "lease": 2.0 * DAY})


def left(q: Queue) -> dict[str, int]:
    found: dict[str, Any] = {}
    for table in ("tg_gate_event", "tg_notice", "tg_request"):
        found[table] = rows(q.store, f"select count(*) from {table}")[0][0]
    found["probes"] = rows(q.store, "select count(*) from tg_leader where name like 'probe:%'")[0][0]
    return found


def test_what_nobody_needs_any_more_goes_by_itself_and_what_is_open_stays(db: Database) -> None:
    clock = VirtualClock()
    n = 410  # more than two slices, and half of them more than one
    with queue_on(db, clock) as q:

        @q.job()
        async def nothing(x: int) -> None: ...

        async def main() -> list[dict[str, int]]:
            seen = []
            for day in (0.9, 1.1, 29.9, 30.1):
                await asyncio.sleep(day * DAY - clock.monotonic())
                async with working(q, sweep_every=300.0, poll_every=900.0):
                    await asyncio.sleep(900)
                seen.append(left(q))
            return seen

        q.store.write(lambda tx: fill(tx, n))
        assert play(clock, main) == [
            {"tg_gate_event": n, "tg_notice": n, "tg_request": n, "probes": n},
            {"tg_gate_event": n, "tg_notice": n, "tg_request": 0, "probes": n},
            {"tg_gate_event": n, "tg_notice": n, "tg_request": 0, "probes": 0},
            {"tg_gate_event": 0, "tg_notice": n // 2, "tg_request": 0, "probes": 0},
        ]
        assert rows(q.store, "select count(*) from tg_notice where ended_at is not null") == [(0,)]


def test_a_worker_finds_what_becomes_old_while_it_works(db: Database) -> None:
    clock = VirtualClock()
    with queue_on(db, clock) as q:

        @q.job()
        async def nothing(x: int) -> None: ...

        async def main() -> list[int]:
            async with working(q, sweep_every=300.0, poll_every=900.0):
                await asyncio.sleep(0.99 * DAY)
                young = left(q)["tg_request"]
                await asyncio.sleep(0.1 * DAY)
                return [young, left(q)["tg_request"]]

        q.store.write(lambda tx: fill(tx, 3))
        assert play(clock, main) == [3, 0]
