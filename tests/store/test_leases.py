from __future__ import annotations

import pytest

from tests.databases import EVERY, POSTGRES, Database
from tests.store.jobs import LEASE, Clock, Jobs, new
from tidegate.jobs import outcome
from tidegate.jobs.job import DEFAULT_CRASHES, NO_ATTEMPT_LEFT, Claimed

EVERYWHERE = pytest.mark.parametrize("db", EVERY, indirect=True)


@EVERYWHERE
@pytest.mark.req("CNV-07")
def test_a_renewed_lease_lasts_longer(jobs: Jobs) -> None:
    id_ = jobs.one()
    held = jobs.take(id_)
    jobs.clock.advance(20)

    (renewed,) = jobs.renew(held)

    assert (renewed.id, renewed.lease_until, renewed.extended) == (id_, jobs.clock.now + LEASE, True)
    jobs.clock.advance(20)
    assert jobs.take_back() == 0


@EVERYWHERE
@pytest.mark.parametrize("lost_by", ["taken back", "taken over", "done", "failed", "gone"])
def test_what_is_no_longer_ours_does_not_come_back_from_a_renewal(jobs: Jobs, lost_by: str) -> None:
    id_, other = jobs.one(), jobs.one()
    held, kept = jobs.claim(2)
    jobs.clock.advance(20)
    jobs.renew(kept)
    if lost_by in ("done", "failed", "gone"):
        jobs.settle(outcome.failed(held, "gone", "Gone.") if lost_by == "failed" else outcome.done(held, None))
    else:
        jobs.clock.advance(11)
        assert jobs.take_back() == 1
    if lost_by == "taken over":
        jobs.take(id_, "other")
    if lost_by == "gone":
        jobs.forget(id_)

    assert [each.id for each in jobs.renew(held, kept)] == [other]


@EVERYWHERE
def test_a_renewal_tells_whom_a_person_wants_stopped(jobs: Jobs) -> None:
    jobs.one()
    stop = jobs.one()
    held = jobs.claim(2)
    jobs.cancel(stop)

    assert {each.id: each.stop_asked for each in jobs.renew(*held)} == {held[0].id: False, stop: True}
    assert jobs.store.read(lambda tx: tx.query("stop_asked", {"worker": "w"})) == [(stop,)]


@EVERYWHERE
def test_what_a_handler_saves_is_there_for_its_next_attempt(jobs: Jobs) -> None:
    id_ = jobs.one()
    first = jobs.take(id_)

    assert jobs.save(first, '{"pending":1}')
    assert jobs.save(first, '{"pending":2}')
    jobs.die(first)

    assert jobs.take(id_).saved == '{"pending":2}'


@pytest.mark.req("CNV-07")
@pytest.mark.parametrize("state", ["taken back", "taken over", "settled"])
def test_nothing_is_saved_under_a_lost_lease(jobs: Jobs, state: str) -> None:
    id_ = jobs.one()
    late = jobs.take(id_)
    if state == "settled":
        jobs.settle(outcome.done(late, None))
    else:
        jobs.die(late)
    if state == "taken over":
        jobs.take(id_)

    assert not jobs.save(late, '"late"')
    assert jobs.get(id_).saved is None


@EVERYWHERE
@pytest.mark.req("CNV-07")
def test_a_job_whose_worker_is_heard_of_no_more_is_ready_again_with_its_attempt_counted(jobs: Jobs) -> None:
    id_ = jobs.one()
    held = jobs.take(id_, "ada")
    jobs.clock.advance(LEASE)
    assert jobs.take_back() == 0
    jobs.clock.advance(0.1)

    assert jobs.take_back() == 1

    job = jobs.get(id_)
    assert (job.stage, job.attempt, job.fence, job.deaths) == ("ready", 1, 1, 1)
    assert job.error_code is None
    last = jobs.events(id_)[-1]
    assert (last.kind, last.code, last.actor, last.attempt, last.fence) == ("lost", "worker_lost", "ada", 1, 1)
    assert jobs.take(id_).attempt == 2
    assert jobs.take_back() == 0
    assert not jobs.save(held, "1")


