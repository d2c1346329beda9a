"""A worker whose disk is full: what it has done is written when there is room, once, and nothing is tried again."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from tests.runtime_jobs.building import queue
from tidegate.runtime.clock import VirtualClock
from tidegate.store.tx import Tx


@pytest.mark.req("CNV-04")
def test_what_was_done_while_the_disk_was_full_is_written_when_there_is_room(
    tmp_path: Path, clock: VirtualClock, caplog: pytest.LogCaptureFixture
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
                tx.plain(f"pragma max_page_count = {pages}")

            q.store.write(limit)

        handles = heavy.enqueue_many(range(3))

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

        with caplog.at_level(logging.WARNING, "tidegate.worker"):
            clock.run(main())

        assert sorted(ran) == [0, 1, 2]
        assert [(job.state(), job.get().attempt, len(job.result() or "")) for job in handles] == [
            ("done", 1, 400_000)
        ] * 3
        assert "store_unavailable error=StoreFull" in caplog.text
