"""Failures as groups: counted once, found again, sorted by what they need, over when no job has them."""

from __future__ import annotations

import pytest

from tests.store.jobs import Jobs
from tidegate.faults.codes import CORE
from tidegate.jobs import listing, outcome
from tidegate.jobs import settle as kept
from tidegate.jobs.bulk import service
from tidegate.jobs.listing import Filter, Triaged
from tidegate.jobs.outcome import Again, KindPolicy
from tidegate.jobs.settle import HOUR
from tidegate.store.base import Tx


def triaged(jobs: Jobs) -> list[Triaged]:
    return jobs.store.read(lambda tx: listing.triage_failures(tx, CORE, jobs.clock.now))


def told(jobs: Jobs) -> list[tuple[str, str, int]]:
    return [(each.bucket, each.group.code, each.group.n) for each in triaged(jobs)]


def again(jobs: Jobs, code: str = "timeout", message: str = "too slow", **fields: object) -> int:
    """A job whose first attempt went badly; it waits for the next one."""
    job = jobs.take(jobs.one(**fields))
    jobs.settle(outcome.again(job, Again("5m", code=code, message=message), KindPolicy()))
    return job.id


def fail(jobs: Jobs, message: str, code: str = "gone", **fields: object) -> int:
    job = jobs.take(jobs.one(**fields))
    jobs.settle(outcome.failed(job, code, message))
    return job.id


def fold(jobs: Jobs) -> None:
    jobs.store.write(kept.fold_failures)


def test_nothing_failed_nothing_is_there(jobs: Jobs) -> None:
    jobs.settle(outcome.done(jobs.take(jobs.one()), None))

    assert triaged(jobs) == []


@pytest.mark.parametrize("added_up", [False, True])
def test_the_same_failure_is_one_group_whatever_varies(jobs: Jobs, added_up: bool) -> None:
    for n in range(3):
        fail(jobs, f"item {n} is gone")
        if added_up:
            fold(jobs)
    fail(jobs, "all is gone")
    fail(jobs, "item 9 is gone", target="other")

    assert sorted(told(jobs)) == [("gave_up", "gone", 1), ("gave_up", "gone", 1), ("gave_up", "gone", 3)]


def test_adding_up_changes_no_number_and_leaves_no_note(jobs: Jobs) -> None:
    for n in range(4):
        again(jobs, message=f"slow {n}")
        jobs.clock.advance(10)
    before = triaged(jobs)
    fold(jobs)

    assert triaged(jobs) == before
    assert jobs.sql("select count(*) from tg_failure_note") == [(0,)]
    (only,) = before
    assert (only.group.n, only.group.last_at - only.group.first_at) == (4, 30)


BUCKETS = {"forbidden": "needs_you", "unexpected": "unclassified", "timeout": "retrying"}


@pytest.mark.parametrize(("code", "bucket"), BUCKETS.items())
def test_what_it_needs_follows_from_the_code_and_from_what_becomes_of_the_jobs(
    jobs: Jobs, code: str, bucket: str
) -> None:  # fmt: skip
    again(jobs, code=code)

    assert told(jobs) == [(bucket, code, 1)]


def test_a_job_that_waits_for_a_person_is_met_too(jobs: Jobs) -> None:
    fault = CORE["unauthorized"].fault("test")
    jobs.settle(outcome.after_fault(jobs.take(jobs.one(target="spotify")), fault, KindPolicy(), 0.5))
    jobs.settle(outcome.released(jobs.take(jobs.one(target="spotify")), unsent=True))  # it met nothing
    (only,) = triaged(jobs)

    assert (only.bucket, only.who, only.group.n, only.queued.n) == ("needs_you", "spotify", 1, 1)


def test_those_that_need_somebody_come_first_and_then_the_newest(jobs: Jobs) -> None:
    for code in ("timeout", "forbidden", "unexpected", "connection"):
        again(jobs, code=code)
        jobs.clock.advance(1)
    jobs.fail(jobs.one(), code="not_found")

    assert [code for _, code, _ in told(jobs)] == ["forbidden", "unexpected", "not_found", "connection", "timeout"]


