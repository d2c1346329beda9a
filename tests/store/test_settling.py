from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.databases import EVERY
from tests.store.jobs import LEASE, Jobs, new
from tidegate.faults.codes import CORE
from tidegate.guard.backoff import Backoff
from tidegate.jobs import claim
from tidegate.jobs import outcome as job_outcome
from tidegate.jobs.job import AttemptOutcome, Claimed, OutcomeKind, StoredState
from tidegate.jobs.outcome import Again, KindPolicy

EVERYWHERE = pytest.mark.parametrize("db", EVERY, indirect=True)
POLICY = KindPolicy(backoff=Backoff(10, jitter=0))


def fault(job: Claimed, code: str = "timeout", **fields: Any) -> AttemptOutcome:
    return job_outcome.after_fault(job, CORE[code].fault("test", **fields), POLICY, 0.5)


OUTCOMES: dict[str, tuple[Callable[[Claimed], AttemptOutcome], str, int, float, str | None, str | None, str | None]] = {
    # how it ends: (the outcome, stage, attempt, seconds until it is due, result, error, last code)
    "done": (lambda job: job_outcome.done(job, '{"n":1}'), "done", 1, 0, '{"n":1}', None, None),
    "done without a result": (lambda job: job_outcome.done(job, None), "done", 1, 0, None, None, None),
    "failed": (lambda job: job_outcome.failed(job, "gone", "Gone.", 410), "failed", 1, 0, None, "gone", "gone"),
    "stopped": (job_outcome.cancelled, "cancelled", 1, 0, None, None, None),
    "again": (lambda job: job_outcome.again(job, Again("5m"), POLICY), "waiting", 1, 300, None, None, None),
    "again at once": (lambda job: job_outcome.again(job, Again(), POLICY), "ready", 1, 0, None, None, None),
    "again, unsent": (
        lambda job: job_outcome.again(job, Again("5m", keep_attempt=True, code="overloaded"), POLICY),
        "waiting",
        0,
        300,
        None,
        None,
        "overloaded",
    ),
    "fault": (lambda job: fault(job, status=504), "waiting", 1, 10, None, None, "timeout"),
    "fault with Retry-After": (
        lambda job: fault(job, "rate_limited", retry_after=90.0),
        "waiting",
        1,
        90,
        None,
        None,
        "rate_limited",
    ),
    "trial": (
        lambda job: job_outcome.after_fault(job, CORE["timeout"].fault("test"), POLICY, 0.5, outage=60.0),
        "waiting",
        0,
        10,
        None,
        None,
        "timeout",
    ),
    "given back": (lambda job: job_outcome.released(job, unsent=False), "ready", 1, 0, None, None, None),
    "given back unsent": (lambda job: job_outcome.released(job, unsent=True), "ready", 0, 0, None, None, None),
    "held": (
        lambda job: job_outcome.released(job, unsent=True, wait=7, code="unauthorized"),
        "waiting",
        0,
        7,
        None,
        None,
        "unauthorized",
    ),
    "not begun": (
        lambda job: job_outcome.not_started(job, "expired", "Old."),
        "failed",
        0,
        0,
        None,
        "expired",
        "expired",
    ),
}


@EVERYWHERE
@pytest.mark.req("CNV-06", "CNV-11", "CNV-14")
@pytest.mark.parametrize("how", OUTCOMES)
def test_each_way_an_attempt_can_end_is_written_as_it_says(jobs: Jobs, how: str) -> None:
    outcome, stage, attempt, wait, result, error, last = OUTCOMES[how]
    id_ = jobs.one()
    held = jobs.take(id_)
    jobs.clock.advance(3)
    ended = outcome(held)

    settled = jobs.settle(ended, worker="ada")
    job = jobs.get(id_)

    assert (settled.counted, settled.late) == (frozenset({id_}), ())
    assert (job.stage, job.attempt, job.fence) == (stage, attempt, 1)
    assert (job.result, job.error_code, job.last_code) == (result, error, last)
    assert job.due_at == (jobs.clock.now + wait if wait else job.created_at)
    assert (job.lease_by, job.lease_until, job.claimed_at) == (None, None, None)
    assert job.finished_at == (jobs.clock.now if job.state.final else None)
    assert job.last_at == jobs.clock.now
    event = jobs.events(id_)[-1]
    assert (event.kind, event.attempt, event.fence, event.actor) == (ended.ending, 1, 1, "ada")
    assert (event.code, event.status, event.duration) == (ended.code, ended.status, 3.0)
    assert jobs.history(id_) == f"queued processing {ended.ending}"


