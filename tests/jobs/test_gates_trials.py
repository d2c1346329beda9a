"""Trials of a half-open breaker: during an outage they cost a job no attempt, and they rotate over the jobs."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection
from typing import Any

import pytest

from tests.databases import APSW, BOTH, Database
from tests.jobs.gating import breaker_of, play, queue_on, working
from tidegate import Again, Queue, Target
from tidegate.clock import VirtualClock
from tidegate.faults.codes import CORE
from tidegate.jobs.function import Enqueued

HOUR = 3600.0


class Outage:
    """A service that is down from the start, and some jobs that it never accepts."""

    def __init__(self, clock: VirtualClock, lasts: float, poison: Collection[int] = ()) -> None:
        self.clock, self.lasts, self.poison = clock, lasts, poison
        self.began = clock.monotonic()
        self.calls = Counter[int]()
        self.done_at: dict[int, float] = {}  # seconds after the start

    def call(self, n: int) -> None:
        self.calls[n] += 1
        now = self.clock.monotonic() - self.began
        if now < self.lasts or n in self.poison:
            raise ConnectionError("refused")
        self.done_at[n] = now


def outage(
    db: Database,
    jobs: int,
    lasts: float,
    then: float,
    *,
    attempts: int = 5,
    poison: Collection[int] = (),
    key: Callable[[int], int] | None = None,
    workers: int = 1,
    **options: Any,
) -> tuple[Outage, list[Any]]:
    """Runs *jobs* through an outage, and *then* seconds more. Returns the service and the jobs as stored."""
    clock = VirtualClock()
    service = Outage(clock, lasts, poison)
    queues = [queue_on(db, clock) for _ in range(workers)]
    handles: list[Enqueued[None]] = []
    for q in queues:
        target = Target("svc", backoff=None, breaker={"consecutive": 5})

        @q.job(name="call", target=target, attempts=attempts, key=key, **options)
        async def call(n: int) -> None:
            await asyncio.sleep(0.2)
            service.call(n)

        if not handles:
            handles = call.enqueue_many([(n,) for n in range(jobs)])

    async def main() -> None:
        async with working(*queues):
            await asyncio.sleep(lasts + then)

    play(clock, main)
    stored = [queues[0].get(handle) for handle in handles]
    for q in queues:
        q.close()
    return service, stored


@pytest.mark.parametrize("db", [APSW], indirect=True)
@pytest.mark.parametrize(("jobs", "attempts"), [(100, 5), (1, 10)])
def test_no_job_fails_in_an_outage_of_two_hours(db: Database, jobs: int, attempts: int) -> None:
    service, stored = outage(db, jobs, 2 * HOUR, 300, attempts=attempts)

    assert Counter(job.state for job in stored) == {"done": jobs}
    assert max(service.done_at.values()) < 2 * HOUR + 150
    # Failures before the breaker opened count: at most one of the first twenty jobs, five of a single one.
    assert max(job.attempt for job in stored) == (2 if jobs > 1 else 6)


@pytest.mark.parametrize("db", [APSW], indirect=True)
@pytest.mark.parametrize("key", [None, lambda n: n % 10], ids=["no key", "ten keys"])
@pytest.mark.parametrize("poison", [{0}, {0, 1, 2, 3, 4, 5}, set(range(0, 100, 4))], ids=len)
def test_jobs_that_always_fail_do_not_keep_the_others_waiting(
    db: Database, poison: set[int], key: Callable[[int], int] | None
) -> None:
    service, stored = outage(db, 100, 1200, 1800, poison=poison, key=key)

    assert Counter(job.state for job in stored if job.args["n"] not in poison) == {"done": 100 - len(poison)}
    assert max(service.done_at.values()) < 1200 + 900
    if len(poison) == 1:
        assert stored[0].state == "failed"
        assert service.calls[0] <= 10


@pytest.mark.parametrize("db", BOTH, indirect=True)
def test_trials_rotate_over_all_jobs_and_workers(db: Database) -> None:
    service, stored = outage(db, 30, 900, 0, workers=2)

    trials = {n: calls - (stored[n].attempt) for n, calls in service.calls.items()}
    assert len(trials) == 30
    assert max(trials.values()) - min(trials.values()) <= 2


@pytest.mark.parametrize("db", [APSW], indirect=True)
def test_a_job_that_no_other_job_can_clear_fails_after_the_free_trials(db: Database) -> None:
    _, (job,) = outage(db, 1, 0, 2 * HOUR, poison={0}, attempts=7, free_trials="1h")

    assert (job.state, job.attempt) == ("failed", 7)
    assert HOUR < job.finished_at - job.created_at < 1.5 * HOUR


@pytest.mark.parametrize("db", BOTH, indirect=True)
@pytest.mark.parametrize(("free", "kind", "attempts"), [("1d", "trial", [5, 6, 6, 6]), (0, "again", [5, 6, 7, 8])])
def test_a_kind_decides_whether_a_failed_trial_is_an_attempt(
    db: Database, free: Any, kind: str, attempts: list[int]
) -> None:
    clock = VirtualClock()
    with queue_on(db, clock) as q:
        job = single(q, free_trials=free)

        async def main() -> None:
            async with working(q):
                await asyncio.sleep(1200)

        play(clock, main)
        events = [event for event in q.events(job) if event.kind in ("again", "trial")]
        assert [event.attempt for event in events[4:8]] == attempts
        assert [event.kind for event in events[4:8]] == ["again", *[kind] * 3]
        assert {event.code for event in events} == {"network"}
        assert len({event.fence for event in events}) == len(events)
        assert breaker_of(q, "svc") == "open"


def single(q: Queue, **options: Any) -> Enqueued[None]:
    @q.job(target=Target("svc", backoff=None, breaker={"consecutive": 5}), attempts=20, **options)
    async def call() -> None:
        raise ConnectionError("refused")

    return call.enqueue()


@pytest.mark.parametrize("db", BOTH, indirect=True)
@pytest.mark.parametrize(("code", "attempt"), [("network", 1), ("rate_limited", 2)])
def test_a_trial_that_a_handler_ends_with_again_is_free_if_the_fault_counts(
    db: Database, code: str, attempt: int
) -> None:
    clock = VirtualClock()
    with queue_on(db, clock) as q:

        @q.job(target=Target("svc", backoff=None, breaker={"consecutive": 1, "timeout": 5}))
        async def call() -> None:
            first = q.get(job).fence == 1
            raise Again("10s", fault=CORE["network" if first else code].fault("test"))

        job = call.enqueue()

        async def main() -> None:
            async with working(q):
                await asyncio.sleep(15)

        play(clock, main)
        assert (q.get(job).fence, q.get(job).attempt) == (2, attempt)


@pytest.mark.parametrize("db", BOTH, indirect=True)
def test_a_failed_trial_counts_once_another_trial_has_succeeded(db: Database) -> None:
    """The service works, so the fault is the job's: one bad job among rare good ones fails soon."""
    clock = VirtualClock()
    with queue_on(db, clock) as q:

        @q.job(target=Target("svc", backoff=None, breaker={"consecutive": 1, "timeout": 30}), attempts=4)
        async def call(good: bool) -> None:
            await asyncio.sleep(5 if good else 1)
            if not good:
                raise ConnectionError("refused")

        bad = call.enqueue(False)

        async def main() -> None:
            async with working(q):
                for _ in range(20):
                    await asyncio.sleep(45)
                    call.enqueue(True)

        play(clock, main)
        stored = q.get(bad)
        assert stored.state == "failed"
        assert stored.finished_at is not None
        assert stored.finished_at - stored.created_at < 600