@EVERYWHERE
@pytest.mark.req("CNV-04")
def test_a_job_that_kills_its_worker_three_times_alone_has_failed(jobs: Jobs) -> None:
    id_ = jobs.one()
    child = jobs.child(id_)
    for n in range(4):
        assert (jobs.stage(id_), jobs.get(id_).deaths_alone) == ("ready", max(0, n - 1))
        jobs.die(jobs.take(id_))

    job = jobs.get(id_)
    assert (job.stage, job.deaths, job.deaths_alone, job.attempt) == ("failed", 4, 3, 4)
    assert (job.error_code, job.suspect) == ("worker_lost", 0)
    assert job.error_message == "Three times."
    assert jobs.history(id_) == "queued" + " processing lost" * 4 + " failed"
    assert jobs.stage(child) == "failed"
    assert jobs.tallies()["q", "failed_total:worker_lost"] == 1


@EVERYWHERE
def test_a_lease_that_ends_while_its_worker_lives_is_no_crash(jobs: Jobs) -> None:
    id_ = jobs.one(most_attempts=100)
    jobs.die(jobs.take(id_, "dead"))
    for n in range(5):
        jobs.die(jobs.take(id_, f"w{n}"))
        assert (jobs.stage(id_), jobs.get(id_).deaths_alone) == ("ready", 1)
        jobs.survive(f"w{n}")
        jobs.survive(f"w{n}")
        assert (jobs.get(id_).deaths_alone, jobs.get(id_).suspect) == (0, 1)
    assert jobs.get(id_).deaths == 6

    for n in range(3):
        assert (jobs.stage(id_), jobs.get(id_).deaths_alone) == ("ready", n)
        jobs.die(jobs.take(id_, f"killed-{n}"))
    assert jobs.stage(id_) == "failed"


@EVERYWHERE
def test_a_job_whose_first_lost_worker_lives_does_not_run_alone(jobs: Jobs) -> None:
    id_, other = jobs.one(), jobs.one()
    jobs.die(*jobs.claim(2, "ada"))
    held = jobs.take(other, "bob")

    jobs.survive("ada")

    assert (jobs.get(id_).suspect, jobs.suspects()) == (0, [])
    assert jobs.get(other).suspect == 1  # it runs alone by now
    assert jobs.claim(10)[0].id == id_
    assert jobs.renew(held)


@EVERYWHERE
@pytest.mark.parametrize("holds", [True, False])
def test_a_worker_whose_death_would_fail_a_job_has_one_more_lease_to_come_back(jobs: Jobs, holds: bool) -> None:
    """After an outage of the store, another worker may be the first to reach it."""
    id_ = jobs.one(most_attempts=100)
    for _ in range(3):
        jobs.die(jobs.take(id_, "dead"))
    held = jobs.take(id_, "ada")
    jobs.clock.advance(100 * LEASE)
    assert jobs.take_back() == 0
    assert (jobs.stage(id_), jobs.get(id_).deaths_alone) == ("running", 2)

    jobs.survive("ada")
    if holds:
        assert jobs.settle(outcome.done(held, None)).counted
        assert jobs.stage(id_) == "done"
        return

    jobs.clock.advance(LEASE + 1)
    assert jobs.take_back() == 1
    assert (jobs.stage(id_), jobs.get(id_).deaths_alone, jobs.get(id_).suspect) == ("ready", 2, 1)
    jobs.die(jobs.take(id_, "dead"))
    assert (jobs.stage(id_), jobs.get(id_).error_code) == ("failed", "worker_lost")


@EVERYWHERE
def test_a_worker_that_comes_back_changes_nothing_of_a_job_that_was_retried_or_has_ended(jobs: Jobs) -> None:
    retried, ended = (_failed_after_four_deaths(jobs) for _ in range(2))
    assert jobs.retry(retried)
    jobs.die(jobs.take(retried, "dead"))
    jobs.die(jobs.take(retried, "dead"))

    jobs.survive("w3")

    assert (jobs.get(retried).deaths_alone, jobs.stage(retried)) == (1, "ready")
    assert (jobs.get(ended).deaths_alone, jobs.stage(ended)) == (3, "failed")
    assert jobs.forget(ended)
    assert {job for (job,) in jobs.sql("select job from tg_lost_lease")} == {retried}


def _failed_after_four_deaths(jobs: Jobs) -> int:
    id_ = jobs.one(most_attempts=100)
    for n in range(4):
        jobs.die(jobs.take(id_, f"w{n}"))
    return id_


