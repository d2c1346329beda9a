from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.databases import EVERY
from tests.store.jobs import Jobs, new
from tidegate.jobs import actions, outcome
from tidegate.jobs.job import StoredState

EVERYWHERE = pytest.mark.parametrize("db", EVERY, indirect=True)


def in_stage(jobs: Jobs, stage: str) -> int:
    """A job in this stage."""
    if stage == "blocked":
        return jobs.child(jobs.one(queue="parents"))
    if stage == "waiting":
        return jobs.one(due_at=jobs.clock.now + 60)
    id_ = jobs.one()
    if stage == "running":
        jobs.take(id_)
    elif stage == "done":
        jobs.done(id_)
    elif stage == "failed":
        jobs.fail(id_)
    elif stage == "cancelled":
        jobs.cancel(id_)
    assert jobs.stage(id_) == stage
    return id_


@EVERYWHERE
@pytest.mark.req("CNV-09", "CNV-11", "LID-13")
@pytest.mark.parametrize("stage", list(StoredState))
def test_only_what_has_failed_or_was_cancelled_can_be_retried(jobs: Jobs, stage: str) -> None:
    id_ = in_stage(jobs, stage)
    before, history = jobs.get(id_), jobs.events(id_)

    retried = jobs.retry(id_)

    assert retried == (stage in ("failed", "cancelled"))
    if not retried:
        assert (jobs.get(id_), jobs.events(id_)) == (before, history)


@pytest.mark.req("CNV-09", "LID-13")
def test_a_retry_starts_the_attempts_anew_and_keeps_history_and_fence(jobs: Jobs) -> None:
    id_ = jobs.one(most_attempts=3)
    jobs.die(jobs.take(id_))
    jobs.settle(outcome.failed(jobs.take(id_), "gone", "Gone.", 410))
    jobs.clock.advance(60)

    assert jobs.retry(id_)

    job = jobs.get(id_)
    assert (job.stage, job.attempt, job.deaths, job.fence, job.manual_retries) == ("ready", 0, 0, 2, 1)
    assert (job.error_code, job.error_message, job.finished_at, job.due_at) == (None, None, None, jobs.clock.now)
    assert job.last_code == "gone"
    assert jobs.history(id_) == "queued processing lost processing failed retried"
    assert jobs.events(id_)[-1].actor == "ada"
    again = jobs.take(id_)
    assert (again.attempt, again.fence) == (1, 3)
    assert jobs.tallies()["q", "manual_retry_total"] == 1


def test_there_is_no_job_to_retry_to_cancel_or_to_forget(jobs: Jobs) -> None:
    assert not jobs.retry(7)
    assert jobs.cancel(7) is None
    assert not jobs.forget(7)
    assert jobs.store.read(lambda tx: actions.get(tx, 7)) is None
    assert jobs.events(7) == []


@EVERYWHERE
@pytest.mark.parametrize("stage", list(StoredState))
def test_what_is_queued_is_cancelled_what_runs_is_told_and_what_is_final_stays(jobs: Jobs, stage: str) -> None:
    id_ = in_stage(jobs, stage)
    before = jobs.get(id_)

    answer = jobs.cancel(id_)

    if stage in ("blocked", "waiting", "ready"):
        assert (answer, jobs.stage(id_)) == ("cancelled", "cancelled")
        assert jobs.get(id_).finished_at == jobs.clock.now
        assert jobs.history(id_).endswith("cancelled")
    elif stage == "running":
        assert (answer, jobs.stage(id_)) == ("asked", "running")
        assert jobs.get(id_).stop_asked == 1
        assert jobs.history(id_).endswith("cancel_asked")
    else:
        assert answer is None
        assert jobs.get(id_) == before


def test_asking_twice_to_stop_is_asking_once_more(jobs: Jobs) -> None:
    id_ = in_stage(jobs, "running")

    assert [jobs.cancel(id_), jobs.cancel(id_)] == ["asked", "asked"]
    assert jobs.history(id_).count("cancel_asked") == 2


