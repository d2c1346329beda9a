"""The numbers of /metrics that live in the store: exact, lasting, and bounded."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.databases import Database
from tests.jobs.gating import Service, play, queue_on, working
from tests.store.jobs import Jobs
from tidegate import Backoff, Target
from tidegate.admin import metrics
from tidegate.admin.metrics import MOVES, Figures, QueueFigures
from tidegate.clock import VirtualClock
from tidegate.jobs import outcome, settle
from tidegate.jobs.job import AttemptOutcome, Claimed
from tidegate.jobs.outcome import Again, KindPolicy

AT_ONCE = Backoff(0.001, cap=0.001, jitter=0)


def read(jobs: Jobs) -> Figures:
    return jobs.store.read(metrics.figures)


def of_queue(jobs: Jobs, name: str = "q") -> QueueFigures:
    (found,) = [each for each in read(jobs).queues if each.name == name]
    return found


def attempt(jobs: Jobs, seconds: float, end: Any = None) -> None:
    """One job whose attempt takes so long."""
    job = jobs.take(jobs.one())
    jobs.clock.advance(seconds)
    jobs.settle(outcome.done(job, None) if end is None else end(job))


def test_a_store_without_jobs_has_no_queues_and_nobody_at_work(jobs: Jobs) -> None:
    found = read(jobs)

    assert (found.queues, found.breakers, found.workers, found.last_tick) == ([], [], 0, None)
    assert set(found.targets.values()) == {0}


@pytest.mark.req("CNV-15")
def test_depth_and_activity_are_those_of_each_queue(jobs: Jobs) -> None:
    for _ in range(3):
        jobs.one(queue="a")
    jobs.one(queue="a", due_at=jobs.clock.now + 60)
    jobs.child(jobs.one(queue="b"), queue="b")
    jobs.claim(2, queue="a")

    assert [(each.name, each.depth, each.active) for each in read(jobs).queues] == [("a", 2, 2), ("b", 2, 0)]


@pytest.mark.req("CNV-15")
def test_an_attempt_is_counted_in_its_bucket_and_added_to_the_sum(jobs: Jobs) -> None:
    spans = [0.0, 0.009, 0.011, 1.0, 2.0, 29.5, 4000.0]
    for span in spans:
        attempt(jobs, span)

    for _ in range(2):  # before and after the leader has added up
        found = of_queue(jobs).durations
        assert found.count == len(spans)
        assert found.sum == pytest.approx(sum(spans), abs=1e-5)
        assert [bound for bound, _ in found.buckets] == [*settle.BUCKETS, float("inf")]
        assert dict(found.buckets) == {
            bound: sum(span <= bound for span in spans) for bound in (*settle.BUCKETS, float("inf"))
        }
        jobs.store.write(settle.fold_counters)


def not_begun(job: Claimed) -> AttemptOutcome:
    return outcome.not_started(job, "expired", "Too old.")


@pytest.mark.req("CNV-15")
@pytest.mark.parametrize(
    ("end", "counts"),
    [
        (lambda job: outcome.done(job, None), True),
        (lambda job: outcome.failed(job, "gone", "Gone."), True),
        (lambda job: outcome.again(job, Again("5m"), KindPolicy()), True),
        (lambda job: outcome.again(job, Again("5m", keep_attempt=True), KindPolicy()), False),
        (lambda job: outcome.released(job, unsent=False), False),
        (lambda job: outcome.released(job, unsent=True), False),
        (outcome.cancelled, False),
        (not_begun, False),
    ],
)
def test_only_attempts_that_were_made_and_ended_by_themselves_have_a_duration(
    jobs: Jobs, end: Any, counts: bool
) -> None:
    attempt(jobs, 3.0, end)

    assert of_queue(jobs).durations.count == int(counts)


def test_a_result_that_came_too_late_is_not_counted(jobs: Jobs) -> None:
    late = jobs.take(jobs.one())
    jobs.die(late)
    jobs.settle(outcome.done(late, None))

    found = of_queue(jobs)
    assert (found.durations.count, found.lease_expired) == (0, 1)


@pytest.mark.req("CNV-15")
def test_failures_by_code_retries_and_lost_leases_outlive_their_jobs(jobs: Jobs) -> None:
    for code in ("gone", "gone", "timeout"):
        jobs.fail(jobs.one(), code=code)
    jobs.retry(1)
    jobs.die(*jobs.claim())
    jobs.fail(1, code="timeout")
    jobs.refuse("bad_request")
    for id_ in (1, 2, 3, 4):
        jobs.forget(id_)
    jobs.store.write(settle.fold_counters)

    found = of_queue(jobs)
    assert found.failed == {"bad_request": 1, "gone": 2, "timeout": 2}
    assert (found.manual_retries, found.lease_expired, found.depth) == (1, 1, 0)


def test_the_codes_of_one_queue_are_bounded_and_none_is_lost(jobs: Jobs) -> None:
    for n in range(103):
        jobs.refuse(f"c{n:03}")

    found = of_queue(jobs).failed
    assert len(found) == metrics.MAX_CODES + 1
    assert found[metrics.OTHERS] == 3
    assert sum(found.values()) == 103


def test_the_oldest_ready_job_tells_how_long_a_queue_waits(jobs: Jobs) -> None:
    jobs.one(due_at=jobs.clock.now + 1e6)
    jobs.clock.advance(50)
    first = jobs.one(priority=-5, lane="z")
    jobs.clock.advance(30)
    jobs.one(priority=5)
    jobs.clock.advance(20)

    assert of_queue(jobs).oldest_age == 50
    jobs.done(first)
    assert of_queue(jobs).oldest_age == 20


@pytest.mark.req("BRK-08")
def test_the_breaker_that_is_a_row_has_all_its_series_and_counts_for_ever(db: Database) -> None:
    clock = VirtualClock()
    service = Service(clock, takes=0, ill=ConnectionError("x"))
    target = Target("svc", backoff=None, breaker={"consecutive": 3, "timeout": 60, "max_requests": 1})
    with queue_on(db, clock) as q:

        @q.job(target=target, backoff=AT_ONCE, attempts=100)
        async def call(n: int) -> None:
            await service.call(n)

        async def main() -> None:
            async with working(q, concurrency=1):
                await asyncio.sleep(1)
                (idle,) = q.store.read(metrics.figures).breakers
                assert (idle.name, idle.state, idle.consecutive_failures) == ("svc", 0, 0)
                assert idle.requests == {"success": 0, "failure": 0, "rejected": 0}
                assert idle.transitions == dict.fromkeys(MOVES, 0)
                call.enqueue(1)
                await asyncio.sleep(5)
                (shut,) = q.store.read(metrics.figures).breakers
                assert (shut.state, shut.consecutive_failures) == (2, 3)
                assert shut.requests == {"success": 0, "failure": 3, "rejected": 0}
                service.ill = None
                await asyncio.sleep(60)

        play(clock, main)
        (found,) = q.store.read(metrics.figures).breakers
        assert (found.state, found.consecutive_failures) == (0, 0)
        assert found.requests == {"success": 1, "failure": 3, "rejected": 0}
        assert {move: n for move, n in found.transitions.items() if n} == {
            ("closed", "open"): 1, ("open", "half-open"): 1, ("half-open", "closed"): 1,
        }  # fmt: skip


@pytest.mark.req("BRK-08")
def test_an_open_breaker_whose_time_is_over_is_shown_as_half_open_and_what_it_turned_away_as_rejected(
    db: Database,
) -> None:
    clock = VirtualClock()
    target = Target("svc", backoff=None, breaker={"consecutive": 1, "timeout": 60}, when_open="fail-fast")
    with queue_on(db, clock) as q:

        @q.job(target=target)
        async def call(n: int) -> None:
            raise ConnectionError("x")

        async def main() -> None:
            call.enqueue(1)
            async with working(q):
                await asyncio.sleep(1)
                call.enqueue_many([(each,) for each in range(4)])
                await asyncio.sleep(10)

        play(clock, main)
        (found,) = q.store.read(metrics.figures).breakers
        assert (found.state, found.requests["failure"]) == (2, 1)
        assert found.requests["rejected"] >= 4
        play(clock, lambda: asyncio.sleep(60))
        (found,) = q.store.read(metrics.figures).breakers
        assert found.state == 1


def test_the_states_of_targets_are_bounded_and_all_are_counted(db: Database, jobs: Jobs) -> None:
    n = metrics.MAX_TARGETS + 5
    jobs.store.write(lambda tx: [tx.query("target_new", {"name": f"t{i:04}"}) for i in range(n)])
    until = {"until": jobs.clock.now + 60, "actor": "ada"}
    jobs.store.write(lambda tx: tx.query("target_pause", {"name": "t0001", **until}))
    jobs.store.write(lambda tx: tx.query("target_pause", {"name": f"t{n - 1:04}", **until}))

    found = read(jobs)

    assert len(found.target_state) == metrics.MAX_TARGETS
    assert found.target_state["t0001"] == "paused"
    assert found.targets["paused"] == 2
    assert sum(found.targets.values()) == n
    assert set(found.targets) == set(found.tokens)


def test_a_worker_that_is_there_is_counted_and_the_last_tick_is_its_last_word(jobs: Jobs) -> None:
    def seen(name: str) -> None:
        given = {"id": name, "host": "h", "pid": 1, "queues": "[]", "stopping": 0, "outdated": 0, "beat": 1}
        jobs.store.write(lambda tx: tx.query("worker_seen", given))

    seen("gone")
    jobs.clock.advance(3600)
    seen("there")

    found = read(jobs)
    assert (found.workers, found.last_tick) == (1, jobs.clock.now)
