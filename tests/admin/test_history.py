"""The past of queues and targets: exact from slot to slot, quiet where nobody looked, and thinned out with age."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.databases import Database
from tests.jobs.gating import queue_on, working
from tests.store.jobs import Jobs
from tidegate import Breaker, Target
from tidegate.clock import VirtualClock
from tidegate.jobs import history, outcome
from tidegate.jobs.history import HOUR, SLOT, CallCounts, History, Point
from tidegate.jobs.outcome import Again, KindPolicy
from tidegate.store.base import Tx
from tidegate.targets import table


@pytest.fixture(autouse=True)
def _at_the_beginning_of_a_slot(jobs: Jobs) -> None:
    """The clock stands on the hour, so that a slot begins with the test."""
    jobs.clock.advance(-jobs.clock.now % HOUR)


def put_down(jobs: Jobs) -> int:
    return jobs.store.write(lambda tx: history.take(tx, jobs.clock.now))


def past(jobs: Jobs, span: str = "3h", name: str = "q") -> History[Point]:
    return jobs.store.read(lambda tx: history.of_queue(tx, name, span))


def attempt(jobs: Jobs, seconds: float = 0.0, *, good: bool = True) -> None:
    job = jobs.take(jobs.one())
    jobs.clock.advance(seconds)
    if good:
        jobs.settle(outcome.done(job, None))
    else:
        jobs.settle(outcome.again(job, Again("5h", code="timeout"), KindPolicy()))


def next_slot(jobs: Jobs) -> None:
    jobs.clock.advance(SLOT - jobs.clock.now % SLOT)


def test_a_queue_that_is_new_begins_with_nothing(jobs: Jobs) -> None:
    put_down(jobs)
    attempt(jobs)
    assert [each.attempts for each in past(jobs).points] == [1]
    next_slot(jobs)
    put_down(jobs)

    assert [each.attempts for each in past(jobs).points] == [1, 0]


def test_a_slot_that_has_just_ended_is_shown_before_it_is_put_down(jobs: Jobs) -> None:
    put_down(jobs)
    attempt(jobs)
    next_slot(jobs)
    (only,) = past(jobs).points

    assert (only.attempts, only.at) == (1, jobs.clock.now)


def test_what_was_there_before_anybody_looked_is_of_no_slot(jobs: Jobs) -> None:
    for _ in range(3):
        attempt(jobs)
    put_down(jobs)
    next_slot(jobs)
    put_down(jobs)

    assert [each.attempts for each in past(jobs).points] == [0, 0]


def test_nobody_has_a_past_that_was_never_put_down(jobs: Jobs) -> None:
    attempt(jobs)

    assert past(jobs).points == []


def test_what_happened_in_a_slot_stands_there_and_nowhere_else(jobs: Jobs) -> None:
    attempt(jobs)  # before anybody looked: of no slot
    put_down(jobs)
    for _ in range(3):
        attempt(jobs)
    attempt(jobs, good=False)
    next_slot(jobs)
    put_down(jobs)
    attempt(jobs, 2.0)
    found = past(jobs)

    assert [(each.attempts, each.bad) for each in found.points] == [(4, 1), (1, 0)]
    assert [each.p95 for each in found.points] == [0.01, 2.5]
    assert found.points[-1].at == found.end > jobs.clock.now  # the last slot is not over


def test_depth_and_age_are_those_at_the_end_of_the_slot(jobs: Jobs) -> None:
    put_down(jobs)
    jobs.one()
    next_slot(jobs)
    put_down(jobs)
    jobs.one()
    jobs.clock.advance(10)
    first, last = past(jobs).points

    assert (first.depth, first.oldest) == (1, SLOT)
    assert (last.depth, last.oldest) == (2, SLOT + 10)


def test_jobs_that_gave_up_are_told_from_attempts_that_failed(jobs: Jobs) -> None:
    put_down(jobs)
    jobs.fail(jobs.one(), code="gone")
    attempt(jobs, good=False)

    (now,) = past(jobs).points
    assert (now.attempts, now.bad, now.gave_up) == (2, 2, 1)


def test_a_slot_that_nobody_put_down_is_a_gap_and_its_work_is_of_no_other(jobs: Jobs) -> None:
    put_down(jobs)
    attempt(jobs)
    next_slot(jobs)
    next_slot(jobs)
    attempt(jobs)
    put_down(jobs)
    attempt(jobs)

    assert [each.attempts for each in past(jobs).points] == [1]


def test_the_numbers_of_a_slot_are_put_down_once(jobs: Jobs) -> None:
    put_down(jobs)
    attempt(jobs)
    put_down(jobs)

    assert [each.attempts for each in past(jobs).points] == [1]


def test_a_longer_look_has_longer_slots_and_the_same_sums(jobs: Jobs) -> None:
    for slot in range(14):
        put_down(jobs)
        for _ in range(slot % 3):
            attempt(jobs)
        next_slot(jobs)
    put_down(jobs)
    sums = {span: [each.attempts for each in past(jobs, span).points] for span in history.SPANS}

    assert sums == {"3h": [0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 0], "24h": [3, 3, 3, 3, 1], "7d": [12, 1]}


def test_a_look_goes_back_as_far_as_it_says(jobs: Jobs) -> None:
    for _ in range(50):
        put_down(jobs)
        attempt(jobs)
        next_slot(jobs)
    put_down(jobs)
    found = past(jobs)

    assert (found.end - found.start, found.step, len(found.points)) == (3 * HOUR, SLOT, 36)
    assert found.points[0].at == found.start + SLOT


def test_after_a_day_whole_hours_stay_and_after_a_week_nothing_does(jobs: Jobs) -> None:
    attempt(jobs)
    for _ in range(13):
        put_down(jobs)
        next_slot(jobs)
    begun = jobs.clock.now

    def kept(now: float) -> list[int]:
        while jobs.store.write(lambda tx: history.prune(tx, lambda age: now - age, 5)) == 5:
            pass
        return [each.at % HOUR for each in jobs.store.read(lambda tx: history.read(tx, "queue", "q", 0))]

    assert kept(begun + 23 * HOUR) == [SLOT * n % HOUR for n in range(13)]
    assert kept(begun + 27 * HOUR) == [0, 0]
    assert kept(begun + 9 * 24 * HOUR) == []


def test_a_count_that_was_set_back_by_a_restore_is_no_work(jobs: Jobs) -> None:
    for _ in range(3):
        attempt(jobs)
    put_down(jobs)
    jobs.store.write(lambda tx: tx.execute("update tg_rollup set figures = replace(figures, '[3,', '[9,')"))
    attempt(jobs)

    (now,) = past(jobs).points
    assert (now.attempts, now.bad) == (0, 0)


def test_a_span_that_is_none_is_refused_with_those_that_are(jobs: Jobs) -> None:
    with pytest.raises(ValueError, match=r"span: 'year'.* 3h, 24h, 7d"):
        past(jobs, "year")


@pytest.mark.parametrize("broken", [False, True])
def test_the_worker_that_leads_puts_them_down(db: Database, clock: VirtualClock, broken: bool) -> None:
    with queue_on(db, clock) as q:

        @q.job(queue="mail", target=Target("mailer", breaker=Breaker("mailer")))
        async def send(n: int) -> None:
            if broken:
                raise ConnectionError("refused")

        async def main() -> None:
            async with working(q):
                await clock.asleep(2 * SLOT)
                for n in range(3):
                    send.enqueue(n)
                await clock.asleep(3 * SLOT)

        clock.run(main())
        mail = q.store.read(lambda tx: history.of_queue(tx, "mail", "3h")).points
        calls = q.store.read(lambda tx: history.of_target(tx, "mailer", "3h")).points

    assert len(mail) >= 4
    assert sum(each.attempts for each in mail) == sum(each.good + each.bad for each in calls) >= 3
    assert [sum(each.bad for each in found) > 0 for found in (mail, calls)] == [broken, broken]


def called(jobs: Jobs, name: str, good: int, bad: int = 0, rejected: int = 0) -> None:
    """Calls of a target, as its breaker has counted them."""

    def write(tx: Tx) -> None:
        rows, _ = table.lock_targets(tx, [name])
        before = rows[name].breaker
        was = before.totals
        totals = (was[0] + good, was[1] + bad, was[2] + rejected)
        table.put_breaker(tx, name, before, replace(before, totals=totals))

    jobs.store.write(write)


def test_the_beats_of_targets_are_their_last_24_hours_one_by_one(jobs: Jobs) -> None:
    def beats() -> dict[str, list[CallCounts | None]]:
        return jobs.store.read(lambda tx: history.beats(tx, ["svc", "quiet"]))

    put_down(jobs)
    assert beats() == {}
    called(jobs, "svc", 3, 1)
    jobs.clock.advance(HOUR)
    put_down(jobs)
    called(jobs, "svc", 2)
    jobs.clock.advance(HOUR / 2)

    found = beats()

    assert list(found) == ["svc"]
    assert found["svc"][:22] == [None] * 22
    shown = [(each.good, each.bad) for each in found["svc"][22:] if each is not None]
    assert shown == [(3, 1), (2, 0)]


def test_an_hour_that_nobody_put_down_is_no_beat_and_the_next_one_is(jobs: Jobs) -> None:
    called(jobs, "svc", 1)
    put_down(jobs)
    jobs.clock.advance(3 * HOUR)
    called(jobs, "svc", 5)
    put_down(jobs)
    called(jobs, "svc", 2)
    jobs.clock.advance(HOUR)
    put_down(jobs)

    (found,) = jobs.store.read(lambda tx: history.beats(tx, ["svc"])).values()

    assert [None if each is None else each.good for each in found[-5:]] == [None, None, None, 2, 0]


def test_all_queues_together_are_the_sum_of_each(jobs: Jobs) -> None:
    for name in ("a", "b"):
        jobs.take(jobs.one(queue=name))
    put_down(jobs)
    before = jobs.store.read(lambda tx: history.of_queues(tx, "3h"))
    attempt(jobs, 1)
    attempt(jobs, good=False)
    jobs.one(queue="b")
    next_slot(jobs)
    put_down(jobs)
    attempt(jobs)

    together, each = jobs.store.read(lambda tx: history.of_queues(tx, "3h"))

    assert [point.attempts for point in before[0].points] == [0]
    assert [(point.attempts, point.bad, point.depth) for point in together.points] == [(2, 1, 2), (1, 0, 2)]
    assert sorted(each) == ["a", "b", "q"]
    assert each["q"] == past(jobs)
    assert jobs.store.read(lambda tx: history.of_queues(tx, "24h"))[1]["q"] == past(jobs, "24h")
    assert [point.depth for point in each["b"].points] == [1, 1]
    assert together.points[0].p95 == each["q"].points[0].p95


@pytest.mark.parametrize("span", ["3h", "24h", "7d"])
def test_all_queues_begin_with_the_first_look_as_each_of_them_does(jobs: Jobs, span: str) -> None:
    next_slot(jobs)  # in the midst of a longer one
    put_down(jobs)
    attempt(jobs, 1)
    attempt(jobs, good=False)

    together, each = jobs.store.read(lambda tx: history.of_queues(tx, span))

    assert [(point.attempts, point.bad) for point in together.points] == [(2, 1)]
    assert together == each["q"] == past(jobs, span)
