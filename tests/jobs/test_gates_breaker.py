"""The breaker of a target of jobs: one row for all workers; held jobs wait where they are, unspent and unwritten."""

from __future__ import annotations

import asyncio
import itertools
import math
from typing import Any, cast

import pytest

from tests.databases import BOTH, Database
from tests.jobs.gating import Service, breaker_of, moves, play, queue_on, states, working
from tidegate import Backoff, BreakerOptions, Rate, Target
from tidegate.clock import VirtualClock
from tidegate.jobs.function import JobFunction
from tidegate.jobs.job import JobState
from tidegate.jobs.outcome import Again, Done
from tidegate.jobs.queue import Queue
from tidegate.store.base import Tx
from tidegate.store.sql import Statement
from tidegate.targets import table

pytestmark = pytest.mark.parametrize("db", BOTH, indirect=True)

BREAKER: BreakerOptions = {"consecutive": 3, "timeout": 60, "max_requests": 3}
LATER = Backoff(7200, cap=7200, jitter=0)  # between the attempts of one job: far beyond these tests


def gone() -> ConnectionError:
    return ConnectionError("refused")


def target(**numbers: Any) -> Target:
    return Target("svc", backoff=None, breaker=cast("BreakerOptions", {**BREAKER, **numbers}))


def calling(q: Queue, service: Service) -> JobFunction[[int], None]:
    @q.job(target=target(), key=lambda n: n % 20, name="call", backoff=LATER)
    async def call(n: int) -> None:
        await service.call(n)

    return call


def test_a_breaker_that_opened_holds_the_other_jobs_where_they_are(db: Database) -> None:
    clock = VirtualClock()
    service = Service(clock, ill=gone())
    with queue_on(db, clock) as q:

        @q.job(target=target(timeout=7200), backoff=LATER)
        async def call(n: int) -> None:
            await service.call(n)

        jobs = call.enqueue_many([(each,) for each in range(500)])

        async def main() -> None:
            async with working(q, concurrency=3):
                await asyncio.sleep(10)
                before = [q.get(job) for job in jobs], [q.events(job) for job in jobs]
                await asyncio.sleep(600)
                assert ([q.get(job) for job in jobs], [q.events(job) for job in jobs]) == before

        play(clock, main)
        assert len(service.calls) == 3
        assert [q.get(job).attempt for job in jobs[3:]] == [0] * 497
        assert breaker_of(q, "svc") == "open"


def test_an_hour_of_held_jobs_writes_no_row_of_a_job_or_an_event(db: Database) -> None:
    """Not even one that leaves no trace: the database itself counts them."""
    if not db.sqlite:
        pytest.skip("the counter of changed rows is SQLite's")
    clock = VirtualClock()
    with queue_on(db, clock) as q:

        @q.job(target=target(), key=lambda n: n % 100)
        async def call(n: int) -> None: ...

        call.enqueue_many([(each,) for each in range(2000)])
        q.target("svc").force("open", "2h")

        def count(tx: Tx) -> None:
            tx.execute("create table written (what text)")
            for what in ("tg_job", "tg_event"):
                for verb in ("insert", "update", "delete"):
                    noted = f"begin insert into written values ('{verb}'); end"
                    tx.execute(f"create trigger {what}_{verb} after {verb} on {what} {noted}")

        q.store.write(count)

        async def main() -> None:
            async with working(q):
                await asyncio.sleep(3600)

        play(clock, main)
        q.store.add([Statement("written", "select count(*) from written")])
        assert q.store.read(lambda tx: tx.query("written")) == [(0,)]


@pytest.mark.parametrize("workers", [1, 4])
def test_half_open_takes_exactly_its_permits_over_all_workers_and_keys(db: Database, workers: int) -> None:
    clock = VirtualClock()
    service = Service(clock, ill=gone(), takes=5)
    queues = [queue_on(db, clock) for _ in range(workers)]
    calls = [calling(q, service) for q in queues]
    calls[0].enqueue_many([(each,) for each in range(200)])
    q = queues[0]

    async def main() -> None:
        async with working(*queues, concurrency=10):
            await asyncio.sleep(6)
            assert breaker_of(q, "svc") == "open"
            service.calls.clear()
            service.most = 0
            await asyncio.sleep(61)
            assert breaker_of(q, "svc") == "half-open"
            assert (len(service.calls), service.most) == (3, 3)
            await asyncio.sleep(5)
            # One failure is enough to open it again.
            assert breaker_of(q, "svc") == "open"
            assert len(service.calls) == 3

    play(clock, main)
    assert moves(q, "svc")[:4] == [
        ("closed", "open"),
        ("open", "half-open"),
        ("half-open", "open"),
    ]
    for queue in queues:
        queue.close()


