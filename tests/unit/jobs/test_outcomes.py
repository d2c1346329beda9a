"""The whole of what is written when an attempt ends, for each way in which it can end."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import pytest

from tests.text import numbers
from tests.unit.jobs.test_outcome import JOB, POLICY, fault
from tidegate.guard.backoff import Backoff
from tidegate.jobs import outcome
from tidegate.jobs.job import NO_ATTEMPT_LEFT, AttemptOutcome, Claimed, OutcomeKind, StoredState
from tidegate.jobs.outcome import Again, Fail, KindPolicy

LAST = JOB._replace(attempt=3)
TIMEOUT = fault("timeout", status=504)
REFUSED = fault("bad_request", status=400)
JITTERY = KindPolicy(attempts=3, backoff=Backoff(10, cap=100, jitter=0.5))
GOOD = {"ending": OutcomeKind.DONE, "stage": StoredState.DONE}
BAD = {"ending": OutcomeKind.FAILED, "stage": StoredState.FAILED}
AGAIN = {"ending": OutcomeKind.AGAIN, "stage": StoredState.WAITING}


@pytest.mark.parametrize(
    ("ended", "expected"),
    [
        (lambda: outcome.done(JOB, "[1]"), {**GOOD, "result": "[1]", "accepted": True}),
        (lambda: outcome.done(JOB, "[1]", unsent=True), {**GOOD, "result": "[1]"}),
        (
            lambda: outcome.cancelled(JOB),
            {"ending": OutcomeKind.CANCELLED, "stage": StoredState.CANCELLED, "keep_place": True},
        ),
        (
            lambda: outcome.cancelled(JOB, unsent=True),
            {"ending": OutcomeKind.CANCELLED, "stage": StoredState.CANCELLED},
        ),
        (
            lambda: outcome.released(JOB, unsent=False, wait=5.0, code="own_pool"),
            {
                "ending": OutcomeKind.GIVEN_BACK,
                "stage": StoredState.WAITING,
                "wait": 5.0,
                "keep_place": True,
                "code": "own_pool",
            },
        ),
        (
            lambda: outcome.released(JOB, unsent=True, wait=0.0),
            {"ending": OutcomeKind.GIVEN_BACK, "stage": StoredState.READY, "refund": True},
        ),
        (lambda: outcome.failed(JOB, "gone", "", 410), {**BAD, "code": "gone", "message": "gone", "status": 410}),
        (
            lambda: outcome.not_started(JOB, "expired", "Too old."),
            {**BAD, "refund": True, "code": "expired", "message": "Too old."},
        ),
        (
            lambda: outcome.not_started(JOB, "expired", ""),
            {**BAD, "refund": True, "code": "expired", "message": "expired"},
        ),
        (
            lambda: outcome.again(JOB, Again(4, code="conflict", message="Busy.", status=409, keep_place=True), POLICY),
            {**AGAIN, "wait": 4.0, "keep_place": True, "code": "conflict", "status": 409, "message": "Busy."},
        ),
        (lambda: outcome.again(JOB, Again(), POLICY), {"ending": OutcomeKind.AGAIN, "stage": StoredState.READY}),
        (lambda: outcome.again(JOB, Again(ladder=True), JITTERY, 0.0), {**AGAIN, "wait": 5.0}),
        (lambda: outcome.again(JOB, Again(ladder=True), JITTERY), {**AGAIN, "wait": 10.0}),
        (
            lambda: outcome.after_fault(JOB, TIMEOUT, JITTERY, 0.0),
            {**AGAIN, "wait": 5.0, "code": "timeout", "status": 504, "message": TIMEOUT.message},
        ),
        (
            lambda: outcome.after_fault(JOB, REFUSED, POLICY, 0.5),
            {**BAD, "code": "bad_request", "status": 400, "message": REFUSED.message},
        ),
        (
            lambda: outcome.after_fault(JOB, fault("unauthorized"), POLICY, 0.5),
            {"ending": OutcomeKind.GIVEN_BACK, "stage": StoredState.READY, "refund": True, "code": "unauthorized"},
        ),
    ],
)
def test_what_is_written_of_a_job_is_this_and_nothing_else(
    ended: Callable[[], AttemptOutcome], expected: dict[str, object]
) -> None:
    assert ended() == AttemptOutcome(job=JOB, **expected)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("ended", "expected"),
    [
        (
            lambda: outcome.again(LAST, Again(code="conflict", message="Busy.", status=409, keep_place=True), POLICY),
            {"code": "conflict", "message": "Busy.", "status": 409, "keep_place": True},
        ),
        (
            lambda: outcome.again(LAST, Again(), POLICY),
            {"code": "unexpected"},
        ),
        (
            lambda: outcome.after_fault(LAST, TIMEOUT, POLICY, 0.5),
            {"code": "timeout", "status": 504, "message": TIMEOUT.message},
        ),
    ],
)
def test_the_last_attempt_that_asks_for_another_has_failed(
    ended: Callable[[], AttemptOutcome], expected: dict[str, object]
) -> None:
    found = ended()
    assert found.message
    assert found == AttemptOutcome(job=LAST, **BAD, **{"message": found.message, **expected})  # type: ignore[arg-type]


def test_the_last_attempt_that_a_worker_lost_has_failed_and_keeps_its_place() -> None:
    last = JOB._replace(attempt=10)
    assert outcome.released(last, unsent=False, lost_code="child_died") == AttemptOutcome(
        job=last,
        ending=OutcomeKind.FAILED,
        stage=StoredState.FAILED,
        code="child_died",
        message=NO_ATTEMPT_LEFT,
        keep_place=True,
    )
    assert outcome.released(last, unsent=True).ending is OutcomeKind.GIVEN_BACK


def may(attempt: int, most: int, policy: KindPolicy, code: str = "timeout") -> bool:
    return policy.allows(JOB._replace(attempt=attempt, most_attempts=most), code)


def test_the_fewest_attempts_of_job_kind_and_code_are_what_it_may_have() -> None:
    policy = KindPolicy(attempts=5, per_code={"conflict": 2, "timeout": 9})
    assert [may(attempt, 4, policy) for attempt in (3, 4)] == [True, False]
    assert [may(attempt, 9, policy) for attempt in (4, 5)] == [True, False]
    assert [may(attempt, 9, policy, "conflict") for attempt in (1, 2)] == [True, False]


def test_the_code_that_a_handler_gives_chooses_how_often_it_may_ask() -> None:
    policy = KindPolicy(attempts=5, per_code={"conflict": 1})
    assert outcome.again(JOB, Again(1, code="conflict"), policy).ending is OutcomeKind.FAILED
    assert outcome.again(JOB, Again(1), policy).ending is OutcomeKind.AGAIN


def test_a_wait_that_the_service_asked_for_is_a_lower_bound_and_no_wish_is_none() -> None:
    policy = KindPolicy(backoff=Backoff(0.25, cap=0.25, jitter=0), max_retry_after=50.0)

    def waited(job: Claimed, asked: float | None) -> float | None:
        return outcome.after_fault(job, fault("rate_limited", retry_after=asked), policy, 0.5).wait

    assert [waited(JOB, asked) for asked in (None, 20.0, 99.0)] == [0.25, 20.0, 50.0]


def test_what_a_handler_raises_says_what_it_was_given_and_survives_a_pickle() -> None:
    plain, whole = Again(), Again("5s", keep_attempt=True, code="gone", message="Gone.", status=410, fault=TIMEOUT)
    assert (plain.delay, plain.ladder, plain.keep_attempt, plain.keep_place) == (0.0, False, False, False)
    assert (plain.code, plain.message, plain.status, plain.fault) == (None, "", None, None)
    assert (numbers(str(plain)), numbers(str(whole)), numbers(str(Again(ladder=True)))) == ([0], [5], [])
    for each in (whole, pickle.loads(pickle.dumps(whole))):
        assert (each.delay, each.keep_attempt, each.code, each.message) == (5.0, True, "gone", "Gone.")
        assert (each.status, each.fault, each.keep_place) == (410, TIMEOUT, False)
    with pytest.raises(ValueError, match=r"^delay: 'x' "):
        Again("x")


def test_a_failure_that_a_handler_raises_says_what_it_was_given_and_survives_a_pickle() -> None:
    whole = Fail("gone", "It is gone.", keep_place=True, status=410, fault=TIMEOUT)
    for each in (whole, pickle.loads(pickle.dumps(whole))):
        assert (each.code, each.message, each.keep_place) == ("gone", "It is gone.", True)
        assert (each.status, each.fault, str(each)) == (410, TIMEOUT, "It is gone.")
    plain = Fail("gone")
    assert (plain.message, plain.keep_place, plain.status, plain.fault, str(plain)) == ("", False, None, None, "gone")
