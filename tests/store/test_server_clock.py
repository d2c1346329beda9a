"""The clock of the database server steps: each step is found once, and stored times move with it."""

from __future__ import annotations

import pytest

from tests.databases import POSTGRES
from tests.store.jobs import LEASE, Jobs
from tidegate.errors import StoreBusy
from tidegate.jobs import outcome
from tidegate.jobs.outcome import Again, KindPolicy
from tidegate.store.base import Tx
from tidegate.store.clock import ServerClock
from tidegate.store.clock_steps import CONFIRMED

DAY = 86400.0

pytestmark = pytest.mark.parametrize("db", [POSTGRES], indirect=True)


class Host:
    """A host with its own elapsed time, which asks for the server's clock."""

    def __init__(self, jobs: Jobs) -> None:
        self.jobs, self.elapsed = jobs, 0.0
        self.clock = ServerClock(lambda: self.elapsed)

    def check(self) -> None:
        assert self.jobs.store.write(self.clock.check)

    def older_than(self, age: float) -> float:
        return self.clock.older_than(self.jobs.clock.now, age)


def passes(seconds: float, *hosts: Host) -> None:
    hosts[0].jobs.clock.advance(seconds)
    for host in hosts:
        host.elapsed += seconds


def notices(jobs: Jobs) -> int:
    return int(jobs.sql("select count(*) from tg_notice where kind = 'clock' and ended_at is null")[0][0])


@pytest.mark.parametrize("step", [8 * DAY, -DAY])
def test_leases_retries_and_expiry_move_with_the_clock(jobs: Jobs, step: float) -> None:
    here, there = Host(jobs), Host(jobs)
    here.check()
    there.check()
    running, retried, queued = jobs.one(), jobs.one(), jobs.one(expires_in=3600.0, lane="x")
    first, second = jobs.claim()
    jobs.settle(outcome.again(second, Again(60.0), KindPolicy()))
    assert {first.id, second.id} == {running, retried}

    jobs.clock.advance(step)
    late = jobs.one(lane="y")  # before anyone has looked at the clock
    (held,) = jobs.claim(lane="y")
    assert held.id == late
    here.check()
    there.check()  # finds what the first has found, and does not move anything again

    now = jobs.clock.now
    assert jobs.get(running).lease_until == pytest.approx(now + LEASE)
    assert jobs.get(retried).due_at == pytest.approx(now + 60)
    assert jobs.get(queued).expires_at == pytest.approx(now + 3600)
    assert jobs.get(late).lease_until == pytest.approx(now + LEASE)
    assert notices(jobs) == 1


@pytest.mark.parametrize("step", [8 * DAY, -DAY])
def test_heartbeats_move_with_the_clock_so_no_live_worker_is_forgotten(jobs: Jobs, step: float) -> None:
    host = Host(jobs)
    host.check()
    row = {"id": "a", "host": "h", "pid": 1, "queues": "[]", "stopping": 0, "outdated": 0, "beat": 1}
    jobs.store.write(lambda tx: tx.query("worker_seen", row))

    jobs.clock.advance(step)
    host.check()

    assert jobs.sql("select seen_at from tg_worker") == [(pytest.approx(jobs.clock.now),)]


def test_times_of_jobs_move_back_however_long_ago_they_were_written(jobs: Jobs) -> None:
    host = Host(jobs)
    host.check()
    old = jobs.one(due_in=5 * DAY, expires_in=6 * DAY)
    for _ in range(6):
        passes(DAY / 2, host)
        host.check()
    jobs.clock.advance(-DAY)
    passes(10, host)
    new = jobs.one(due_in=60.0)  # written after the step, before a check
    host.check()

    now = jobs.clock.now
    assert jobs.get(old).due_at == pytest.approx(now + 2 * DAY, abs=20)
    assert jobs.get(old).expires_at == pytest.approx(now + 3 * DAY, abs=20)
    assert jobs.get(new).due_at == pytest.approx(now + 60, abs=1)


@pytest.mark.parametrize("steps", [(400 * DAY, -395 * DAY), (8 * DAY, -8 * DAY), (-30 * DAY, 3 * DAY, 60 * DAY)])
@pytest.mark.parametrize("between", [1.0, 3600.0])
def test_times_move_with_each_of_several_steps(jobs: Jobs, steps: tuple[float, ...], between: float) -> None:
    host = Host(jobs)
    host.check()
    running, retried = jobs.one(), jobs.one()
    second = next(each for each in jobs.claim() if each.id == retried)
    jobs.settle(outcome.again(second, Again(6 * 3600.0), KindPolicy()))
    leased, due = jobs.get(running).lease_until, jobs.get(retried).due_at
    assert leased is not None
    for step in steps:
        passes(between, host)
        host.check()
        passes(1.0, host)
        jobs.clock.advance(step)
        host.check()

    moved = sum(steps)
    assert jobs.get(running).lease_until == pytest.approx(leased + moved)
    assert jobs.get(retried).due_at == pytest.approx(due + moved)


