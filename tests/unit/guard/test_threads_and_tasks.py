"""One target, many threads and tasks at once: exact numbers, no key harmed by another."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest

from tests.unit.guard.scene import Answered, Scene, down
from tidegate import Held

THREADS, ROUNDS = 8, 250


class Crowd:
    """Threads and tasks that call for five users in turn, and count what became of it."""

    def __init__(self, scene: Scene) -> None:
        self.counts: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._guarded = scene.target.guard(key="user", operation="recent")(self.answer)
        self._aguarded = scene.target.guard(key="user", operation="recent")(self.aanswer)

    def count(self, what: str) -> None:
        with self._lock:
            self.counts[what] += 1

    def answer(self, user: int) -> str:
        self.count(f"called {user}")
        error = {1: down(), 2: Answered(401), 3: Answered(404)}.get(user)
        if error is not None:
            raise error
        return "ok"

    async def aanswer(self, user: int) -> str:
        await asyncio.sleep(0)
        return self.answer(user)

    def ended(self, user: int, error: BaseException | None) -> None:
        self.count(f"held {user}" if isinstance(error, Held) else f"failed {user}" if error else f"good {user}")

    def in_thread(self) -> None:
        for n in range(ROUNDS):
            error: Exception | None = None
            try:
                self._guarded(n % 5)
            except Exception as caught:
                error = caught
            self.ended(n % 5, error)

    async def task(self) -> None:
        for n in range(ROUNDS):
            (error,) = await asyncio.gather(self._aguarded(n % 5), return_exceptions=True)
            self.ended(n % 5, error if isinstance(error, BaseException) else None)

    async def tasks(self) -> None:
        await asyncio.gather(*(self.task() for _ in range(THREADS)))

    def run(self) -> None:
        threads = [threading.Thread(target=self.in_thread) for _ in range(THREADS)]
        threads.append(threading.Thread(target=lambda: asyncio.run(self.tasks())))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


@pytest.mark.req("SYNC-06")
@pytest.mark.parametrize("settings", [{}, {"breaker": {"min_requests": 10**9}}, {"concurrency": 1000}])
def test_threads_and_tasks_on_one_target_count_exactly(settings: dict[str, Any]) -> None:
    scene = Scene(**settings)
    crowd = Crowd(scene)
    crowd.run()
    made, each = crowd.counts, 2 * THREADS * ROUNDS // 5

    assert (made["good 0"], made["good 4"], made["failed 3"]) == (each, each, each)
    assert made["held 0"] == made["held 3"] == made["held 4"] == 0
    for user in (1, 2):
        assert made[f"failed {user}"] == made[f"called {user}"]
        assert made[f"failed {user}"] + made[f"held {user}"] == each
        assert made[f"failed {user}"] <= 2 * THREADS, "only those that were under way when the first one failed"
    assert {found.key for found in scene.target.unhealthy()} == {1, 2}
    assert [found.failures for found in scene.target.unhealthy() if found.key == 1] == [1]
    assert scene.notices() == ["fatal"]
    if scene.target.breaker is not None:
        counts = scene.target.breaker.counts
        assert (counts.failures, counts.successes) == (made["failed 1"], 3 * each)


def test_the_one_probe_of_a_rest_is_one_among_many_threads() -> None:
    scene = Scene()
    scene.fail(Answered(402))
    scene.clock.advance("1h")
    together, calls, held = threading.Barrier(16), list[int](), list[int]()
    over = threading.Event()

    def probe() -> None:
        calls.append(1)
        over.wait(60)
        raise Answered(402)

    def in_thread() -> None:
        together.wait()
        try:
            scene.target.key(7).call(probe)
        except Held:
            held.append(1)
            if len(held) == 15:
                over.set()
        except Answered:
            pass

    threads = [threading.Thread(target=in_thread) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(calls), len(held)) == (1, 15)


def test_a_key_without_a_hash_is_a_clear_mistake() -> None:
    scene = Scene()

    @scene.target.guard(key="users")
    def recent(users: list[int]) -> None:
        raise down()

    with pytest.raises(TypeError, match="has no hash"), suppress(Held):
        recent([7])