def test_a_group_can_be_retried_when_one_of_its_jobs_can(jobs: Jobs) -> None:
    jobs.refuse("gone", "no pdf")
    fail(jobs, "away")
    again(jobs)
    assert {each.group.message: each.retriable for each in triaged(jobs)} == {
        "no pdf": False, "away": True, "too slow": False,
    }  # fmt: skip

    fail(jobs, "no pdf", kind="k")

    assert {each.group.message for each in triaged(jobs) if each.retriable} == {"away", "no pdf"}


def test_it_is_over_when_every_job_got_over_it(jobs: Jobs) -> None:
    job = again(jobs)
    jobs.clock.advance(600)
    jobs.promote()
    jobs.settle(outcome.done(jobs.take(job), None))

    assert told(jobs) == [("over", "timeout", 1)]


def test_a_job_belongs_to_its_last_failure(jobs: Jobs) -> None:
    job = again(jobs, code="timeout")
    jobs.clock.advance(600)
    jobs.promote()
    jobs.settle(outcome.failed(jobs.take(job), "not_found", "gone"))

    assert sorted(told(jobs)) == [("gave_up", "not_found", 1), ("over", "timeout", 1)]


def test_jobs_of_a_group_are_listed_counted_retried_and_discarded(jobs: Jobs) -> None:
    mine = [fail(jobs, f"item {n}") for n in range(3)]
    fail(jobs, "something else")
    (group,) = [each.group.failure for each in triaged(jobs) if each.group.n == 3]
    wanted = Filter(failure=group, state="failed")

    listed = jobs.store.read(lambda tx: listing.jobs(tx, wanted))
    assert sorted(line.id for line in listed.items) == mine == [1, 2, 3]
    assert jobs.store.read(lambda tx: listing.count(tx, wanted)).n == 3
    assert jobs.store.read(lambda tx: listing.count(tx, Filter(failure=group, state="queued"))).n == 0
    assert service.run(jobs.store, "retry", wanted, "ada", expected=3).changed == 3
    assert jobs.store.read(lambda tx: listing.count(tx, Filter(failure=group))).n == 3  # until they are done
    assert {each.bucket for each in triaged(jobs)} == {"gave_up", "retrying"}


def test_pages_of_a_group_leave_nothing_out(jobs: Jobs) -> None:
    for n in range(7):
        fail(jobs, f"item {n}")
        jobs.fail(jobs.one(), code="other")
    (group,) = [each.group.failure for each in triaged(jobs) if each.group.code == "gone"]

    def everything(tx: Tx) -> list[int]:
        page = listing.jobs(tx, Filter(failure=group), limit=2)
        seen = [line.id for line in page.items]
        while page.next is not None:
            page = listing.jobs(tx, Filter(failure=group), cursor=page.next, limit=2)
            seen += [line.id for line in page.items]
        return seen

    assert jobs.store.read(everything) == list(range(13, 0, -2))


def test_the_trend_is_of_the_last_day_by_the_hour(jobs: Jobs) -> None:
    jobs.clock.advance(-jobs.clock.now % HOUR)
    again(jobs)
    jobs.clock.advance(30 * HOUR)
    for hour in range(3):
        for _ in range(hour + 1):
            again(jobs)
        fold(jobs) if hour < 2 else None
        jobs.clock.advance(HOUR)
    jobs.clock.advance(-1)
    (only,) = triaged(jobs)

    assert (only.group.n, list(only.trend)) == (7, [0] * 21 + [1, 2, 3])


def test_old_groups_and_hours_are_removed(jobs: Jobs) -> None:
    again(jobs)
    fold(jobs)
    now = jobs.clock.now + 40 * 86400
    jobs.store.write(lambda tx: kept.prune(tx, lambda age: now - age, 30 * 86400, 10))

    assert triaged(jobs) == []
    assert jobs.sql("select count(*) from tg_failure_hour") == [(0,)]


def test_jobs_that_never_had_an_attempt_are_grouped_too(jobs: Jobs) -> None:
    parent = jobs.one()
    jobs.child(parent)
    jobs.fail(parent, code="gone")
    jobs.one(expires_in=5)
    jobs.clock.advance(10)
    jobs.expire()

    assert sorted(code for _, code, _ in told(jobs)) == ["expired", "gone", "parent_failed"]
