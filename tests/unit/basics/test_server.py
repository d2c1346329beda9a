"""The workers of a server on a thread of their own."""

from __future__ import annotations

import asyncio
import threading

import pytest

from tidegate.server import WorkerThread


def test_it_works_until_it_is_asked_to_end() -> None:
    begun = threading.Event()

    async def work(stop: asyncio.Event) -> None:
        begun.set()
        await stop.wait()

    engine = WorkerThread(work)
    engine.start()
    assert begun.wait(60)
    assert not engine.join(0.05)
    engine.ask()
    assert engine.join(60)


def test_work_that_breaks_begins_again(caplog: pytest.LogCaptureFixture) -> None:
    times: list[int] = []
    again = threading.Event()

    async def work(stop: asyncio.Event) -> None:
        times.append(1)
        if len(times) < 3:
            raise RuntimeError("a bug")
        again.set()
        await stop.wait()

    engine = WorkerThread(work, restart_seconds=0.01)
    engine.start()
    assert again.wait(60)
    engine.ask()
    assert engine.join(60)
    assert len(times) == 3
    assert [record.message for record in caplog.records] == ["engine_broke again_in=0.01"] * 2


@pytest.mark.parametrize("reason", [asyncio.CancelledError, SystemExit])
def test_work_that_ends_itself_in_another_way_begins_again_too(reason: type[BaseException]) -> None:
    times: list[int] = []
    again = threading.Event()

    async def work(stop: asyncio.Event) -> None:
        times.append(1)
        if len(times) < 2:
            raise reason
        again.set()
        await stop.wait()

    engine = WorkerThread(work, restart_seconds=0.01)
    engine.start()
    try:
        assert again.wait(10)
    finally:
        engine.ask()
    assert engine.join(60)


def test_asked_while_it_rests_it_does_not_begin_again() -> None:
    times: list[int] = []
    broke = threading.Event()

    async def work(stop: asyncio.Event) -> None:
        times.append(1)
        broke.set()
        raise RuntimeError("a bug")

    engine = WorkerThread(work, restart_seconds=60)
    engine.start()
    assert broke.wait(60)
    engine.ask()
    assert engine.join(60)
    assert times == [1]


def test_asked_as_soon_as_it_has_begun_it_may_be_asked_again_after_its_end() -> None:
    async def work(stop: asyncio.Event) -> None:
        await stop.wait()

    for _ in range(20):
        engine = WorkerThread(work)
        engine.start()
        engine.ask()
        assert engine.join(60)
        engine.ask()