def test_attempts_from_before_it_opened_take_no_permit_and_their_results_change_nothing(db: Database) -> None:
    clock = VirtualClock()
    service = Service(clock, ill=gone(), takes=1)
    slow = Service(clock, takes=70)
    with queue_on(db, clock) as q:
        shared = target()

        @q.job(target=shared, name="slow")
        async def long(n: int) -> None:
            await slow.call(n)

        @q.job(target=shared, name="quick", backoff=LATER)
        async def quick(n: int) -> None:
            await service.call(n)

        long.options(priority=9).enqueue_many([(each,) for each in range(5)])
        quick.enqueue_many([(each,) for each in range(30)])

        async def main() -> None:
            async with working(q, concurrency=10):
                await asyncio.sleep(5)
                assert breaker_of(q, "svc") == "open"
                service.ill, service.takes = None, 8
                seen = len(service.calls)
                await asyncio.sleep(57)
                # Five from before are still under way.
                assert (breaker_of(q, "svc"), slow.active) == ("half-open", 5)
                assert len(service.calls) - seen == 3
                await asyncio.sleep(15)
                assert breaker_of(q, "svc") == "closed"

        play(clock, main)
        assert moves(q, "svc") == [("closed", "open"), ("open", "half-open"), ("half-open", "closed")]


@pytest.mark.parametrize("ending", ["again", "done"])
def test_a_permit_whose_attempt_says_nothing_goes_to_the_next_job(db: Database, ending: str) -> None:
    clock = VirtualClock()
    asked: list[int] = []
    with queue_on(db, clock) as q:

        @q.job(target=target())
        async def call(n: int) -> Done[None]:
            asked.append(n)
            if ending == "done":
                return Done(unsent=True)
            raise Again("10m", keep_attempt=True)

        call.enqueue_many([(each,) for each in range(6)])

        async def main() -> None:
            q.target("svc").force("open", "1m")
            async with working(q):
                await asyncio.sleep(70)

        play(clock, main)
        assert sorted(asked) == list(range(6))
        assert breaker_of(q, "svc") == "half-open"


def test_after_closing_the_drain_ramps_up_from_one_to_the_limit(db: Database) -> None:
    clock = VirtualClock()
    service = Service(clock, takes=1)
    with queue_on(db, clock) as q:

        @q.job(target=Target("svc", backoff=None, breaker=BREAKER, concurrency=12))
        async def call(n: int) -> None:
            await service.call(n)

        call.enqueue_many([(each,) for each in range(2000)])

        async def main() -> None:
            q.target("svc").force("open", "1m")
            async with working(q, concurrency=50):
                await asyncio.sleep(61.5)
                closed = clock.monotonic() - 0.5
                seen = []
                for second in range(1, 80):
                    await asyncio.sleep(closed + second + 0.5 - clock.monotonic())
                    seen.append(service.active)
                assert seen[0] <= 1
                assert seen == sorted(seen)
                assert all(n <= max(1, math.ceil(12 * (second + 0.5) / 60)) for second, n in enumerate(seen, 1))
                assert seen[-1] == 12

        play(clock, main)
        assert service.most == 12


def test_without_a_limit_the_drain_still_ramps_up(db: Database) -> None:
    clock = VirtualClock()
    service = Service(clock, takes=1)
    with queue_on(db, clock) as q:

        @q.job(target=target())
        async def call(n: int) -> None:
            await service.call(n)

        call.enqueue_many([(each,) for each in range(500)])

        async def main() -> None:
            q.target("svc").force("open", "1m")
            async with working(q, concurrency=100):
                await asyncio.sleep(61.5)
                seen = []
                for _ in range(5):
                    seen.append(service.active)
                    await asyncio.sleep(6)
                assert seen[0] <= 1
                assert all(later <= 2.5 * earlier + 1 for earlier, later in itertools.pairwise(seen))
                await asyncio.sleep(60)

        play(clock, main)
        assert states(q) == {"done": 500}


def test_a_service_that_brings_no_more_is_given_no_more_and_that_is_said(db: Database) -> None:
    clock = VirtualClock()
    with queue_on(db, clock) as q:
        one_by_one, here = asyncio.Lock(), set[int]()
        most = 0

        @q.job(target=target())
        async def call(n: int) -> None:
            nonlocal most
            here.add(n)
            most = max(most, len(here))
            async with one_by_one:
                await asyncio.sleep(0.1)
            here.discard(n)

        jobs = call.enqueue_many([(each,) for each in range(2000)])

        async def main() -> None:
            q.target("svc").force("open", "1m")
            async with working(q, concurrency=100):
                await asyncio.sleep(61 + 90)
                assert "concurrency" in [why.reason for why in q.explain(jobs[-1])]  # though none is declared

        play(clock, main)
        # Two bring as much as one: four have shown that, and there it stays.
        assert most <= 8


