"""Asyncio on a virtual clock: timers are jumped to, threads are waited for, a deadlock is told."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

import pytest

from tidegate.clock.virtual_loop import VirtualLoop
from tidegate.testing import Deadlock, VirtualClock

DAY = 86_400.0


def test_a_day_of_sleep_passes_in_no_time(virtual_clock: VirtualClock) -> None:
    started = time.perf_counter()

    virtual_clock.run(asyncio.sleep(DAY))

    assert virtual_clock.monotonic() == DAY
    assert time.perf_counter() - started < 60


def test_timers_fire_in_their_order_and_at_their_time(virtual_clock: VirtualClock) -> None:
    fired: list[tuple[str, float]] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(3600, lambda: fired.append(("later", loop.time())))
        loop.call_at(60, lambda: fired.append(("at", loop.time())))
        loop.call_soon(lambda: fired.append(("soon", loop.time())))
        await asyncio.sleep(7200)

    virtual_clock.run(main())

    assert fired == [("soon", 0.0), ("at", 60.0), ("later", 3600.0)]


def test_wall_time_moves_with_the_loop(virtual_clock: VirtualClock) -> None:
    started = virtual_clock.now()

    virtual_clock.run(asyncio.sleep(90))

    assert virtual_clock.now() == started + 90


async def by_timeout() -> None:
    async with asyncio.timeout(30):
        await asyncio.sleep(DAY)


async def by_wait_for() -> None:
    await asyncio.wait_for(asyncio.Event().wait(), 30)


@pytest.mark.parametrize("late", [by_timeout, by_wait_for])
def test_a_timeout_cuts_at_its_own_time(virtual_clock: VirtualClock, late: Callable[[], object]) -> None:
    async def main() -> None:
        with pytest.raises(TimeoutError):
            await late()  # type: ignore[misc]

    virtual_clock.run(main())

    assert virtual_clock.monotonic() == 30


def test_a_timeout_that_is_kept_takes_no_longer_than_the_work(virtual_clock: VirtualClock) -> None:
    async def main() -> None:
        async with asyncio.timeout(30):
            await asyncio.sleep(10)

    virtual_clock.run(main())

    assert virtual_clock.monotonic() == 10


def test_time_stands_still_while_a_thread_is_at_work(virtual_clock: VirtualClock) -> None:
    async def main() -> str:
        async with asyncio.timeout(1):  # a jump while the thread works would cut it off
            return await asyncio.to_thread(slow)

    def slow() -> str:
        time.sleep(0.05)
        return "done"

    assert virtual_clock.run(main()) == "done"
    assert virtual_clock.monotonic() == 0


def test_every_thread_comes_back_before_time_moves(virtual_clock: VirtualClock) -> None:
    gate = threading.Barrier(3)
    back: list[float] = []

    async def one() -> None:
        await asyncio.to_thread(gate.wait)
        back.append(virtual_clock.monotonic())

    async def main() -> None:
        await asyncio.gather(one(), one(), one(), asyncio.sleep(3600))

    virtual_clock.run(main())

    assert back == [0, 0, 0]
    assert virtual_clock.monotonic() == 3600


def test_time_goes_on_after_a_thread_that_raised(virtual_clock: VirtualClock) -> None:
    async def main() -> None:
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(lambda: 1 / 0)
        await asyncio.sleep(60)

    virtual_clock.run(main())

    assert virtual_clock.monotonic() == 60


def test_a_thread_that_sleeps_on_the_clock_moves_it(virtual_clock: VirtualClock) -> None:
    async def main() -> None:
        await asyncio.gather(*(asyncio.to_thread(virtual_clock.sleep, 10) for _ in range(20)))

    virtual_clock.run(main())

    assert virtual_clock.monotonic() == 200


def test_a_task_that_waits_for_nothing_is_told_as_a_deadlock(virtual_clock: VirtualClock) -> None:
    async def waits_for_ever() -> None:
        await asyncio.Event().wait()

    with pytest.raises(Deadlock, match=r"waits_for_ever \(line \d+ of .*test_virtual_loop\.py\)"):
        virtual_clock.run(waits_for_ever())


def test_a_deadlock_cancels_the_tasks_so_that_they_can_clean_up(virtual_clock: VirtualClock) -> None:
    cleaned: list[str] = []

    async def main() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append("main")

    with pytest.raises(Deadlock):
        virtual_clock.run(main())

    assert cleaned == ["main"]


def test_a_thread_that_the_loop_does_not_know_may_still_wake_it(virtual_clock: VirtualClock) -> None:
    def wake(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
        time.sleep(0.02)
        loop.call_soon_threadsafe(event.set)

    async def main() -> None:
        loop, event = asyncio.get_running_loop(), asyncio.Event()
        stranger = threading.Thread(target=wake, args=(loop, event))
        stranger.start()
        await event.wait()
        stranger.join()

    virtual_clock.run(main())


def test_an_advance_from_outside_fires_what_is_due(virtual_clock: VirtualClock) -> None:
    async def main() -> float:
        sleeper = asyncio.create_task(asyncio.sleep(60))
        await asyncio.sleep(0)
        virtual_clock.advance("2m")
        await sleeper
        return virtual_clock.monotonic()

    assert virtual_clock.run(main()) == 120


def test_the_wall_clock_can_step_without_the_timers(virtual_clock: VirtualClock) -> None:
    before = virtual_clock.now()

    virtual_clock.step_wall(-3600)
    virtual_clock.advance(10)

    assert (virtual_clock.monotonic(), virtual_clock.now()) == (10, before - 3590)


def test_advance_to_is_exact_and_never_goes_back(virtual_clock: VirtualClock) -> None:
    virtual_clock.advance_to(0.1 + 0.2)
    virtual_clock.advance_to(0.1)

    assert virtual_clock.monotonic() == 0.1 + 0.2


def test_no_wait_is_lost_when_many_threads_sleep(virtual_clock: VirtualClock) -> None:
    def sleep_often() -> None:
        for _ in range(500):
            virtual_clock.sleep(1)

    threads = [threading.Thread(target=sleep_often) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert virtual_clock.monotonic() == 4000


def test_a_thread_that_is_stuck_is_told_instead_of_waited_for_for_ever(virtual_clock: VirtualClock) -> None:
    free = threading.Event()

    async def main() -> None:
        async with asyncio.timeout(5):
            await asyncio.to_thread(free.wait)

    loop = VirtualLoop(virtual_clock, patience=0.05)
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        with pytest.raises(Deadlock, match=r"0\.05.*main"):
            runner.run(main())
        free.set()
        loop.patience = 60  # the thread is waited for, however long it takes to end