@EVERYWHERE
@pytest.mark.parametrize("stage", list(StoredState))
def test_only_what_is_final_is_forgotten_and_with_all_its_history(jobs: Jobs, stage: str) -> None:
    id_ = in_stage(jobs, stage)

    forgotten = jobs.forget(id_)

    assert forgotten == (stage in ("done", "failed", "cancelled"))
    assert (jobs.store.read(lambda tx: actions.get(tx, id_)) is None) == forgotten
    assert not forgotten or jobs.sql(f"select count(*) from tg_event where job = {id_}") == [(0,)]


@EVERYWHERE
def test_no_number_is_given_twice_not_even_that_of_the_last_job_once_it_is_forgotten(jobs: Jobs) -> None:
    ways: list[Callable[[], int]] = [
        jobs.one,
        lambda: jobs.one("key"),
        lambda: jobs.put(new(), new())[1].id,
        jobs.refuse,
        jobs.one,
    ]
    given = []
    for put in ways:
        given.append(put())
        jobs.cancel(given[-1])
        assert jobs.forget(given[-1])
    given.append(in_stage(jobs, StoredState.DONE))
    jobs.clock.advance(100)
    assert jobs.prune(StoredState.DONE, jobs.clock.now, most=3) == 1
    given += [jobs.one(), jobs.one()]

    assert given == sorted(set(given))


@pytest.mark.req("LID-16")
@pytest.mark.parametrize("stage", [StoredState.DONE, StoredState.FAILED, StoredState.CANCELLED])
def test_old_final_jobs_are_removed_in_slices_the_oldest_first(jobs: Jobs, stage: StoredState) -> None:
    old = [in_stage(jobs, stage) for _ in range(5)]
    others = [in_stage(jobs, each) for each in StoredState if each is not stage]
    jobs.clock.advance(100)
    fresh = in_stage(jobs, stage)
    before = jobs.clock.now - 50

    assert jobs.prune(stage, before, most=3) == 3
    assert [row[0] for row in jobs.sql("select id from tg_job order by id")][:1] != old[:1]
    assert jobs.prune(stage, before, most=3) == 2
    assert jobs.prune(stage, before, most=3) == 0
    assert jobs.prune(stage, before, queue="other") == 0
    assert jobs.get(fresh).stage == stage
    assert all(jobs.get(id_) for id_ in others)


@EVERYWHERE
@pytest.mark.req("CNV-14")
def test_the_history_tells_each_attempt_from_its_start_to_its_end(jobs: Jobs) -> None:
    id_ = jobs.one()
    jobs.clock.advance(1)
    first = jobs.take(id_, "ada")
    jobs.clock.advance(2)
    jobs.settle(outcome.failed(first, "timeout", "Slow.", 504), worker="ada")
    jobs.clock.advance(3)
    jobs.retry(id_)
    jobs.clock.advance(4)
    jobs.take(id_, "bob")

    start = jobs.get(id_).created_at
    told = [(e.kind, e.at - start, e.attempt, e.fence, e.code, e.status, e.actor, e.duration) for e in jobs.events(id_)]

    assert told == [
        ("queued", 0, 0, 0, None, None, None, None),
        ("processing", 1, 1, 1, None, None, "ada", None),
        ("failed", 3, 1, 1, "timeout", 504, "ada", 2.0),
        ("retried", 6, 0, 1, None, None, "ada", None),
        ("processing", 10, 1, 2, None, None, "bob", None),
    ]
    assert jobs.events(id_)[2].as_json() == {
        "kind": "failed", "at": start + 3, "attempt": 1, "fence": 1, "code": "timeout", "status": 504,
        "message": "Slow.", "actor": "ada", "duration_ms": 2000,
    }  # fmt: skip


def test_many_actions_on_one_attempt_keep_their_order(jobs: Jobs) -> None:
    id_ = jobs.one()
    for _ in range(5):
        jobs.cancel(id_)
        jobs.retry(id_)

    assert jobs.history(id_) == "queued" + " cancelled retried" * 5


def test_jobs_of_one_call_have_histories_of_their_own(jobs: Jobs) -> None:
    first, second = (taken.id for taken in jobs.put(new(), new()))
    jobs.cancel(first)

    assert (jobs.history(first), jobs.history(second)) == ("queued cancelled", "queued")