def test_a_rate_that_holds_jobs_back_is_not_taken_for_the_service(db: Database) -> None:
    clock = VirtualClock()
    service = Service(clock, takes=0.5)
    with queue_on(db, clock) as q:

        @q.job(target=Target("svc", backoff=None, breaker=BREAKER, rate=Rate(4, "1s")))
        async def call(n: int) -> None:
            await service.call(n)

        call.enqueue_many([(each,) for each in range(600)])

        async def main() -> None:
            q.target("svc").force("open", "1m")
            async with working(q):
                await asyncio.sleep(61 + 75)
                row = q.store.read(lambda tx: table.target(tx, "svc"))
                assert row is not None
                assert row.breaker.adaptive_limit is None  # it was over after the minute

        play(clock, main)


def test_a_breaker_that_one_worker_opened_stops_all_of_them_at_once(db: Database) -> None:
    clock = VirtualClock()
    service = Service(clock, takes=1)
    queues = [queue_on(db, clock) for _ in range(3)]
    calls = [calling(q, service) for q in queues]
    calls[0].enqueue_many([(each,) for each in range(3000)])
    q = queues[0]

    async def main() -> None:
        async with working(*queues, concurrency=5):
            await asyncio.sleep(10.5)
            service.ill = gone()
            await asyncio.sleep(20)

    play(clock, main)
    opened = next(e.at for e in q.target("svc").events() if e.fields.get("to") == "open") - 1_700_000_000
    assert not [at for at, _ in service.calls if opened + 2 < at < opened + 60]
    assert len([at for at, _ in service.calls if at > opened]) == 0
    for queue in queues:
        queue.close()


def test_fail_fast_ends_jobs_with_the_code_of_their_kind_and_spends_no_attempt(db: Database) -> None:
    clock = VirtualClock()
    with queue_on(db, clock) as q:
        shared = Target("svc", backoff=None, breaker=BREAKER, when_open="fail-fast")

        @q.job(target=shared, name="plain")
        async def plain(n: int) -> None: ...

        @q.job(target=shared, name="other", fail_fast_code="upstream_failure")
        async def other(n: int) -> None: ...

        jobs = [plain.enqueue(1), other.enqueue(2)]
        many = plain.enqueue_many([(each,) for each in range(1200)])

        async def main() -> None:
            q.target("svc").force("open", "1m")
            async with working(q):
                await asyncio.sleep(5)
                late = plain.enqueue(3)
                await asyncio.sleep(2)
                assert q.get(late).state is JobState.FAILED

        play(clock, main)
        found = [q.get(job) for job in jobs]
        assert [(job.state, job.error_code, job.attempt) for job in found] == [
            ("failed", "overloaded", 0),
            ("failed", "upstream_failure", 0),
        ]
        assert {q.get(job).state for job in many} == {JobState.FAILED}
        assert [event.actor for event in q.events(jobs[0]) if event.kind == "failed"] == ["breaker"]


@pytest.mark.parametrize("which", ["fail_fast_code", "lost_code"])
def test_the_codes_of_a_kind_must_be_known(db: Database, which: str) -> None:
    wrong: dict[str, Any] = {which: "NO_SUCH"}
    with queue_on(db, VirtualClock()) as q, pytest.raises(ValueError, match=which):

        @q.job(target=target(), **wrong)
        async def call(n: int) -> None: ...


def test_a_drain_holds_behind_a_breaker_and_says_so(db: Database) -> None:
    clock = VirtualClock()
    service = Service(clock, ill=gone(), takes=0)
    with queue_on(db, clock) as q:

        @q.job(target=target(), backoff=LATER)
        async def call(n: int) -> None:
            await service.call(n)

        call.enqueue_many([(each,) for each in range(10)])

        async def main() -> tuple[int, int, int]:
            done = await q.adrain(concurrency=1)
            return done.again, done.held, done.remaining

        assert play(clock, main) == (3, 7, 10)


def test_a_breaker_reset_by_a_person_lets_everything_go_at_once(db: Database) -> None:
    clock = VirtualClock()
    service = Service(clock, takes=1)
    with queue_on(db, clock) as q:

        @q.job(target=target())
        async def call(n: int) -> None:
            await service.call(n)

        call.enqueue_many([(each,) for each in range(30)])

        async def main() -> None:
            q.target("svc").force("open", "1h", by="ada")
            async with working(q, concurrency=30):
                await asyncio.sleep(5)
                assert not service.calls
                assert q.target("svc").reset(by="ada") == "open"
                await asyncio.sleep(2)
                assert len(service.calls) == 30

        play(clock, main)
        assert {(e.kind, e.actor) for e in q.target("svc").events()} == {("breaker_state_changed", "ada")}
