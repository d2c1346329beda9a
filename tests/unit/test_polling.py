"""The due-time loop: when and in which order keys run, on a virtual clock."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate import Rate
from tidegate.clock import VirtualClock
from tidegate.polling import DueLoop


class Runs:
    """A loop whose keys are `group/name`; each run takes *takes* seconds and is due *every* seconds."""

    def __init__(self, *, takes: float = 0.0, every: float | None = None, **options: Any) -> None:
        self.clock = VirtualClock()
        self.takes, self.every = takes, every
        self.runs: list[tuple[float, str]] = []
        self.cancelled: list[str] = []
        self.most = 0
        self._now: list[str] = []
        self.loop: DueLoop[str] = DueLoop(self.clock, self._run, group=lambda key: key[0], **options)

    async def _run(self, key: str) -> float | None:
        assert key[0] not in [other[0] for other in self._now]
        self._now.append(key)
        self.most = max(self.most, len(self._now))
        self.runs.append((round(self.clock.monotonic(), 2), key))
        try:
            await asyncio.sleep(self.takes)
        except asyncio.CancelledError:
            self.cancelled.append(key)
            raise
        finally:
            self._now.remove(key)
        return None if self.every is None else self.clock.monotonic() + self.every

    def for_(
        self, lasts: float, beside: Callable[[], Coroutine[Any, Any, None]] | None = None
    ) -> list[tuple[float, str]]:
        async def main() -> None:
            task = asyncio.create_task(beside()) if beside is not None else None
            end = self.clock.monotonic() + lasts
            await self.loop.run(lambda: self.clock.monotonic() >= end)
            if task is not None:
                await task

        self.clock.run(main())
        return self.runs

    @property
    def order(self) -> list[str]:
        return [key for _, key in self.runs]


def test_a_key_runs_when_it_is_due_and_again_when_its_run_says() -> None:
    runs = Runs(every=10)
    runs.loop.schedule("a", 3)
    assert runs.for_(30) == [(3, "a"), (13, "a"), (23, "a")]


def test_a_run_without_a_next_time_forgets_the_key() -> None:
    runs = Runs()
    runs.loop.schedule("a", 3)
    assert runs.for_(1000) == [(3, "a")]


def test_another_time_replaces_the_first() -> None:
    runs = Runs()
    for due in (5, 20, 7, 11):
        runs.loop.schedule("a", due)
    assert runs.for_(60) == [(11, "a")]


def test_one_key_of_a_group_at_a_time_and_up_to_the_concurrency_at_once() -> None:
    runs = Runs(takes=1, concurrency=3)
    for n in range(24):
        runs.loop.schedule(f"{'abcdef'[n % 6]}{n}", 0)
    runs.for_(60)
    assert (len(runs.runs), runs.most) == (24, 3)


def test_a_long_line_of_one_group_holds_no_other_group_up() -> None:
    runs = Runs(takes=1, concurrency=2)
    for n in range(100):
        runs.loop.schedule(f"a{n}", 0)
    for key in ("b", "c"):
        runs.loop.schedule(key, 0)
    runs.for_(5)
    assert runs.runs[:4] == [(0, "a0"), (0, "b"), (1, "c"), (1, "a1")]


def test_groups_take_turns_with_one_slot() -> None:
    runs = Runs(takes=1, concurrency=1)
    for key in ("a1", "a2", "a3", "b1", "b2", "c1"):
        runs.loop.schedule(key, 0)
    runs.for_(10)
    assert runs.order == ["a1", "b1", "c1", "a2", "b2", "a3"]


@pytest.mark.parametrize("due", [5.0, math.inf])
def test_a_key_that_is_woken_runs_at_once_and_only_once(due: float) -> None:
    runs = Runs()
    runs.loop.schedule("a", due)

    async def beside() -> None:
        await asyncio.sleep(2)
        runs.loop.wake("a")

    assert runs.for_(60, beside) == [(2, "a")]


def test_a_woken_key_precedes_its_group_and_all_others() -> None:
    runs = Runs(takes=1, concurrency=1)
    for key in ("a1", "b1", "c1", "c2", "d1"):
        runs.loop.schedule(key, 0)

    async def beside() -> None:
        await asyncio.sleep(0.5)
        runs.loop.wake("c2")  # its group waits behind others
        runs.loop.wake("a2")  # its group is busy, and the key is new

    runs.for_(20, beside)
    assert runs.order == ["a1", "a2", "c2", "b1", "d1", "c1"]


@pytest.mark.parametrize("again", [lambda loop: loop.wake("a"), lambda loop: loop.schedule("a", 1.0)])
def test_what_is_asked_for_during_a_run_happens_after_it(again: Callable[[DueLoop[str]], None]) -> None:
    runs = Runs(takes=4, every=100)
    runs.loop.schedule("a", 0)

    async def beside() -> None:
        await asyncio.sleep(1)
        again(runs.loop)

    assert runs.for_(50, beside) == [(0, "a"), (4, "a")]


def test_a_removed_key_does_not_run_and_one_in_flight_is_cancelled() -> None:
    runs = Runs(takes=10, every=1)
    for key in ("a1", "a2", "b1"):
        runs.loop.schedule(key, 0)
    runs.loop.schedule("c1", 5)

    async def beside() -> None:
        await asyncio.sleep(1)
        for key in ("a2", "b1", "c1", "never there"):
            runs.loop.remove(key)

    runs.for_(12, beside)
    assert (runs.order, runs.cancelled) == (["a1", "b1", "a1"], ["b1", "a1"])


def test_it_stops_within_a_second_and_cancels_what_is_in_flight() -> None:
    runs = Runs(takes=1e6)
    runs.loop.schedule("a", 0)
    runs.loop.schedule("b", 1e9)
    runs.for_(100.5)
    assert runs.clock.monotonic() <= 101.5
    assert runs.cancelled == ["a"]


def test_a_wake_without_a_key_asks_at_once_whether_to_stop() -> None:
    runs = Runs()

    async def main() -> None:
        stopping: list[bool] = []
        task = asyncio.create_task(runs.loop.run(lambda: bool(stopping)))
        await asyncio.sleep(0.1)
        stopping.append(True)
        runs.loop.wake()
        await task

    runs.clock.run(main())
    assert runs.clock.monotonic() == pytest.approx(0.1)


def test_an_error_of_a_run_ends_the_loop() -> None:
    clock = VirtualClock()

    async def fails(_: str) -> float | None:
        raise ZeroDivisionError

    loop = DueLoop(clock, fails)
    loop.schedule("a", 3)
    with pytest.raises(ZeroDivisionError):
        clock.run(loop.run())
    assert clock.monotonic() == pytest.approx(3, abs=0.01)


def test_the_rate_limits_starts_with_a_burst_only_after_a_pause() -> None:
    runs = Runs(rate=Rate(2, burst=2))
    for n, group in enumerate("abcdef"):
        runs.loop.schedule(f"{group}{n}", 0)
    for group in "uvwxyz":
        runs.loop.schedule(group, 100)
    runs.for_(200)
    seconds = [at for at, _ in runs.runs]
    assert seconds[:6] == pytest.approx([0, 0.5, 1, 1.5, 2, 2.5], abs=0.02)
    assert seconds[6:] == pytest.approx([100, 100, 100.5, 101, 101.5, 102], abs=0.02)


def test_another_rate_applies_from_the_next_start_on() -> None:
    runs = Runs(rate=Rate(1, "1h"))
    for group in "abc":
        runs.loop.schedule(group, 0)

    async def beside() -> None:
        await asyncio.sleep(5)
        runs.loop.rate = None

    runs.for_(10, beside)
    assert len(runs.runs) == 3


def test_waiting_is_no_busy_loop() -> None:
    runs, asked = Runs(rate=Rate(1, "10m")), 0
    for n in range(50):
        runs.loop.schedule(f"{n:02}", 0.0)
        runs.loop.schedule(f"x{n}", 30_000.1 + n)

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return runs.clock.monotonic() >= 10_000

    runs.clock.run(runs.loop.run(stop))
    assert asked < 1.1 * 10_000


def test_a_time_that_was_replaced_ten_thousand_times_does_not_count() -> None:
    runs = Runs()
    runs.loop.schedule("b", 50)
    for n in range(10_000):
        runs.loop.schedule("a", 100 + n)
    assert runs.for_(20_000) == [(50, "b"), (10_099, "a")]


@given(
    st.lists(
        st.tuples(st.sampled_from(["a1", "a2", "b1", "b2", "c1"]), st.integers(0, 20), st.booleans()), max_size=30
    ),
    st.integers(1, 3),
)
def test_every_key_runs_at_its_last_time_or_when_its_group_is_free(
    calls: list[tuple[str, int, bool]], concurrency: int
) -> None:
    runs = Runs(takes=1, concurrency=concurrency)
    last: dict[str, int] = {}
    for key, due, removed in calls:
        runs.loop.schedule(key, due)
        last[key] = due
        if removed:
            runs.loop.remove(key)
            del last[key]
    runs.for_(100)
    assert sorted(runs.order) == sorted(last)
    assert runs.most <= concurrency
    assert all(at >= last[key] for at, key in runs.runs)
    assert all(at <= last[key] + len(last) for at, key in runs.runs)
