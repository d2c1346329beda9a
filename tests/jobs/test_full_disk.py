"""A worker whose disk is full: what it has done is written when there is room, once, and nothing is tried again."""

from __future__ import annotations

import asyncio
import logging
import resource
from pathlib import Path

import pytest

from tests.jobs.building import queue
from tidegate.clock import VirtualClock
from tidegate.store.base import Tx


@pytest.mark.req("CNV-04")
@pytest.mark.parametrize(("way", "says"), [("full", "StoreFull"), ("over quota", "StoreBusy")])
def test_what_was_done_while_the_disk_was_full_is_written_when_there_is_room(
    tmp_path: Path, clock: VirtualClock, caplog: pytest.LogCaptureFixture, way: str, says: str
) -> None:
    with queue(tmp_path, clock) as q:
        ran: list[int] = []

        @q.job()
        async def heavy(n: int) -> str:
            ran.append(n)
            await asyncio.sleep(5)
            return "x" * 400_000

        def room(pages: int) -> None:
            def limit(tx: Tx) -> None:
                tx.execute(f"pragma max_page_count = {pages}")

            if way == "full":
                q.store.write(limit)
            else:  # of a quota, and of a broken disk, SQLite says only that the write failed
                _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
                resource.setrlimit(resource.RLIMIT_FSIZE, (0 if pages == 1 else hard, hard))

        handles = heavy.enqueue_many([(each,) for each in range(3)])

        async def main() -> None:
            stop = asyncio.Event()
            worker = asyncio.create_task(q.arun_worker(stop=stop))
            await asyncio.sleep(1)
            room(1)  # as many as there are: none more
            await asyncio.sleep(120)  # four leases
            assert {job.state() for job in handles} == {"running"}
            room(1_000_000)
            await asyncio.sleep(10)
            stop.set()
            await worker

        try:
            with caplog.at_level(logging.WARNING, "tidegate.worker"):
                clock.run(main())
        finally:
            room(1_000_000)

        assert sorted(ran) == [0, 1, 2]
        assert [(job.state(), job.get().attempt, len(job.result() or "")) for job in handles] == [
            ("done", 1, 400_000)
        ] * 3
        assert f"store_unavailable error={says}" in caplog.text