def test_a_step_that_is_found_again_after_a_rollback_leaves_what_was_written_since(jobs: Jobs) -> None:
    host = Host(jobs)
    host.check()
    passes(1.0, host)
    jobs.clock.advance(400 * DAY)
    late = jobs.one()
    (held,) = jobs.claim()
    assert held.id == late
    passes(1.0, host)

    def undone(tx: Tx) -> None:
        host.clock.check(tx)
        raise StoreBusy("the connection was cut")

    with pytest.raises(StoreBusy):
        jobs.store.write(undone)
    passes(1.0, host)
    host.check()

    assert jobs.get(late).lease_until == pytest.approx(held.lease_until)


def test_what_was_finished_before_a_step_forward_is_not_older_by_it(jobs: Jobs) -> None:
    host = Host(jobs)
    host.check()
    finished = jobs.clock.now
    jobs.clock.advance(8 * DAY)
    host.check()

    assert host.older_than(7 * DAY) < finished
    passes(7 * DAY + 1, host)
    host.check()
    assert host.older_than(7 * DAY) > finished


def test_a_host_that_stood_still_is_not_a_step_while_others_went_on(jobs: Jobs) -> None:
    paused, other = Host(jobs), Host(jobs)
    paused.check()
    other.check()
    id_ = jobs.one()
    (held,) = jobs.claim()
    passes(8 * 3600, other)
    other.check()
    paused.check()

    assert jobs.get(id_).lease_until == held.lease_until
    assert notices(jobs) == 0


def test_the_first_check_after_a_long_silence_knows_no_age_for_ten_minutes(jobs: Jobs) -> None:
    before = Host(jobs)
    before.check()
    jobs.clock.advance(8 * DAY)
    after = Host(jobs)
    after.check()
    assert after.older_than(60) == 0

    passes(CONFIRMED + 1, after)
    after.check()
    assert after.older_than(60) == jobs.clock.now - 60


def test_the_first_check_on_a_clock_that_is_behind_moves_leases_back(jobs: Jobs) -> None:
    Host(jobs).check()
    id_ = jobs.one()
    jobs.claim()
    jobs.clock.advance(-DAY)
    Host(jobs).check()

    assert jobs.get(id_).lease_until == pytest.approx(jobs.clock.now + LEASE)


def test_a_check_that_another_process_is_making_is_not_waited_for(jobs: Jobs) -> None:
    host = Host(jobs)
    host.check()
    second = Host(jobs)

    assert jobs.store.write(lambda tx: (host.clock.check(tx), jobs.store.write(second.clock.check))) == (True, False)


def test_the_notice_ends_ten_minutes_after_the_step(jobs: Jobs) -> None:
    host = Host(jobs)
    host.check()
    jobs.clock.advance(DAY)
    host.check()
    passes(CONFIRMED - 1, host)
    host.check()
    assert notices(jobs) == 1
    passes(2, host)
    host.check()

    assert notices(jobs) == 0


def test_a_step_does_not_end_the_time_in_which_a_clock_that_may_be_ahead_deletes_nothing(jobs: Jobs) -> None:
    before = Host(jobs)
    before.check()
    finished = jobs.clock.now
    jobs.clock.advance(8 * DAY)  # all workers were replaced meanwhile: nobody saw this step
    host = Host(jobs)
    host.check()
    assert host.older_than(7 * DAY) < finished
    passes(1.0, host)
    jobs.clock.advance(10 * DAY)
    host.check()

    assert host.older_than(7 * DAY) < finished


def test_a_step_that_a_new_process_takes_for_elapsed_time_is_found_by_one_that_was_there(jobs: Jobs) -> None:
    there = Host(jobs)
    there.check()
    running, finished = jobs.one(), jobs.clock.now
    jobs.claim()
    passes(1.0, there)
    jobs.clock.advance(8 * DAY)
    new = Host(jobs)
    new.check()
    passes(1.0, there, new)
    there.check()
    new.check()

    assert jobs.get(running).lease_until == pytest.approx(jobs.clock.now + LEASE, abs=3)
    assert notices(jobs) == 1
    passes(CONFIRMED + 1, there, new)
    for host in (there, new):
        host.check()
        assert host.older_than(7 * DAY) < finished