@EVERYWHERE
def test_a_worker_that_lost_a_job_twice_takes_both_counts_back(jobs: Jobs) -> None:
    id_ = jobs.one(most_attempts=100)
    for worker in ("dead", "ada", "ada"):
        jobs.die(jobs.take(id_, worker))
    assert jobs.get(id_).deaths_alone == 2

    jobs.survive("ada")

    assert jobs.get(id_).deaths_alone == 0


@EVERYWHERE
def test_a_job_whose_worker_died_is_claimed_by_itself_and_before_others_of_less_priority(jobs: Jobs) -> None:
    low, high = jobs.one(), jobs.one(priority=5)
    jobs.die(*jobs.claim(2))
    fresh = jobs.one()

    assert [job.id for job in jobs.claim(10)] == [fresh]
    assert jobs.suspects() == [high, low]
    assert [jobs.take(high).suspect, jobs.get(low).stage] == [1, "ready"]


@EVERYWHERE
@pytest.mark.parametrize("end", ["done", "again", "failed", "cleared", "retried", "given back", "stopped", "unsent"])
def test_a_suspect_is_cleared_when_an_attempt_comes_to_its_end_and_not_when_it_is_given_back(
    jobs: Jobs, end: str
) -> None:
    id_ = jobs.one()
    jobs.die(jobs.take(id_))
    held = jobs.take(id_)
    assert held.suspect == 1
    match end:
        case "done":
            jobs.settle(outcome.done(held, None))
        case "again":
            jobs.settle(outcome.again(held, outcome.Again(5), outcome.KindPolicy()))
        case "failed" | "retried":
            jobs.settle(outcome.failed(held, "bad_request", "No."))
        case "cleared":
            jobs.clear(held)
        case "given back":
            jobs.settle(outcome.released(held, unsent=True))
        case "unsent":
            jobs.settle(outcome.released(held, unsent=True, wait=5))
        case "stopped":
            jobs.settle(outcome.released(held, unsent=False))
    if end == "retried":
        assert jobs.retry(id_)

    assert jobs.get(id_).suspect == (end in ("given back", "unsent", "stopped"))
    if end == "cleared":
        jobs.die(held)
        assert (jobs.get(id_).deaths, jobs.get(id_).deaths_alone, jobs.get(id_).suspect) == (2, 0, 1)


@EVERYWHERE
@pytest.mark.parametrize("returns", [False, True])
def test_a_job_with_one_attempt_fails_with_its_worker_and_never_runs_again(jobs: Jobs, returns: bool) -> None:
    id_ = jobs.one(most_attempts=1)
    held = jobs.take(id_)
    jobs.clock.advance(LEASE + 1)
    assert (jobs.take_back(), jobs.stage(id_)) == (0, "running")  # its worker may come back for one more lease
    if returns:
        jobs.survive()
    jobs.clock.advance(LEASE + 1)
    assert jobs.take_back() == 1

    job = jobs.get(id_)
    assert (job.stage, job.attempt, job.error_code, job.error_message) == ("failed", 1, "worker_lost", NO_ATTEMPT_LEFT)
    jobs.survive()
    assert (jobs.stage(id_), jobs.claim(), jobs.suspects()) == ("failed", [], [])
    assert not jobs.settle(outcome.done(held, None)).counted


@EVERYWHERE
def test_a_job_with_one_attempt_goes_on_if_its_worker_returns_and_renews_the_lease(jobs: Jobs) -> None:
    held = jobs.take(jobs.one(most_attempts=1))
    jobs.clock.advance(LEASE + 1)
    assert jobs.take_back() == 0
    jobs.survive(renews=held)

    assert jobs.settle(outcome.done(held, None)).counted


@EVERYWHERE
@pytest.mark.parametrize("attempts", [2, 3])
def test_the_death_of_a_worker_does_not_use_up_the_last_attempt(jobs: Jobs, attempts: int) -> None:
    id_ = jobs.one(most_attempts=attempts)
    for _ in range(attempts):
        jobs.die(jobs.take(id_))

    job = jobs.get(id_)
    assert (job.stage, job.attempt, job.suspect, job.deaths) == ("ready", attempts - 1, 1, attempts)
    held = jobs.take(id_)
    assert held.attempt == attempts
    assert jobs.settle(outcome.done(held, None)).counted


