"""What the leader removes: old events, notices and leads that ended, answers of yesterday; a slice at a time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.databases import BOTH, Database
from tests.jobs.gating import play, queue_on, working
from tests.store.jobs import rows
from tidegate import idempotency, outbox
from tidegate.clock import VirtualClock
from tidegate.guard.cooldown import CooldownState
from tidegate.jobs.queue import Queue
from tidegate.outbox import NewNotice, NoticeSubject
from tidegate.store.base import Tx
from tidegate.targets import table as target_table
from tidegate.targets.table import StoredKeyHealth

pytestmark = pytest.mark.parametrize("db", BOTH, indirect=True)

DAY = 86_400


def fill(tx: Tx, n: int) -> None:
    """So many of each; every other notice has ended."""
    for i in range(n):
        target_table.append_event(tx, "target", "svc", "target_paused", "ada")
        place = NoticeSubject(subject="target", name="svc", lane=str(i))
        told = NewNotice(kind="fatal", level="error", place=place, episode=float(i), title="T", message="M.")
        outbox.raise_notice(tx, told)
        if i % 2:
            outbox.resolve_notices(tx, place)
        idempotency.begin(tx, f"k{i}", "ada POST /", "d")
        tx.query("lead", {"name": f"probe:{i}", "holder": "gone", "lease": 2.0 * DAY})


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


HOUR = 3600.0
KEPT: dict[str, StoredKeyHealth] = {
    "young": StoredKeyHealth(target="svc", lane="young", reason="backoff", since=0.0, until=1.5 * DAY, failures=1),
    "fatal": StoredKeyHealth(target="svc", lane="fatal", reason="fatal", since=0.0, until=HOUR, failures=1),
    "endless": StoredKeyHealth(target="svc", lane="endless", reason="backoff", since=0.0, until=None, failures=1),
    "told": StoredKeyHealth(target="svc", lane="told", reason="backoff", since=0.0, until=HOUR, failures=9, told=2),
    "counted": StoredKeyHealth(
        target="svc", lane="counted", reason="backoff", since=0.0, until=HOUR, failures=1,
        rest=CooldownState(failing_code="not_found", failing_count=1),
    ),
    "resting": StoredKeyHealth(
        target="svc", lane="resting", reason="cooldown", since=0.0, until=HOUR, failures=1,
        rest=CooldownState(disabled_at=0.0, until=HOUR, by="auto", reason="not_found"),
    ),
}  # fmt: skip


def test_keys_that_failed_once_and_were_never_used_again_are_forgotten_and_no_others(db: Database) -> None:
    clock = VirtualClock(start=0.0)
    with queue_on(db, clock) as q:

        @q.job()
        async def nothing(x: int) -> None: ...

        def fill(tx: Tx) -> None:
            for n in range(2500):
                reason, until = ("backoff", HOUR) if n % 2 else (target_table.NOT_HELD, 0.0)
                row = StoredKeyHealth(target="svc", lane=f"k{n}", reason=reason, since=0.0, until=until, failures=1)
                target_table.put_hold(tx, row)
            for row in KEPT.values():
                target_table.put_hold(tx, row)

        async def main() -> list[int]:
            seen = []
            for day in (0.9, 2.0, 8.0):
                await asyncio.sleep(day * DAY - clock.monotonic())
                async with working(q, sweep_every=300.0, poll_every=900.0):
                    await asyncio.sleep(1900)
                seen.append(rows(q.store, "select count(*) from tg_hold")[0][0])
            return seen

        q.store.write(fill)
        assert play(clock, main) == [2500 + len(KEPT), len(KEPT), len(KEPT) - 2]
        assert {row[0] for row in rows(q.store, "select lane from tg_hold")} == KEPT.keys() - {"young", "counted"}


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
