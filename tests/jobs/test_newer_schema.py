"""A worker that runs while another version migrates its database: it claims nothing more, and settles what it has."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.databases import BOTH, Database, database
from tests.jobs.gating import play, queue_on, working
from tidegate.clock import VirtualClock
from tidegate.jobs import reports
from tidegate.jobs.function import Enqueued
from tidegate.jobs.job import JobState
from tidegate.store.migrate import CORE, Migration, core_migrations, migrate


@pytest.fixture(params=BOTH)
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    with database(request.param, tmp_path, fresh=True) as found:
        yield found


def next_version() -> list[Migration]:
    steps = core_migrations()
    return [*steps, Migration(CORE, len(steps) + 1, "next", "alter table tg_job add column of_the_next integer;")]


def test_a_worker_claims_nothing_of_a_schema_that_is_newer_than_it_and_settles_what_it_has(
    db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    clock = VirtualClock()
    with queue_on(db, clock) as q:

        @q.job(name="slow")
        async def slow(n: int) -> int:
            await asyncio.sleep(100)  # longer than its lease
            return n

        before = slow.enqueue(1)

        async def main() -> tuple[list[str], list[bool]]:
            async with working(q, poll_every=1.0, grace=200):
                await asyncio.sleep(5)
                migrate(q.store, next_version())
                after.append(slow.enqueue(2))
                await asyncio.sleep(120)
                whys = [str(why.reason) for why in q.explain(after[0])]
                return whys, [each.outdated for each in q.store.read(reports.workers)]

        after: list[Enqueued[int]] = []
        with caplog.at_level(logging.ERROR, "tidegate.worker"):
            assert play(clock, main) == (["no_worker"], [True])

        assert (q.get(before).state, q.get(before).deaths, q.get(before).attempt) == (JobState.DONE, 0, 1)
        assert (q.get(after[0]).stage, q.get(after[0]).attempt) == ("ready", 0)
        assert len([line for line in caplog.messages if line.startswith("schema_too_new")]) == 1


def test_a_worker_goes_on_when_another_application_gets_its_tables(db: Database) -> None:
    clock = VirtualClock()
    with queue_on(db, clock) as q:

        @q.job(name="quick")
        async def quick(n: int) -> int:
            return n

        async def main() -> None:
            async with working(q, poll_every=1.0):
                await asyncio.sleep(5)
                migrate(q.store, [Migration("other", 1, "first", "create table other_thing (id integer);")])
                put.append(quick.enqueue(2))
                await asyncio.sleep(60)

        put: list[Enqueued[int]] = []
        play(clock, main)

        assert q.get(put[0]).state is JobState.DONE