@EVERYWHERE
@pytest.mark.parametrize("attempts", [2, 3])
def test_a_job_that_only_crashes_workers_late_fails_after_its_attempts_and_its_crashes(
    jobs: Jobs, attempts: int
) -> None:
    id_ = jobs.one(most_attempts=attempts)
    for n in range(attempts + DEFAULT_CRASHES):
        assert (jobs.stage(id_), jobs.get(id_).deaths) == ("ready", n)
        held = jobs.take(id_)
        jobs.clear(held)
        jobs.die(held)

    job = jobs.get(id_)
    assert (job.stage, job.attempt, job.error_code, job.deaths_alone) == ("failed", attempts, "worker_lost", 0)
    assert job.error_message == NO_ATTEMPT_LEFT


def _awaited(jobs: Jobs) -> Claimed:
    """A job whose next crash fails it. Its worker, ada, is late, and has one more lease to come back."""
    id_ = jobs.one(most_attempts=100)
    for _ in range(3):
        jobs.die(jobs.take(id_, "dead"))
    held = jobs.take(id_, "ada")
    jobs.clock.advance(LEASE + 1)
    assert (jobs.take_back(), jobs.get(id_).deaths_alone) == (0, 2)
    return held


@EVERYWHERE
def test_a_crash_that_was_not_counted_is_not_taken_back(jobs: Jobs) -> None:
    held = _awaited(jobs)
    jobs.settle(outcome.again(held, outcome.Again(5), outcome.KindPolicy(attempts=100)), worker="ada")

    jobs.survive("ada")

    assert jobs.get(held.id).deaths_alone == 2


@EVERYWHERE
def test_a_crash_counts_although_the_worker_had_once_been_late_in_the_same_attempt(jobs: Jobs) -> None:
    held = _awaited(jobs)
    jobs.survive("ada", renews=held)
    for _ in range(3):
        jobs.clock.advance(LEASE / 2)
        jobs.survive("ada", renews=held)

    jobs.die(held)

    assert (jobs.stage(held.id), jobs.get(held.id).deaths_alone) == ("failed", 3)


def test_deaths_are_counted_apart_from_failures(jobs: Jobs) -> None:
    id_ = jobs.one()
    jobs.die(jobs.take(id_))
    jobs.settle(outcome.released(jobs.take(id_), unsent=False))
    jobs.die(jobs.take(id_))

    job = jobs.get(id_)
    assert (job.stage, job.deaths, job.attempt) == ("ready", 2, 3)


def test_a_job_that_was_to_be_stopped_is_cancelled_when_its_worker_dies(jobs: Jobs) -> None:
    id_ = jobs.one()
    child = jobs.child(id_)
    held = jobs.take(id_)
    jobs.cancel(id_)

    jobs.die(held)

    assert jobs.stage(id_, child) == "cancelled failed"
    assert jobs.history(id_) == "queued processing cancel_asked lost cancelled"
    assert jobs.claim() == []


def test_lost_leases_are_taken_back_a_slice_at_a_time(jobs: Jobs) -> None:
    jobs.put(*(new() for _ in range(1100)))
    jobs.claim(1100)
    jobs.clock.advance(LEASE + 1)

    assert [jobs.take_back() for _ in range(4)] == [500, 500, 100, 0]


@pytest.mark.parametrize("db", [POSTGRES], indirect=True)
def test_a_renewal_waits_for_nobody_and_says_what_it_could_not_extend(db: Database, jobs: Jobs, clock: Clock) -> None:
    import psycopg

    jobs.one()
    blocked = jobs.one()
    held = jobs.claim(2)
    clock.advance(10)
    with psycopg.connect(db.url) as somebody:
        somebody.execute("select * from tg_job where id = %s for update", (blocked,))
        found = {each.id: each for each in jobs.renew(*held)}

    assert found[held[0].id].extended
    assert not found[blocked].extended
    assert found[blocked].lease_until == held[1].lease_until
    assert all(each.extended for each in jobs.renew(*held))


@pytest.mark.parametrize("db", [POSTGRES], indirect=True)
def test_the_leases_of_postgresql_are_measured_with_its_own_clock(db: Database) -> None:
    wrong = Clock(5.0)  # a worker whose clock is decades behind
    store = db.open(wrong, virtual=False)
    mine = Jobs(store, wrong)
    mine.migrate()
    mine.one()
    (held,) = mine.claim()

    assert held.lease_until - held.claimed_at == pytest.approx(LEASE, abs=0.1)
    assert abs(store.now() - held.claimed_at) < 60
    assert mine.take_back() == 0
    assert mine.renew(held)[0].lease_until >= held.lease_until
    store.close()
