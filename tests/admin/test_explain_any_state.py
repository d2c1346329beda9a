"""Whatever was done to a queue, each job that waits has a reason."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.admin.workers import seen
from tests.databases import BOTH, database
from tests.jobs.gating import Refusal, Service, play, queue_on, working
from tidegate import Backoff, Rate, Target
from tidegate.clock import VirtualClock
from tidegate.guard.capacity import Capacity
from tidegate.guard.hold import EndedBy
from tidegate.jobs.job import StoredState
from tidegate.jobs.queue import Queue
from tidegate.targets.explain import REASONS

STEPS = st.lists(
    st.sampled_from([
        "pause_queue", "pause_target", "disable", "disable_for_ever", "force_open", "force_closed", "reset", "fatal",
        "enqueue", "enqueue_later", "enqueue_child", "cancel_first", "retry_first", "work", "work_ill", "worker_seen",
        "advance", "advance_far", "clear", "resume", "expire_capacity",
    ]),
    min_size=1, max_size=25,
)  # fmt: skip


@pytest.mark.parametrize("name", BOTH)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_every_job_that_neither_runs_nor_has_ended_has_a_reason(
    name: str, steps: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    clock = VirtualClock()
    with database(name, tmp_path_factory.mktemp("explain")) as db, queue_on(db, clock) as q:
        world = World(q, clock)
        for step in steps:
            getattr(world, step)()
            world.check()


class World:
    """A queue to which anything may happen."""

    def __init__(self, q: Queue, clock: VirtualClock) -> None:
        self.q, self.clock = q, clock
        self.service = Service(clock, takes=0)
        self.depth = 0
        target = Target(
            "svc", "jobs", backoff=Backoff(30, cap=60), breaker={"consecutive": 2, "timeout": 60, "max_requests": 1},
            concurrency=2, rate=Rate(2, "10s"), capacity=Capacity(3, depth=lambda: self.depth),
        )  # fmt: skip

        @q.job(queue="mail", target=target, key=lambda n: n % 2, name="send", attempts=3)
        async def send(n: int) -> None:
            await self.service.call(n)

        self.send = send
        self.jobs = [send.enqueue(0)]

    def check(self) -> None:
        for job in self.jobs:
            found = self.q.get(job)
            whys = self.q.explain(job)
            waits = found.stage in (StoredState.BLOCKED, StoredState.WAITING, StoredState.READY)
            assert bool(whys) == waits, (found, whys)
            order = [REASONS.index(why.reason) for why in whys]
            assert order == sorted(order)
            for why in whys:
                assert why.message
                assert why.message.endswith(".")
                assert why.until is None or why.until > self.clock.now()
                assert why.since is None or why.since <= self.clock.now()
                assert (why.until is not None) or why.ended_by is not EndedBy.TIME
        self.q.target("svc").explain()

    def run(self) -> None:
        async def main() -> None:
            async with working(self.q, concurrency=3):
                await asyncio.sleep(0.5)
                self.check()

        play(self.clock, main)

    def enqueue(self) -> None:
        self.jobs.append(self.send.enqueue(len(self.jobs)))

    def enqueue_later(self) -> None:
        self.jobs.append(self.send.options(due="2m").enqueue(len(self.jobs)))

    def enqueue_child(self) -> None:
        self.jobs.append(self.send.options(after=[self.jobs[-1], self.jobs[0]]).enqueue(len(self.jobs)))

    def cancel_first(self) -> None:
        self.q.cancel(self.jobs[0])

    def retry_first(self) -> None:
        self.q.retry(self.jobs[0])

    def work(self) -> None:
        self.service.ill = None
        self.run()

    def work_ill(self) -> None:
        self.service.ill = ConnectionError("x")
        self.run()

    def fatal(self) -> None:
        self.service.ill = Refusal(401)
        self.run()

    def worker_seen(self) -> None:
        self.q.store.write(lambda tx: seen(tx, ["mail"]))

    def pause_queue(self) -> None:
        self.q.pause("mail", "1m")

    def pause_target(self) -> None:
        self.q.target("svc").pause("2m")

    def disable(self) -> None:
        self.q.target("svc").key(0).disable("1m")

    def disable_for_ever(self) -> None:
        self.q.target("svc").key(1).disable()

    def clear(self) -> None:
        self.q.target("svc").key(0).clear()

    def force_open(self) -> None:
        self.q.target("svc").force("open", "1m")

    def force_closed(self) -> None:
        self.q.target("svc").force("closed")

    def reset(self) -> None:
        self.q.target("svc").reset()

    def resume(self) -> None:
        self.q.resume("mail")
        self.q.target("svc").resume()

    def advance(self) -> None:
        self.clock.advance(7)

    def advance_far(self) -> None:
        self.clock.advance(100)

    def expire_capacity(self) -> None:
        self.depth = 5 - self.depth
