from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.databases import Database
from tests.store.jobs import LIVE, Clock, Jobs, new
from tidegate.errors import UniqueTaken
from tidegate.jobs import outcome
from tidegate.jobs.job import JobState, while_mask

FINAL = ("done", "failed", "cancelled")
ALL_MASKS = [frozenset(LIVE | set(some)) for n in range(4) for some in itertools.combinations(FINAL, n)]


def bring_to(jobs: Jobs, id_: int, state: str) -> None:
    """Brings a ready job into a state."""
    if state == "running":
        jobs.take(id_)
    elif state == "done":
        jobs.done(id_)
    elif state == "failed":
        jobs.fail(id_)
    elif state == "cancelled":
        jobs.cancel(id_)
    assert jobs.get(id_).state == state


@pytest.mark.req("LID-02", "CNV-03")
def test_asking_again_gives_the_twin_and_leaves_it_as_it_is(jobs: Jobs) -> None:
    first = jobs.one("album 7", args="1")
    before = jobs.get(first)

    (again,) = jobs.put(new("album 7", args="2", priority=9))

    assert (again.id, again.created) == (first, False)
    assert jobs.get(first) == before


@pytest.mark.req("LID-02", "CNV-03")
@pytest.mark.parametrize("state", list(JobState))
@pytest.mark.parametrize("mask", ALL_MASKS, ids=lambda mask: "+".join(sorted(mask - LIVE)) or "live")
def test_a_unique_is_held_in_the_states_that_were_asked_for_and_in_no_other(
    jobs: Jobs, mask: frozenset[str], state: str
) -> None:
    first = jobs.one("x", while_=mask)
    bring_to(jobs, first, state)

    (again,) = jobs.put(new("x", while_=mask))

    assert again.created == (state not in mask)
    assert (again.id == first) == (state in mask)


def test_a_waiting_and_a_blocked_job_are_queued_and_hold_their_unique(jobs: Jobs) -> None:
    parent = jobs.one()
    waiting, blocked = jobs.one("w", due_at=jobs.clock.now + 60), jobs.child(parent, key="b")

    assert [each.id for each in jobs.put(new("w"), new("b"))] == [waiting, blocked]


def test_the_same_key_of_another_kind_is_another_job(jobs: Jobs) -> None:
    assert jobs.one("x", kind="a") != jobs.one("x", kind="b")


def test_a_job_without_a_key_is_nobodys_twin(jobs: Jobs) -> None:
    assert len({each.id for each in jobs.put(new(), new(), new())}) == 3


def test_a_key_that_stands_twice_in_one_call_is_one_job(jobs: Jobs) -> None:
    taken = jobs.put(new("a", args="1"), new("b"), new("a", args="2"), new(), new("b"), new("a"))

    assert [each.created for each in taken] == [True, True, False, True, False, False]
    assert taken[0].id == taken[2].id == taken[5].id != taken[1].id == taken[4].id
    assert jobs.get(taken[0].id).args == "1"


def test_old_twins_and_new_jobs_can_be_asked_for_in_one_call(jobs: Jobs) -> None:
    old = jobs.one("b")

    taken = jobs.put(new("a"), new("b"), new("c"))

    assert [each.created for each in taken] == [True, False, True]
    assert taken[1].id == old


def test_jobs_of_one_call_are_taken_in_the_order_they_were_given(jobs: Jobs) -> None:
    jobs.put(*(new(key) for key in "zmaxb"))

    assert [jobs.get(job.id).unique_key for job in jobs.claim()] == list("zmaxb")


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(lambda jobs, id_: jobs.fail(id_), id="failed"),
        pytest.param(lambda jobs, id_: jobs.cancel(id_), id="cancelled"),
    ],
)
@pytest.mark.req("CNV-09")
def test_a_retry_is_refused_while_a_twin_has_the_place(jobs: Jobs, end: Callable[[Jobs, int], None]) -> None:
    old = jobs.one("x")
    end(jobs, old)
    before, history = jobs.get(old), jobs.events(old)
    twin = jobs.one("x")

    with pytest.raises(UniqueTaken):
        jobs.retry(old)

    assert (jobs.get(old), jobs.events(old)) == (before, history)
    jobs.cancel(twin)
    assert jobs.retry(old)


@pytest.mark.req("LID-02")
def test_forgetting_a_job_frees_its_unique(jobs: Jobs) -> None:
    first = jobs.one("x", while_=frozenset({"queued", "running", "done", "failed"}))
    jobs.done(first)

    assert jobs.forget(first)
    assert jobs.put(new("x"))[0].created


@pytest.mark.parametrize("ending", ["again", "given_back", "lost"])
def test_a_running_job_comes_back_to_the_queue_under_its_own_unique(jobs: Jobs, ending: str) -> None:
    id_ = jobs.one("x")
    held = jobs.take(id_)

    if ending == "lost":
        jobs.die(held)
    elif ending == "again":
        jobs.settle(outcome.again(held, outcome.Again("5s"), outcome.KindPolicy()))
    else:
        jobs.settle(outcome.released(held, unsent=True))

    assert jobs.get(id_).state == "queued"
    assert jobs.put(new("x"))[0].id == id_


@pytest.mark.parametrize(
    "states", [set(), {"queued"}, {"running"}, {"done"}, {"queued", "done"}, {"running", "failed"}]
)
def test_a_unique_that_is_not_held_all_along_is_refused(states: set[str]) -> None:
    with pytest.raises(ValueError, match="'queued' and 'running'"):
        while_mask(states)


@pytest.mark.parametrize("states", [{"queued", "running", "gone"}, {"ready"}, {""}])
def test_a_word_that_is_no_state_is_refused(states: set[str]) -> None:
    with pytest.raises(ValueError, match="queued, running, done, failed, cancelled"):
        while_mask(states)


@pytest.mark.req("CNV-03", "LID-02")
def test_racing_twins_are_one_job_for_each_key(db: Database, jobs: Jobs, clock: Clock) -> None:
    keys, threads = 300, 16
    barrier = threading.Barrier(threads)
    # Half of them share a store, as threads of one process do; the others are like processes of their own.
    stores = [jobs] * 8 + [Jobs(db.open(clock), clock) for _ in range(2)] * 4

    def race(mine: Jobs) -> list[tuple[int, bool]]:
        found = []
        for key in range(keys):
            if key % 25 == 0:
                barrier.wait()
            (taken,) = mine.put(new(key))
            found.append((taken.id, taken.created))
        return found

    with ThreadPoolExecutor(threads) as pool:
        results = list(pool.map(race, stores))

    for key in range(keys):
        assert len({each[key][0] for each in results}) == 1
        assert sum(each[key][1] for each in results) == 1
    assert jobs.sql("select count(*) from tg_job") == [(keys,)]
    for other in stores[8:10]:
        other.store.close()


def test_racing_batches_of_the_same_keys_in_any_order_end_with_one_job_each(
    db: Database, jobs: Jobs, clock: Clock
) -> None:
    keys = [str(n) for n in range(40)]
    orders = [keys, keys[::-1], keys[20:] + keys[:20], keys[::2] + keys[1::2]]
    stores = [Jobs(db.open(clock), clock) for _ in orders]

    with ThreadPoolExecutor(len(orders)) as pool:
        results = list(pool.map(lambda each: each[0].put(*map(new, each[1])), zip(stores, orders, strict=True)))

    assert sum(taken.created for each in results for taken in each) == len(keys)
    assert jobs.sql("select count(*) from tg_job") == [(len(keys),)]
    for each in stores:
        each.store.close()
