"""A target that never says how full it is, or whether it is well, holds up the questions of no other."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tidegate import Capacity, Queue, Target
from tidegate.targets import table


@pytest.fixture
def q(tmp_path: Path) -> Iterator[Queue]:
    with Queue(f"sqlite:///{tmp_path / 'jobs.db'}") as found:
        yield found


class Hanging:
    """A question that is not answered before the end of the test."""

    def __init__(self) -> None:
        self.asked = 0
        self.end = threading.Event()

    def __call__(self) -> int:
        self.asked += 1
        self.end.wait(120)
        return 0


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    found = Hanging()
    yield found
    found.end.set()


async def until(true: Callable[[], object]) -> None:
    last = time.monotonic() + 60
    while not true():
        assert time.monotonic() < last, "it did not come"
        await asyncio.sleep(0.02)


async def test_two_that_hang_do_not_keep_a_third_from_being_asked(q: Queue, hanging: Hanging) -> None:
    jobs = []
    for name, depth in (("a", hanging), ("b", hanging), ("c", lambda: 0)):

        @q.job(queue="all", target=Target(name, capacity=Capacity(5, depth=depth)), name=name)
        async def call(n: int) -> None: ...

        jobs.append(call.enqueue(1))

    stop = asyncio.Event()
    working = asyncio.create_task(q.arun_worker(stop=stop, grace=0))
    await until(lambda: hanging.asked == 2)
    assert (await jobs[-1].wait("60s")).state == "done"
    stop.set()
    hanging.end.set()
    await working


@pytest.mark.long
async def test_what_still_hangs_is_not_asked_again(
    q: Queue, hanging: Hanging, caplog: pytest.LogCaptureFixture
) -> None:
    target = Target("svc", breaker={"consecutive": 1}, probe=hanging, probe_every=0.05)

    @q.job(target=target)
    async def call(n: int) -> None:
        raise ConnectionError

    def is_open() -> bool:
        row = q.store.read(lambda tx: table.target(tx, "svc"))
        return row is not None and row.breaker.state == "open"

    def failed() -> int:
        return sum(record.message.startswith("probe_failed name=svc") for record in caplog.records)

    caplog.set_level("INFO")
    call.enqueue(1)
    stop = asyncio.Event()
    working = asyncio.create_task(q.arun_worker(stop=stop, grace=0))
    await until(is_open)
    await until(lambda: failed() >= 3)
    assert hanging.asked == 1
    hanging.end.set()
    await until(lambda: hanging.asked > 1)
    stop.set()
    await working