@pytest.mark.req("CNV-06")
def test_the_error_stands_on_the_final_failure_only_and_the_last_fault_always(jobs: Jobs) -> None:
    id_ = jobs.one(most_attempts=2)
    jobs.settle(fault(jobs.take(id_), status=504))
    first = jobs.get(id_)
    jobs.clock.advance(60)
    jobs.promote()
    jobs.settle(fault(jobs.take(id_), "upstream_failure", status=502))
    second = jobs.get(id_)

    assert (first.error_code, first.error_message, first.last_code, first.last_status) == (None, None, "timeout", 504)
    assert (second.error_code, second.last_code, second.last_status) == ("upstream_failure", "upstream_failure", 502)
    assert jobs.history(id_) == "queued processing again processing failed"


@pytest.mark.req("CNV-06")
@pytest.mark.parametrize(
    ("how", "code"), [("again", "timeout"), ("failed", "timeout"), ("lost", "worker_lost"), ("too old", "expired")]
)
def test_the_last_fault_has_no_status_of_an_earlier_one(jobs: Jobs, how: str, code: str) -> None:
    id_ = jobs.one(most_attempts=3 if how == "again" else 2, expires_in=60 if how == "too old" else None)
    jobs.settle(fault(jobs.take(id_), "upstream_failure", status=503))
    jobs.clock.advance(60)
    jobs.promote()
    match how:
        case "lost":
            jobs.take(id_)
            counted = claim.LostRule("worker_lost", counts_every_attempt=True)
            for _ in range(2):  # the second time, its worker might have come back and has not
                jobs.clock.advance(LEASE + 1)
                jobs.store.write(lambda tx: claim.rescue_lost(tx, counted, "Lost.", {}, LEASE))
        case "too old":
            jobs.expire()
        case _:
            jobs.settle(fault(jobs.take(id_)))

    found = jobs.get(id_)
    assert (found.stage, found.last_code, found.last_status) == ("waiting" if how == "again" else "failed", code, None)


@pytest.mark.req("CNV-06")
def test_what_goes_well_at_last_leaves_the_last_fault_as_it_was(jobs: Jobs) -> None:
    id_ = jobs.one(most_attempts=2)
    jobs.settle(fault(jobs.take(id_), "upstream_failure", status=503))
    jobs.clock.advance(60)
    jobs.promote()
    jobs.settle(job_outcome.done(jobs.take(id_), None))

    found = jobs.get(id_)
    assert (found.stage, found.last_code, found.last_status) == ("done", "upstream_failure", 503)


@pytest.mark.req("CNV-06")
def test_a_job_fails_when_its_attempts_are_used_up(jobs: Jobs) -> None:
    id_ = jobs.one(most_attempts=3)

    for _ in range(3):
        jobs.settle(fault(jobs.take(id_)))
        jobs.clock.advance(1000)
        jobs.promote()

    assert (jobs.stage(id_), jobs.get(id_).attempt) == ("failed", 3)


def test_a_batch_is_settled_as_a_whole(jobs: Jobs) -> None:
    jobs.put(*(new(queue="q") for _ in range(200)))
    held = jobs.claim(200)
    outcomes = [
        job_outcome.done(job, None) if job.id % 3 else job_outcome.failed(job, "gone", "Gone.")
        for job in reversed(held)
    ]

    settled = jobs.settle(*outcomes)

    assert settled.counted == {job.id for job in held}
    assert all(jobs.stage(job.id) == ("done" if job.id % 3 else "failed") for job in held[:20])


