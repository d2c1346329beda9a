"""Jobs whose worker died run alone until they are cleared, and only deaths while they ran alone count against them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.databases import BOTH, Database
from tests.jobs.building import Flaky, at_work, worker
from tests.jobs.gating import play, queue_on, working
from tidegate import Queue
from tidegate.clock import VirtualClock
from tidegate.guard.target import Target
from tidegate.jobs import claim, outcome
from tidegate.jobs.claim import ReadyKey
from tidegate.jobs.context import Context
from tidegate.jobs.fetch import FetchRequest, FinishedAttempt, fetch
from tidegate.jobs.gates import ClaimGates
from tidegate.jobs.in_flight import PROVEN_AFTER, runs_suspects, seconds_alone
from tidegate.jobs.job import JobState
from tidegate.store.migrate import Schema, core_migrations


class Watched:
    """Jobs that note when they begin and end, and how many ran beside each."""

    def __init__(self, q: Queue, clock: VirtualClock, **declared: Any) -> None:
        self.clock, self.q = clock, q
        self.began: dict[int, float] = {}
        self.ended: dict[int, float] = {}
        self.beside: dict[int, set[int]] = {}
        self.running: set[int] = set()

        @q.job(name="watched", **declared)
        async def watched(a: tuple[int, float]) -> None:
            n, lasts = a
            self.began[n] = clock.monotonic()
            self.running.add(n)
            for each in self.running:
                self.beside.setdefault(each, set()).update(self.running - {each})
            try:
                await asyncio.sleep(lasts)
            finally:
                self.running.discard(n)
            self.ended[n] = clock.monotonic()

        self.kind = watched

    def put(self, n: int, lasts: float, *, deaths: int = 0, **fields: Any) -> int:
        """A job; with *deaths* one whose worker died so often."""
        id_ = self.kind.options(**fields).enqueue((n, lasts)).id
        if deaths:
            self.q.store.write(
                lambda tx: tx.execute(f"update tg_job set deaths = {deaths}, suspect = 1 where id = {id_}")
            )
        return id_

    def work(self, seconds: float, **numbers: Any) -> None:
        async def main() -> None:
            async with working(self.q, grace=0, **numbers):
                await asyncio.sleep(seconds)

        play(self.clock, main)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


def test_suspects_run_one_after_another_and_others_begin_when_all_are_cleared(
    db: Database, clock: VirtualClock
) -> None:
    with queue_on(db, clock) as q:
        jobs = Watched(q, clock)
        for n in range(3):
            jobs.put(n, 1.0, deaths=1)
        for n in range(3, 6):
            jobs.put(n, 1.0)
        jobs.work(60)

        assert [jobs.beside[n] for n in range(3)] == [set(), set(), set()]
        assert max(jobs.ended[n] for n in range(3)) <= min(jobs.began[n] for n in range(3, 6))
        assert jobs.beside[3] == {4, 5}
        assert {q.get(each).suspect for each in range(1, 7)} == {0}


def test_a_worker_with_jobs_in_flight_claims_nothing_more_until_it_can_run_a_suspect_alone(
    clock: VirtualClock, db: Database
) -> None:
    with queue_on(db, clock) as q:
        jobs = Watched(q, clock)
        jobs.put(0, 5.0)

        async def main() -> None:
            async with working(q, grace=0):
                await asyncio.sleep(1)
                jobs.put(1, 1.0, deaths=1)
                jobs.put(2, 1.0)
                await asyncio.sleep(30)

        play(clock, main)

        assert jobs.ended[0] <= jobs.began[1]
        assert jobs.ended[1] <= jobs.began[2]


def test_what_has_run_for_long_keeps_no_suspect_from_its_turn(clock: VirtualClock, db: Database) -> None:
    with queue_on(db, clock) as q:
        jobs = Watched(q, clock)
        jobs.put(0, 3600.0)

        async def main() -> None:
            async with working(q, grace=0):
                await asyncio.sleep(1)
                jobs.put(1, 1.0, deaths=1)
                await asyncio.sleep(60)

        play(clock, main)

        assert PROVEN_AFTER <= jobs.began[1] - jobs.began[0] < PROVEN_AFTER + 30


@pytest.mark.parametrize("deaths", [1, 2, 3])
def test_a_long_suspect_is_cleared_after_a_time_that_doubles_with_each_death(
    clock: VirtualClock, db: Database, deaths: int
) -> None:
    with queue_on(db, clock) as q:
        jobs = Watched(q, clock)
        long = jobs.put(0, 3600.0, deaths=deaths)
        jobs.put(1, 1.0)
        jobs.work(300, poll_every=1.0)

        assert seconds_alone(deaths) == PROVEN_AFTER * 2 ** (deaths - 1)
        assert seconds_alone(deaths) <= jobs.began[1] - jobs.began[0] < seconds_alone(deaths) + 5
        assert (q.get(long).suspect, q.get(long).deaths_alone) == (0, 0)


def test_a_long_job_that_was_often_unlucky_keeps_others_waiting_for_five_minutes_at_most(
    clock: VirtualClock, db: Database
) -> None:
    with queue_on(db, clock) as q:
        jobs = Watched(q, clock)
        jobs.put(0, 3600.0, deaths=9)
        jobs.put(1, 1.0)
        jobs.work(600, poll_every=1.0)

        assert 290 < jobs.began[1] - jobs.began[0] < 310


def test_a_suspect_behind_a_shut_gate_keeps_no_others_waiting(clock: VirtualClock, db: Database) -> None:
    with queue_on(db, clock) as q:
        held = Watched(q, clock, target=Target("down", clock=clock))
        id_ = held.put(0, 1.0, deaths=1)

        @q.job(name="free")
        async def free(n: int) -> None:
            await asyncio.sleep(n)

        others = [free.enqueue(1) for _ in range(30)]
        q.target("down").pause("10m", by="ada")
        held.work(60)

        assert {q.get(each).state for each in others} == {JobState.DONE}
        assert (q.get(id_).stage, q.get(id_).suspect) == ("ready", 1)


@pytest.mark.parametrize("db", BOTH, indirect=True)
@pytest.mark.parametrize("shut", ["queue", "key"])
def test_no_number_of_suspects_behind_a_shut_gate_hides_another(clock: VirtualClock, db: Database, shut: str) -> None:
    with queue_on(db, clock) as q:
        target = Target("shop", clock=clock)

        @q.job(name="held", queue="held" if shut == "queue" else "default", target=target, key=lambda n: "held")
        async def held(n: int) -> None: ...

        jobs = Watched(q, clock, target=target)
        held.enqueue_many([(n,) for n in range(1100)])
        id_ = jobs.put(0, 1.0)
        q.store.write(lambda tx: tx.execute("update tg_job set deaths = 1, suspect = 1"))
        if shut == "queue":
            q.pause("held", "1h", by="ada")
        else:
            values = f"'shop', 'held', 'cooldown', {clock.now()}, {clock.now() + 3600}"
            insert = f"insert into tg_hold (target, lane, reason, since, until) values ({values})"
            q.store.write(lambda tx: tx.execute(insert))
        jobs.work(20)

        assert q.get(id_).state == JobState.DONE


def test_a_concurrency_limit_holds_for_suspects_too(clock: VirtualClock, db: Database) -> None:
    with queue_on(db, clock) as q:
        jobs = Watched(q, clock, target=Target("narrow", clock=clock, concurrency=1))
        jobs.put(0, 30.0)

        async def main() -> None:
            async with working(q, grace=0):
                await asyncio.sleep(15)
                jobs.put(1, 1.0, deaths=1)
                await asyncio.sleep(60)

        play(clock, main)

        assert jobs.ended[0] <= jobs.began[1]
        assert jobs.beside[1] == set()


def test_a_cycle_runs_its_suspects_alone_and_does_not_leave_them(clock: VirtualClock, db: Database) -> None:
    with queue_on(db, clock) as q:
        jobs = Watched(q, clock)
        for n in range(4):
            jobs.put(n, 1.0, deaths=n % 2)

        assert play(clock, q.adrain).done == 4
        assert jobs.beside[1] == jobs.beside[3] == set()


def test_a_cycle_inside_of_a_suspect_works_on_its_jobs(clock: VirtualClock, db: Database) -> None:
    with queue_on(db, clock) as q:
        jobs = Watched(q, clock, queue="inner")
        q.batch_only("inner")
        drained: list[int] = []

        @q.job(name="outer", queue="outer")
        async def outer(_: int) -> None:
            drained.append((await q.adrain("inner")).done)

        jobs.put(0, 1.0)
        jobs.put(1, 1.0, deaths=1)
        outer.enqueue(0)
        q.store.write(lambda tx: tx.execute("update tg_job set deaths = 1, suspect = 1 where kind = 'outer'"))
        jobs.work(30)

        assert drained == [2]
        assert jobs.beside[1] == set()


def test_two_workers_of_one_process_leave_a_suspect_alone(clock: VirtualClock, db: Database) -> None:
    with queue_on(db, clock) as q:
        jobs = Watched(q, clock)
        for n in range(10):
            jobs.put(n, 2.0, deaths=n % 2)

        async def main() -> None:
            async with working(q, q, grace=0, poll_every=1.0):
                await asyncio.sleep(120)

        play(clock, main)

        assert set(jobs.ended) == set(range(10))
        assert [jobs.beside[n] for n in range(1, 10, 2)] == [set()] * 5


def test_explain_says_that_a_suspect_runs_alone(clock: VirtualClock, db: Database) -> None:
    with queue_on(db, clock) as q:
        jobs = Watched(q, clock)
        jobs.put(0, 5.0)

        async def main() -> list[str]:
            async with working(q, grace=0):
                await asyncio.sleep(1)
                id_ = jobs.put(1, 1.0, deaths=1)
                await asyncio.sleep(1)
                return [str(why.reason) for why in q.explain(id_)]

        assert play(clock, main) == ["runs_alone"]


def _nothing(n: int) -> None: ...


@pytest.mark.parametrize("allowed", [1, 5])
def test_how_many_deaths_alone_fail_a_job_is_said_where_it_is_declared(
    clock: VirtualClock, db: Database, allowed: int
) -> None:
    with queue_on(db, clock) as q:
        jobs = Watched(q, clock, max_crashes=allowed, attempts=100)
        id_ = jobs.put(0, 1.0, deaths=1)
        lane = ReadyKey("default", "", "")
        q.job(queue="other", name="other")(_nothing)
        for deaths in range(1, allowed + 1):
            q.store.write(lambda tx: claim.claim_suspect(tx, lane, id_, "dead", 30.0))
            clock.advance(31)

            async def swept() -> None:
                async with working(q, grace=0, concurrency=1, queues={"other"}):
                    await asyncio.sleep(120)  # the worker of the last attempt has one more lease to come back

            play(clock, swept)
            assert (q.get(id_).state, q.get(id_).deaths_alone) == ("failed" if deaths == allowed else "queued", deaths)
        assert q.get(id_).error_code == "worker_lost"
        assert q.retry(id_, by="ada")
        jobs.work(20)
        assert q.get(id_).state == "done"


@pytest.mark.parametrize("max_crashes", [1, 3])
def test_a_job_that_runs_alone_does_not_fail_because_the_store_was_away(
    db: Database, clock: VirtualClock, max_crashes: int
) -> None:
    """Another worker reaches the store first each time, and sees that the lease has ended."""
    with queue_on(db, clock) as q:
        began: list[int] = []

        @q.job(attempts=100, max_crashes=max_crashes)
        async def job(n: int, job: Context) -> None:
            began.append(job.fence)
            await asyncio.sleep(30)

        put = job.enqueue(1)
        q.store.write(lambda tx: tx.execute("update tg_job set deaths = 1, suspect = 1"))
        flaky = Flaky(q.store)
        other = worker(q, job)

        async def main() -> None:
            async with at_work(worker(q, job, store=flaky)):
                for n in range(1, 6):
                    await asyncio.sleep(2)
                    assert len(began) == n
                    flaky.away = True
                    await asyncio.sleep(40)
                    await other.maintenance.rescue_and_expire()
                    flaky.away = False
                    await asyncio.sleep(6)
                await asyncio.sleep(60)

        play(clock, main)
        assert (q.get(put).state, q.get(put).deaths_alone) == (JobState.DONE, 0)
        assert len(began) == 6


def test_a_database_that_is_away_does_not_use_up_the_last_attempt(db: Database, clock: VirtualClock) -> None:
    with queue_on(db, clock) as q:

        @q.job(attempts=1)
        async def job(n: int) -> None:
            await asyncio.sleep(20)

        put = job.enqueue(1)
        flaky = Flaky(q.store)

        async def main() -> None:
            async with at_work(worker(q, job, store=flaky)):
                await asyncio.sleep(1)
                for seconds in (28, 40):  # the lease is uncertain, and then lost
                    flaky.away = True
                    await asyncio.sleep(seconds)
                    flaky.away = False
                    await asyncio.sleep(6)
                await asyncio.sleep(60)

        play(clock, main)
        assert (q.get(put).state, q.get(put).attempt) == (JobState.DONE, 1)


def test_a_late_result_shows_that_its_worker_lives(clock: VirtualClock, db: Database) -> None:
    with queue_on(db, clock) as q:
        jobs = Watched(q, clock, attempts=100)
        id_ = jobs.put(0, 1.0, deaths=1)
        lane, rule = ReadyKey("default", "", ""), claim.LostRule("worker_lost")
        (held,) = q.store.write(lambda tx: claim.claim_suspect(tx, lane, id_, "ada", 30.0))
        clock.advance(31)
        q.store.write(lambda tx: claim.rescue_lost(tx, rule, "It died.", {}, 30.0))
        assert q.get(id_).deaths_alone == 1

        wish = FetchRequest(worker="ada", queues=frozenset(), room=0, lease=30.0)
        late, gates, schema = (
            [FinishedAttempt(outcome.done(held, None))],
            ClaimGates({}, lambda: 0.5),
            Schema(core_migrations()),
        )
        q.store.write(lambda tx: fetch(tx, gates, late, wish, clock.now(), schema))

        assert (q.get(id_).state, q.get(id_).deaths_alone) == ("queued", 0)


@pytest.mark.parametrize(("elsewhere", "makes_way"), [(0, True), (1, False)])
def test_one_process_makes_way_for_a_suspect_and_the_others_go_on(
    clock: VirtualClock, db: Database, elsewhere: int, makes_way: bool
) -> None:
    with queue_on(db, clock) as q:
        jobs = Watched(q, clock)
        jobs.put(0, 5.0)

        async def main() -> None:
            async with working(q, grace=0, poll_every=0.5):
                await asyncio.sleep(1)
                at_work_elsewhere(q, elsewhere, clock.now())
                jobs.put(1, 1.0, deaths=1)
                jobs.put(2, 1.0)
                await asyncio.sleep(60)

        play(clock, main)

        assert (jobs.ended[0] <= jobs.began[2]) is makes_way
        assert jobs.beside[1] == set()


def at_work_elsewhere(q: Queue, processes: int, now: float) -> None:
    """Workers of other hosts; the turn is theirs."""
    began = now + 1 if int(now // 30) % 2 else now - 3600  # they come after this process, or before it
    values = [f"('other-{n}', 'other', {n}, {began}, {now + 3600}, '[\"default\"]', 0, 0, 1)" for n in range(processes)]
    if values:
        columns = "id, host, pid, started_at, seen_at, queues, stopping, outdated, beat"
        q.store.write(lambda tx: tx.execute(f"insert into tg_worker ({columns}) values {', '.join(values)}"))


def test_more_processes_make_way_the_longer_a_suspect_waits_up_to_half_of_them() -> None:
    def making_way(processes: int, waited: float, now: float = 0.0) -> list[int]:
        return [i for i in range(processes) if runs_suspects(i, processes, waited, now)]

    assert making_way(1, 0) == [0]
    assert making_way(2, 600) == making_way(3, 600) == [0]
    assert [making_way(6, waited) for waited in (-5, 0, 4.9, 5, 10, 600)] == [
        [0], [0], [0], [0, 1], [0, 1, 2], [0, 1, 2],
    ]  # fmt: skip


def test_each_process_makes_way_in_its_turn() -> None:
    turns = [[i for i in range(4) if runs_suspects(i, 4, 0, now)] for now in (0, 29, 30, 60, 90, 120)]

    assert turns == [[0], [0], [3], [2], [1], [0]]
