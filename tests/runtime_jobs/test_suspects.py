"""Jobs whose workers were lost twice: once more fails them, so they begin apart, and none waits for hours."""

from __future__ import annotations

import asyncio
from pathlib import Path

import apsw

from tests.runtime_jobs.gating import play, working
from tidegate import Queue
from tidegate.runtime.clock import VirtualClock


def test_a_job_whose_worker_was_lost_twice_waits_for_another_such_but_not_for_hours(tmp_path: Path) -> None:
    clock = VirtualClock()
    began: list[float] = []
    with Queue(f"sqlite:///{tmp_path / 'q.db'}", clock=clock, inline=True) as q:

        @q.job(name="long")
        async def long(_: int) -> None:
            began.append(clock.monotonic())
            await asyncio.sleep(3600)

        for n in range(2):
            long.enqueue(n)
        raw = apsw.Connection(str(tmp_path / "q.db"))
        raw.execute("update tg_job set deaths = 2")
        raw.close()

        async def main() -> None:
            async with working(q, grace=0):
                await asyncio.sleep(300)

        play(clock, main)

    assert len(began) == 2
    assert 30 < began[1] - began[0] < 120