@EVERYWHERE
@pytest.mark.req("CNV-07")
def test_a_late_worker_cannot_settle_the_lease_it_lost(jobs: Jobs) -> None:
    id_ = jobs.one()
    late = jobs.take(id_, "late")
    jobs.die(late)
    fresh = jobs.take(id_, "fresh")
    before = jobs.get(id_)

    settled = jobs.settle(job_outcome.done(late, '"late"'), worker="late")

    assert settled.counted == frozenset()
    assert [outcome.job for outcome in settled.late] == [late]
    assert jobs.get(id_) == before
    stale = [event for event in jobs.events(id_) if event.kind == "stale_result"]
    assert [(event.fence, event.attempt, event.message, event.actor) for event in stale] == [(1, 1, "done", "late")]
    jobs.settle(job_outcome.done(fresh, '"fresh"'), worker="fresh")
    assert jobs.get(id_).result == '"fresh"'


@pytest.mark.req("CNV-07")
@pytest.mark.parametrize("how", ["done", "failed", "stopped", "fault", "given back unsent"])
@pytest.mark.parametrize("now", ["ready", "running", "done", "failed", "cancelled"])
def test_no_late_outcome_changes_a_job_whatever_has_become_of_it(jobs: Jobs, how: str, now: str) -> None:
    id_ = jobs.one()
    late = jobs.take(id_)
    jobs.die(late)
    if now == "cancelled":
        jobs.cancel(id_)
    elif now != "ready":
        fresh = jobs.take(id_)
        if now != "running":
            jobs.settle(job_outcome.done(fresh, "1") if now == "done" else job_outcome.failed(fresh, "gone", "Gone."))
    before, numbers = jobs.get(id_), jobs.tallies()

    for _ in range(3):
        assert jobs.settle(OUTCOMES[how][0](late)).late

    assert (jobs.get(id_), jobs.tallies()) == (before, numbers)
    assert jobs.history(id_).count("stale_result") == 1


def test_the_result_of_a_job_that_is_gone_is_late_and_leaves_nothing(jobs: Jobs) -> None:
    id_ = jobs.one()
    late = jobs.take(id_)
    jobs.die(late)
    jobs.done(id_)
    jobs.forget(id_)

    assert jobs.settle(job_outcome.done(late, None)).late
    assert jobs.sql("select count(*) from tg_event") == [(0,)]


@EVERYWHERE
@pytest.mark.parametrize("how", OUTCOMES)
def test_a_settle_whose_answer_was_lost_can_be_sent_again(jobs: Jobs, how: str) -> None:
    id_ = jobs.one()
    ended = OUTCOMES[how][0](jobs.take(id_))
    jobs.settle(ended)
    before, history, numbers = jobs.get(id_), jobs.events(id_), jobs.tallies()

    again = jobs.settle(ended)

    assert again.late == (ended,)
    assert (jobs.get(id_), jobs.events(id_), jobs.tallies()) == (before, history, numbers)


def test_an_attempt_ends_once_even_within_one_batch(jobs: Jobs) -> None:
    id_ = jobs.one()
    held = jobs.take(id_)
    first, second = job_outcome.released(held, unsent=False), job_outcome.done(held, "1")

    settled = jobs.settle(first, second)

    assert settled.late == (second,)
    assert jobs.stage(id_) == "ready"
    assert [(event.kind, event.message) for event in jobs.events(id_)][-1] == ("stale_result", "done")


def test_an_old_and_a_new_attempt_at_one_job_are_told_apart_in_one_batch(jobs: Jobs) -> None:
    id_ = jobs.one()
    old = jobs.take(id_)
    jobs.die(old)
    fresh = jobs.take(id_)
    jobs.clock.advance(1)

    settled = jobs.settle(job_outcome.done(old, '"old"'), job_outcome.done(fresh, '"fresh"'))

    assert [outcome.job.fence for outcome in settled.late] == [1]
    assert jobs.get(id_).result == '"fresh"'
    assert jobs.history(id_) == "queued processing lost processing stale_result done"


