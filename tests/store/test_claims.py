from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.databases import EVERY, Database
from tests.store.jobs import LEASE, Clock, Jobs, new
from tidegate.jobs import claim, outcome

EVERYWHERE = pytest.mark.parametrize("db", EVERY, indirect=True)


@EVERYWHERE
@pytest.mark.req("CNV-07")
def test_a_claim_counts_the_attempt_raises_the_fence_and_sets_a_lease(jobs: Jobs) -> None:
    id_ = jobs.one(args="7")
    jobs.clock.advance(5)

    (held,) = jobs.claim(worker="ada")
    job = jobs.get(id_)

    assert (held.id, held.args, held.attempt, held.fence) == (id_, "7", 1, 1)
    assert held.claimed_at == jobs.clock.now
    assert held.lease_until == jobs.clock.now + LEASE
    assert (job.stage, job.attempt, job.fence, job.lease_by) == ("running", 1, 1, "ada")
    assert (job.lease_until, job.claimed_at) == (held.lease_until, held.claimed_at)
    assert jobs.history(id_) == "queued processing"


@EVERYWHERE
def test_the_most_urgent_go_first_and_then_the_oldest(jobs: Jobs) -> None:
    wanted = {jobs.one(priority=p): p for p in (0, 5, -3, 5, 0, 9, -3, 1)}

    order = [jobs.claim(1)[0].id for _ in wanted]

    assert order == sorted(wanted, key=lambda id_: (-wanted[id_], id_))


@EVERYWHERE
def test_a_batch_comes_in_the_same_order(jobs: Jobs) -> None:
    wanted = {jobs.one(priority=p): p for p in (0, 5, -3, 5, 0)}

    assert [job.id for job in jobs.claim()] == sorted(wanted, key=lambda id_: (-wanted[id_], id_))


@pytest.mark.parametrize("n", [0, 1, 2, 5, 6, 100])
def test_no_more_than_asked_for_are_taken(jobs: Jobs, n: int) -> None:
    jobs.put(*(new() for _ in range(5)))

    assert len(jobs.claim(n)) == min(n, 5)


@pytest.mark.parametrize("stage", ["blocked", "waiting", "running", "done", "failed", "cancelled"])
def test_only_ready_jobs_are_taken(jobs: Jobs, stage: str) -> None:
    id_ = jobs.one()
    match stage:
        case "blocked":
            jobs.child(id_)
            jobs.claim()
        case "waiting":
            jobs.settle(outcome.released(jobs.take(id_), unsent=True, wait=5))
        case "running":
            jobs.claim()
        case "done":
            jobs.done(id_)
        case "failed":
            jobs.fail(id_)
        case "cancelled":
            jobs.cancel(id_)

    assert jobs.claim() == []


@pytest.mark.parametrize("other", [{"queue": "p"}, {"target": "t"}, {"lane": "l"}])
def test_a_claim_takes_of_its_own_lane_only(jobs: Jobs, other: dict[str, str]) -> None:
    jobs.one(**other)
    mine = jobs.one()

    assert [job.id for job in jobs.claim()] == [mine]


def test_a_cycle_takes_nothing_that_came_after_it_began(jobs: Jobs) -> None:
    old, newer = jobs.one(), jobs.one(priority=9)
    cycle = claim.DrainSnapshot(old, 2.0**40)

    taken = jobs.store.write(lambda tx: claim.claim(tx, claim.ReadyKey("q", "", ""), 10, "w", LEASE, cycle))

    assert [job.id for job in taken] == [old]
    assert jobs.stage(newer) == "ready"


def test_a_cycle_takes_nothing_that_fell_due_after_it_began_and_what_a_clock_has_fallen_behind_it_does(
    jobs: Jobs,
) -> None:
    fell_due, old = jobs.one(due_at=jobs.clock.now + 10), jobs.one()
    cycle = claim.DrainSnapshot(old, jobs.clock.now + 5)
    jobs.clock.advance(10)
    jobs.promote()

    def taken(cycle: claim.DrainSnapshot) -> list[int]:
        lane = claim.ReadyKey("q", "", "")
        return [job.id for job in jobs.store.write(lambda tx: claim.claim(tx, lane, 10, "w", LEASE, cycle))]

    assert taken(cycle) == [old]
    jobs.clock.advance(-100)
    assert taken(claim.DrainSnapshot(old, jobs.clock.now)) == [fell_due]


