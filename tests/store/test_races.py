"""Two transactions at once, in the order that hurts: on PostgreSQL both are inside, SQLite lets in one at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from tests.databases import POSTGRES, Database
from tests.postgres import server_url
from tests.store.jobs import LEASE, Clock, Jobs, new
from tidegate.jobs import actions, claim, insert, outcome
from tidegate.jobs.job import Claimed
from tidegate.jobs.settle import Settled, settle
from tidegate.store.base import Tx

pytestmark = pytest.mark.parametrize("db", [POSTGRES], indirect=True)


class Race:
    """The first goes in, does its part and waits; the second runs until it is done, or stands before a lock."""

    def __init__(self, db: Database, jobs: Jobs, clock: Clock) -> None:
        self.name = db.url.rpartition("application_name=")[2]
        self.first, self.second = jobs, Jobs(db.open(clock), clock)
        self.pool = ThreadPoolExecutor(2)
        self.waited = False  # the second, for a lock of the first

    def run(self, first: Callable[[Tx], Any], second: Callable[[Tx], Any]) -> tuple[Any, Any]:
        did, go_on = threading.Event(), threading.Event()

        def waiting(tx: Tx) -> Any:
            result = first(tx)
            did.set()
            go_on.wait(60)
            return result

        one = self.pool.submit(self.first.store.write, waiting)
        assert did.wait(60)
        two = self.pool.submit(self.second.store.write, second)
        self.until_it_ends_or_waits(two)
        go_on.set()
        return one.result(60), two.result(60)

    def until_it_ends_or_waits(self, running: Future[Any]) -> None:
        with psycopg.connect(server_url(), autocommit=True) as watcher:
            sql = "select 1 from pg_stat_activity where application_name = %s and wait_event_type = 'Lock'"
            while not running.done() and not self.waited:
                self.waited = bool(watcher.execute(sql, (self.name,)).fetchall())
                time.sleep(0.002)


@pytest.fixture
def race(db: Database, jobs: Jobs, clock: Clock) -> Iterator[Race]:
    found = Race(db, jobs, clock)
    yield found
    found.pool.shutdown()
    found.second.store.close()


def done(*held: Claimed) -> Callable[[Tx], Settled]:
    return lambda tx: settle(tx, [outcome.done(job, None) for job in held], "w")


def failed(*held: Claimed) -> Callable[[Tx], Settled]:
    return lambda tx: settle(tx, [outcome.failed(job, "gone", "Gone.") for job in held], "w")


def test_two_parents_that_end_at_once_free_their_child(race: Race, jobs: Jobs) -> None:
    a, b = jobs.one(), jobs.one()
    child = jobs.child(a, b)
    first, second = jobs.claim(2)

    race.run(done(first), done(second))

    assert jobs.stage(child) == "ready"


@pytest.mark.parametrize("order", ["done first", "failed first"])
def test_a_child_fails_when_one_parent_fails_while_the_other_is_done(race: Race, jobs: Jobs, order: str) -> None:
    a, b = jobs.one(), jobs.one()
    child = jobs.child(a, b)
    first, second = jobs.claim(2)

    if order == "done first":
        race.run(done(first), failed(second))
    else:
        race.run(failed(first), done(second))

    assert jobs.stage(child) == "failed"


@pytest.mark.parametrize("end", [done, failed])
@pytest.mark.parametrize("order", ["parent first", "child first"])
def test_a_child_that_is_put_in_while_its_parent_ends_is_not_forgotten(
    race: Race, jobs: Jobs, end: Callable[..., Callable[[Tx], Settled]], order: str
) -> None:
    parent = jobs.one()
    (held,) = jobs.claim()

    def put(tx: Tx) -> int:
        return insert.enqueue(tx, [new(parents=(parent,))])[0].id

    if order == "parent first":
        _, child = race.run(end(held), put)
    else:
        child, _ = race.run(put, end(held))

    assert jobs.stage(child) == ("ready" if end is done else "failed")


def test_a_parent_is_retried_while_the_other_is_done(race: Race, jobs: Jobs) -> None:
    a, b = jobs.one(), jobs.one()
    child = jobs.child(a, b)
    jobs.fail(a)
    held = jobs.take(b)

    race.run(lambda tx: actions.requeue_job(tx, a, "ada"), done(held))

    assert (jobs.stage(child), jobs.get(child).parents_open) == ("blocked", 1)
    jobs.done(a)
    assert jobs.stage(child) == "ready"


def test_a_parent_is_done_while_the_other_is_retried(race: Race, jobs: Jobs) -> None:
    a, b = jobs.one(), jobs.one()
    child = jobs.child(a, b)
    jobs.fail(a)
    held = jobs.take(b)

    race.run(done(held), lambda tx: actions.requeue_job(tx, a, "ada"))

    assert (jobs.stage(child), jobs.get(child).parents_open) == ("blocked", 1)


def test_a_child_is_retried_while_its_parent_is_done(race: Race, jobs: Jobs) -> None:
    parent = jobs.one()
    child = jobs.child(parent)
    jobs.cancel(child)
    held = jobs.take(parent)

    race.run(done(held), lambda tx: actions.requeue_job(tx, child, "ada"))
    assert jobs.stage(child) == "ready"


def test_a_parent_is_done_while_its_child_is_retried(race: Race, jobs: Jobs) -> None:
    parent = jobs.one()
    child = jobs.child(parent)
    jobs.cancel(child)
    held = jobs.take(parent)

    race.run(lambda tx: actions.requeue_job(tx, child, "ada"), done(held))
    assert jobs.stage(child) == "ready"


@pytest.mark.req("CNV-07")
@pytest.mark.parametrize("first", ["settle", "take back"])
def test_of_a_worker_that_ends_and_one_that_takes_back_only_one_counts(race: Race, jobs: Jobs, first: str) -> None:
    id_ = jobs.one()
    (held,) = jobs.claim()
    jobs.clock.advance(LEASE + 1)

    def take(tx: Tx) -> int:
        return claim.rescue_lost(tx, claim.LostRule("worker_lost"), "Lost.", {}, LEASE)

    if first == "settle":
        settled, taken = race.run(done(held), take)
    else:
        taken, settled = race.run(take, done(held))

    assert (taken, len(settled.counted)) == ((0, 1) if first == "settle" else (1, 0))
    assert jobs.stage(id_) == ("done" if first == "settle" else "ready")


def test_a_claim_passes_by_what_somebody_else_is_taking(race: Race, jobs: Jobs) -> None:
    jobs.put(*(new() for _ in range(6)))
    lane = claim.ReadyKey("q", "", "")

    one, two = race.run(
        lambda tx: claim.claim(tx, lane, 3, "a", LEASE), lambda tx: claim.claim(tx, lane, 3, "b", LEASE)
    )

    assert {job.id for job in one}.isdisjoint({job.id for job in two})
    assert len(one) == len(two) == 3
    assert not race.waited


@pytest.mark.parametrize("first", ["claim", "cancel"])
def test_a_job_that_is_cancelled_while_it_is_claimed_is_told_or_not_run(race: Race, jobs: Jobs, first: str) -> None:
    id_ = jobs.one()
    lane = claim.ReadyKey("q", "", "")

    def take(tx: Tx) -> list[Claimed]:
        return claim.claim(tx, lane, 1, "w", LEASE)

    def stop(tx: Tx) -> str | None:
        return actions.cancel_job(tx, id_, "ada")

    claimed, answer = race.run(take, stop) if first == "claim" else race.run(stop, take)[::-1]

    assert (len(claimed), answer) == ((1, "asked") if first == "claim" else (0, "cancelled"))


def test_the_numbers_are_right_when_a_waiting_job_is_cancelled_just_as_it_becomes_ready(race: Race, jobs: Jobs) -> None:
    id_ = jobs.one(due_at=jobs.clock.now + 5)
    jobs.clock.advance(5)

    race.run(claim.promote, lambda tx: actions.cancel_job(tx, id_, "ada"))

    assert jobs.stage(id_) == "cancelled"


def test_one_of_two_who_retry_the_same_job_is_told_that_it_is_queued(race: Race, jobs: Jobs) -> None:
    id_ = jobs.one()
    jobs.fail(id_)

    assert race.run(lambda tx: actions.requeue_job(tx, id_, "ada"), lambda tx: actions.requeue_job(tx, id_, "bob")) == (
        True,
        False,
    )
    assert jobs.history(id_).count("retried") == 1


def test_a_job_that_is_retried_is_not_pruned_at_the_same_moment(race: Race, jobs: Jobs) -> None:
    id_ = jobs.one()
    jobs.fail(id_)

    race.run(lambda tx: actions.requeue_job(tx, id_, "ada"), lambda tx: actions.delete_job(tx, id_))

    assert jobs.stage(id_) == "ready"


def test_nothing_is_left_of_a_job_that_is_removed_while_a_late_result_comes(race: Race, jobs: Jobs) -> None:
    id_ = jobs.one()
    late = jobs.take(id_)
    jobs.die(late)
    jobs.done(id_)

    race.run(lambda tx: actions.delete_job(tx, id_), done(late))

    assert jobs.sql("select count(*) from tg_event") == [(0,)]


def test_two_actions_on_one_job_are_two_events(race: Race, jobs: Jobs) -> None:
    id_ = jobs.one()
    jobs.take(id_)

    race.run(lambda tx: actions.cancel_job(tx, id_, "ada"), lambda tx: actions.cancel_job(tx, id_, "bob"))

    assert [event.actor for event in jobs.events(id_) if event.kind == "cancel_asked"] == ["ada", "bob"]


def test_a_twin_that_is_given_up_while_it_is_met_leaves_room_for_the_new_one(race: Race, jobs: Jobs) -> None:
    def rolled_back(tx: Tx) -> None:
        insert.enqueue(tx, [new("x")])

    class Undone(Exception):
        pass

    did, go_on = threading.Event(), threading.Event()

    def first(tx: Tx) -> None:
        rolled_back(tx)
        did.set()
        go_on.wait(60)
        raise Undone

    one = race.pool.submit(jobs.store.write, first)
    did.wait(60)
    two = race.pool.submit(race.second.put, new("x"))
    race.until_it_ends_or_waits(two)
    go_on.set()

    assert isinstance(one.exception(60), Undone)
    assert two.result(60)[0].created


def test_the_lead_goes_to_one_of_two_who_ask_at_once(race: Race, jobs: Jobs) -> None:
    def lead(name: str) -> Callable[[Tx], list[Any]]:
        return lambda tx: tx.query("lead", {"name": "sweeper", "holder": name, "lease": 10.0})

    assert race.run(lead("a"), lead("b")) == ([(1,)], [])
    jobs.clock.advance(11)
    assert race.run(lead("b"), lead("a")) == ([(2,)], [])


def test_a_tick_of_a_schedule_goes_to_one_of_two_who_ask_at_once(race: Race, jobs: Jobs) -> None:
    def tick(tx: Tx) -> list[Any]:
        return tx.query("schedule_tick", {"name": "nightly", "at": jobs.clock.now})

    one, two = race.run(tick, tick)

    assert (len(one), len(two)) == (1, 0)