@EVERYWHERE
def test_a_late_one_does_not_keep_the_others_of_its_batch_out(jobs: Jobs) -> None:
    lost, kept = jobs.one(), jobs.one()
    late, good = jobs.claim(2)
    jobs.clock.advance(20)
    jobs.renew(good)
    jobs.clock.advance(20)
    jobs.take_back()

    settled = jobs.settle(job_outcome.done(late, None), job_outcome.done(good, None))

    assert settled.counted == {kept}
    assert jobs.stage(lost, kept) == "ready done"


@pytest.mark.parametrize(
    "text", ["a\0b", "\udcff lone", "x" * 1_000_000, "", "🎵" * 5000], ids=["nul", "surrogate", "long", "empty", "wide"]
)
def test_no_text_of_a_handler_keeps_a_batch_out(jobs: Jobs, text: str) -> None:
    bad, good = jobs.one(), jobs.one()
    first, second = jobs.claim(2)

    jobs.settle(job_outcome.failed(first, text or "x", text), job_outcome.done(second, None))

    assert jobs.stage(bad, good) == "failed done"
    assert len(jobs.get(bad).error_message or "") <= 2000


@pytest.mark.parametrize("status", [-1, 2**31, 2**63, 10**30])
def test_a_status_that_is_none_keeps_nobody_out(jobs: Jobs, status: int) -> None:
    id_ = jobs.one()

    jobs.settle(job_outcome.failed(jobs.take(id_), "gone", "Gone.", status))

    assert (jobs.stage(id_), jobs.get(id_).last_status) == ("failed", None)


@pytest.mark.parametrize("how", ["again", "fault", "given back", "given back unsent", "held"])
def test_a_job_that_a_person_stopped_is_not_tried_again(jobs: Jobs, how: str) -> None:
    id_ = jobs.one()
    child = jobs.child(id_)
    ended = OUTCOMES[how][0](jobs.take(id_))
    assert jobs.cancel(id_) == "asked"

    jobs.settle(ended)

    assert jobs.stage(id_, child) == "cancelled failed"
    assert jobs.history(id_) == "queued processing cancelled cancel_asked"
    assert jobs.settle(ended).late
    assert "stale_result" not in jobs.history(id_)


@pytest.mark.parametrize("how", ["done", "failed"])
def test_a_job_that_ended_before_it_heard_of_the_stop_has_ended_so(jobs: Jobs, how: str) -> None:
    id_ = jobs.one()
    held = jobs.take(id_)
    jobs.cancel(id_)

    jobs.settle(OUTCOMES[how][0](held))

    assert (jobs.stage(id_), jobs.get(id_).stop_asked) == (how, 0)


@pytest.mark.parametrize("refund", [True, False])
def test_the_fence_never_goes_back(jobs: Jobs, refund: bool) -> None:
    id_ = jobs.one()

    fences = []
    for _ in range(5):
        held = jobs.take(id_)
        fences.append(held.fence)
        jobs.settle(job_outcome.released(held, unsent=refund))

    assert fences == [1, 2, 3, 4, 5]
    assert jobs.get(id_).attempt == (0 if refund else 5)


def test_every_ending_has_its_row() -> None:
    job = Claimed(1, "q", "k", "t", "", 0, 1, 10, 0, 0, 1, LEASE, 0.0, "null", None, 0, 0, 0.0, None, None)

    endings = {outcome(job).ending for outcome, *_ in OUTCOMES.values()}

    assert endings == set(OutcomeKind) - {OutcomeKind.LOST}
    assert {outcome(job).stage for outcome, *_ in OUTCOMES.values()} == set(StoredState) - {
        StoredState.BLOCKED,
        StoredState.RUNNING,
    }