@EVERYWHERE
def test_a_claim_that_was_not_heard_of_can_be_asked_for(jobs: Jobs) -> None:
    first, second = jobs.one(), jobs.one()
    jobs.claim(1, "ada")
    jobs.claim(1, "bob")

    mine = jobs.store.read(lambda tx: claim.mine(tx, "ada"))

    assert [job.id for job in mine] == [first]
    assert mine[0].fence == 1
    assert jobs.stage(second) == "running"


def test_a_job_that_is_too_old_is_not_taken(jobs: Jobs) -> None:
    jobs.one(expires_in=10)
    fresh = jobs.one(expires_in=11)
    jobs.clock.advance(10)

    assert [job.id for job in jobs.claim()] == [fresh]


@pytest.mark.req("CNV-07")
def test_no_job_is_taken_twice_by_many_workers_at_once(db: Database, jobs: Jobs, clock: Clock) -> None:
    n, workers = 400, 8
    jobs.put(*(new(lane=str(i % 3)) for i in range(n)))
    stores = [Jobs(db.open(clock), clock) for _ in range(workers)]

    def work(mine: tuple[int, Jobs]) -> list[int]:
        number, store = mine
        found: list[int] = []
        while True:
            taken = [job.id for lane in "012" for job in store.claim(7, f"w{number}", lane)]
            found += taken
            if not taken:
                return found

    with ThreadPoolExecutor(workers) as pool:
        results = list(pool.map(work, enumerate(stores)))
    for each in stores:
        each.store.close()

    taken = Counter(id_ for each in results for id_ in each)
    assert len(taken) == n
    assert set(taken.values()) == {1}
    assert jobs.sql("select min(fence), max(fence), min(attempt), max(attempt) from tg_job") == [(1, 1, 1, 1)]


def test_promoting_takes_a_slice_and_the_longest_due_first(jobs: Jobs) -> None:
    jobs.put(*(new(due_at=jobs.clock.now + 1 + n) for n in range(700)))
    jobs.clock.advance(10_000)

    assert [jobs.promote(), jobs.promote(), jobs.promote()] == [500, 200, 0]


def test_the_next_moment_at_which_something_is_due_is_known(jobs: Jobs) -> None:
    def due() -> float | None:
        return jobs.store.read(claim.next_due)

    assert due() is None
    jobs.one(due_at=jobs.clock.now + 60)
    jobs.one(due_at=jobs.clock.now + 30)
    jobs.one()
    assert due() == jobs.clock.now + 30


@EVERYWHERE
def test_jobs_that_are_too_old_fail_wherever_they_wait(jobs: Jobs) -> None:
    parent = jobs.one()
    ids = [jobs.one(expires_in=10), jobs.one(due_in=70, expires_in=10), jobs.child(parent, expires_in=10)]
    kept = [jobs.one(), jobs.one(expires_in=11)]
    assert jobs.stage(*ids) == "ready waiting blocked"

    assert jobs.expire() == 0
    jobs.clock.advance(10)
    assert jobs.expire() == 3

    assert jobs.stage(*ids, *kept) == "failed failed failed ready ready"
    assert jobs.get(ids[0]).error_code == "expired"
    assert jobs.history(ids[0]) == "queued failed"
    assert jobs.tallies()["q", "failed_total:expired"] == 3
    assert jobs.expire() == 0


def test_a_running_job_does_not_expire(jobs: Jobs) -> None:
    id_ = jobs.one(expires_in=10)
    held = jobs.take(id_)
    jobs.clock.advance(20)

    assert jobs.expire() == 0
    assert not jobs.settle(outcome.done(held, None)).late


def test_the_children_of_an_expired_job_fail(jobs: Jobs) -> None:
    parent = jobs.one(expires_in=10)
    child = jobs.child(parent)
    jobs.clock.advance(10)

    jobs.expire()

    assert jobs.stage(child) == "failed"


def test_an_expired_job_that_a_person_retries_is_not_too_old_again(jobs: Jobs) -> None:
    id_ = jobs.one(expires_in=10)
    jobs.clock.advance(10)
    jobs.expire()

    jobs.retry(id_)

    assert jobs.expire() == 0
    assert [job.id for job in jobs.claim()] == [id_]
