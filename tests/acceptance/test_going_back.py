"""A PostgreSQL is replaced by one that lacks the last commits, and nobody says so: workers find out by themselves."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from tests.acceptance.pg_server import own_server
from tidegate import Context, Queue
from tidegate.store.backups import JUMP


@pytest.mark.long
@pytest.mark.timeout(600)
def test_no_result_from_before_counts_on_a_server_that_went_back() -> None:
    with own_server() as server, Queue(server.url) as q:
        runs, again = list[int](), asyncio.Event()

        @q.job()
        async def slow(n: int, job: Context) -> int:
            runs.append(job.fence)
            mine = len(runs)
            if mine == 1:
                await again.wait()  # it ends while another attempt is at work
            else:
                again.set()
                await asyncio.sleep(3)
            return mine

        made = slow.enqueue(1)
        before = Path(f"{server.socket.parent}-before")
        server.copy_to(before)

        async def main() -> None:
            stop = asyncio.Event()
            workers = [
                asyncio.create_task(q.arun_worker(1, stop=stop, lease=30.0, renew_every=2.0, poll_every=0.5))
                for _ in range(2)
            ]
            async with asyncio.timeout(300):
                while not runs:  # noqa: ASYNC110 - there is nobody who could set an event
                    await asyncio.sleep(0.1)
                await asyncio.to_thread(server.go_back, before)
                while await asyncio.to_thread(made.state) != "done":  # noqa: ASYNC110
                    await asyncio.sleep(0.5)
            stop.set()
            await asyncio.gather(*workers)

        try:
            asyncio.run(main())
        finally:
            shutil.rmtree(before, ignore_errors=True)
        assert q.get(made).fence > JUMP
        assert made.result() == len(runs)
        assert runs[-1] == q.get(made).fence
        assert runs[0] == 1
