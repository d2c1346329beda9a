from __future__ import annotations

import pickle
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.faults.codes import CORE
from tidegate.faults.fault import Fault, Reach
from tidegate.guard.backoff import Backoff
from tidegate.jobs import outcome
from tidegate.jobs.job import AttemptOutcome, Claimed, OutcomeKind, StoredState
from tidegate.jobs.outcome import Again, Done, Fail, KindPolicy

JOB = Claimed(
    id=7, queue="q", kind="k", target="t", lane="", priority=0, attempt=1, most_attempts=10, deaths=0, suspect=0,
    fence=3,
    lease_until=30.0, claimed_at=0.0, args="null", saved=None, parents=0, children=0, created_at=0.0, expires_at=None,
    last_code=None,
)  # fmt: skip
POLICY = KindPolicy(attempts=3, per_code={"conflict": 2, "not_listed_here": 99}, backoff=Backoff(5, cap=3600, jitter=0))

QUEUED = (StoredState.WAITING, StoredState.READY)


def fault(code: str, **fields: Any) -> Fault:
    return CORE[code].fault("test", **fields)


def after(code: str, attempt: int = 1, policy: KindPolicy = POLICY, roll: float = 0.5, **fields: Any) -> AttemptOutcome:
    return outcome.after_fault(JOB._replace(attempt=attempt), fault(code, **fields), policy, roll)


@pytest.mark.req("CNV-06", "LID-12")
@pytest.mark.parametrize(("attempt", "wait"), [(1, 5.0), (2, 10.0), (3, 20.0), (4, 40.0)])
def test_a_retriable_fault_waits_by_the_ladder_from_its_first_step_on(attempt: int, wait: float) -> None:
    ended = after("timeout", attempt, replace(POLICY, attempts=10), status=504)

    assert (ended.ending, ended.stage, ended.wait, ended.refund) == (
        OutcomeKind.AGAIN,
        StoredState.WAITING,
        wait,
        False,
    )
    assert (ended.code, ended.status, ended.message) == ("timeout", 504, CORE["timeout"].message)


@pytest.mark.parametrize("attempt", [1, 10])
@pytest.mark.parametrize("unsent", [True, False])
def test_what_was_cut_short_keeps_its_place_at_the_target_that_may_have_accepted_it(unsent: bool, attempt: int) -> None:
    assert outcome.released(JOB._replace(attempt=attempt), unsent=unsent).keep_place is not unsent


@pytest.mark.req("LID-12")
def test_a_crash_is_no_step_of_the_ladder() -> None:
    job, policy = JOB._replace(attempt=3, deaths=2), replace(POLICY, attempts=10)

    assert outcome.after_fault(job, fault("timeout"), policy, 0.5).wait == 5.0
    assert outcome.again(job, Again(ladder=True), policy).wait == 5.0


@pytest.mark.req("CNV-06", "LID-13")
@pytest.mark.parametrize(
    ("code", "attempt", "policy_attempts", "most", "again"),
    [
        ("timeout", 1, 3, 10, True), ("timeout", 2, 3, 10, True), ("timeout", 3, 3, 10, False),
        ("timeout", 1, 3, 2, True), ("timeout", 2, 3, 2, False), ("timeout", 2, 1, 10, False),
        ("conflict", 1, 10, 10, True), ("conflict", 2, 10, 10, False), ("timeout", 9, 10, 10, True),
        ("timeout", 1, 1, 1, False),
    ],
)  # fmt: skip
def test_the_fewest_of_the_three_limits_counts(
    code: str, attempt: int, policy_attempts: int, most: int, again: bool
) -> None:
    job = JOB._replace(attempt=attempt, most_attempts=most)

    ended = outcome.after_fault(job, fault(code), replace(POLICY, attempts=policy_attempts), 0.5)

    assert ended.ending is (OutcomeKind.AGAIN if again else OutcomeKind.FAILED)
    assert (ended.stage is StoredState.FAILED) == (not again)
    assert ended.code == code


@pytest.mark.parametrize(
    ("asked", "wait"), [(None, 5.0), (1.0, 5.0), (60.0, 60.0), (3600.0, 3600.0), (86_400.0, 3600.0)]
)
def test_retry_after_lengthens_a_wait_up_to_an_hour_and_never_shortens_it(asked: float | None, wait: float) -> None:
    assert after("rate_limited", retry_after=asked).wait == wait


@pytest.mark.req("CNV-04")
@pytest.mark.parametrize("code", [name for name, code in CORE.items() if code.fatal])
@pytest.mark.parametrize("target", ["t", ""])
def test_a_fatal_fault_ends_the_job_unless_it_shuts_a_gate_before_it(code: str, target: str) -> None:
    ended = outcome.after_fault(JOB._replace(target=target), fault(code), POLICY, 0.5)

    if target and CORE[code].reach in (Reach.CREDENTIAL, Reach.TARGET):
        assert (ended.ending, ended.stage, ended.refund) == (OutcomeKind.GIVEN_BACK, StoredState.READY, True)
    else:
        assert (ended.ending, ended.stage, ended.refund) == (OutcomeKind.FAILED, StoredState.FAILED, False)
    assert ended.code == code


def test_a_fatal_fault_ends_the_job_when_there_is_no_gate_that_could_hold_it() -> None:
    ended = outcome.after_fault(JOB._replace(target="t"), fault("unauthorized"), POLICY, 0.5, gated=False)

    assert (ended.ending, ended.refund) == (OutcomeKind.FAILED, False)


@pytest.mark.parametrize("code", [name for name, code in CORE.items() if not code.fatal])
def test_a_retriable_fault_of_any_code_is_tried_again_after_a_while(code: str) -> None:
    ended = after(code)

    assert (ended.stage, ended.refund) == (StoredState.WAITING, False)
    assert ended.wait is not None
    assert ended.wait > 0


def test_done_has_its_result_and_nothing_else() -> None:
    ended = outcome.done(JOB, '{"n":1}')

    assert (ended.ending, ended.stage, ended.result) == (OutcomeKind.DONE, StoredState.DONE, '{"n":1}')
    assert (ended.wait, ended.refund, ended.code, ended.message) == (None, False, None, None)


def test_a_failure_always_has_a_message() -> None:
    assert outcome.failed(JOB, "gone", "").message == "gone"
    assert outcome.failed(JOB, "gone", "It is gone.", 410).message == "It is gone."
    assert outcome.not_started(JOB, "expired", "").message == "expired"


def test_a_job_that_was_not_begun_fails_without_an_attempt() -> None:
    ended = outcome.not_started(JOB, "expired", "Old.")

    assert (ended.ending, ended.stage, ended.refund) == (OutcomeKind.FAILED, StoredState.FAILED, True)


@pytest.mark.parametrize("unsent", [True, False])
@pytest.mark.parametrize(
    ("wait", "stage"), [(None, StoredState.READY), (0.0, StoredState.READY), (5.0, StoredState.WAITING)]
)
def test_what_is_given_back_keeps_its_attempt_only_if_something_was_sent(
    unsent: bool, wait: float | None, stage: StoredState
) -> None:
    ended = outcome.released(JOB, unsent=unsent, wait=wait)

    assert (ended.ending, ended.stage, ended.refund) == (OutcomeKind.GIVEN_BACK, stage, unsent)
    assert ended.wait == (wait or None)


@pytest.mark.parametrize("unsent", [True, False])
def test_the_last_attempt_is_given_back_only_if_nothing_was_sent(unsent: bool) -> None:
    last = JOB._replace(attempt=3, most_attempts=3)

    ended = outcome.released(last, unsent=unsent)

    assert ended.stage is (StoredState.READY if unsent else StoredState.FAILED)
    assert ended.code == (None if unsent else "worker_lost")


@pytest.mark.parametrize(("delay", "stage", "wait"), [(0, StoredState.READY, None), ("5m", StoredState.WAITING, 300.0)])
@pytest.mark.parametrize("keep", [True, False])
def test_a_handler_can_ask_for_another_attempt(delay: Any, stage: StoredState, wait: float | None, keep: bool) -> None:
    ended = outcome.again(JOB, Again(delay, keep_attempt=keep, code="overloaded"), POLICY)

    assert (ended.ending, ended.stage, ended.wait, ended.refund) == (OutcomeKind.AGAIN, stage, wait, keep)
    assert ended.code == "overloaded"


@pytest.mark.parametrize("code", [None, "conflict"])
def test_asking_for_another_attempt_ends_with_the_last_one_unless_nothing_was_sent(code: str | None) -> None:
    last = JOB._replace(attempt=3)

    assert outcome.again(last, Again("5m", code=code), POLICY).stage is StoredState.FAILED
    assert outcome.again(last, Again("5m", code=code), POLICY).code == (code or "unexpected")
    assert outcome.again(last, Again("5m", code=code, keep_attempt=True), POLICY).stage is StoredState.WAITING


def test_asking_by_the_ladder_waits_as_after_a_fault_and_remembers_what_was_said() -> None:
    second = JOB._replace(attempt=2)
    wish = Again(ladder=True, code="path_taken", message="It is taken.", status=400)

    ended = outcome.again(second, wish, POLICY, roll=0.5)

    assert (ended.stage, ended.wait) == (StoredState.WAITING, POLICY.backoff.delay(1, 0.5))
    assert (ended.code, ended.message, ended.status, ended.refund) == ("path_taken", "It is taken.", 400, False)
    last = outcome.again(JOB._replace(attempt=3), wish, POLICY, roll=0.5)
    assert (last.stage, last.code, last.message, last.status) == (StoredState.FAILED, "path_taken", "It is taken.", 400)


def test_a_stop_by_a_person_cancels() -> None:
    ended = outcome.cancelled(JOB)

    assert (ended.ending, ended.stage, ended.refund) == (OutcomeKind.CANCELLED, StoredState.CANCELLED, False)
    assert (ended.keep_place, outcome.cancelled(JOB, unsent=True).keep_place) == (True, False)


@given(
    attempt=st.integers(1, 30), most=st.integers(1, 30), attempts=st.integers(1, 30), roll=st.floats(0, 0.999),
    code=st.sampled_from(sorted(CORE)), asked=st.none() | st.floats(0, 1e6), target=st.sampled_from(["", "t"]),
)  # fmt: skip
def test_no_fault_leads_to_more_attempts_than_allowed_nor_to_a_job_that_spins(
    attempt: int, most: int, attempts: int, roll: float, code: str, asked: float | None, target: str
) -> None:
    job = JOB._replace(attempt=attempt, most_attempts=most, target=target)
    policy = KindPolicy(attempts=attempts)

    ended = outcome.after_fault(job, fault(code, retry_after=asked), policy, roll)

    if ended.stage in QUEUED and not ended.refund:
        assert attempt < min(most, attempts)
        assert ended.wait is not None
        assert 0 < ended.wait <= 3600 * 1.25
    if ended.refund:
        assert target  # a gate holds it
    assert ended.stage in (*QUEUED, StoredState.FAILED)


@pytest.mark.parametrize("delay", [-1, float("nan"), "soon", None])
def test_a_delay_that_is_none_is_refused(delay: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="delay"):
        Again(delay)


def test_what_handlers_raise_says_what_it_means_and_can_be_sent_to_another_process() -> None:
    assert str(Again("90s")) == "again in 90 s"
    assert str(Fail("gone")) == "gone"
    assert str(Fail("gone", "It is gone.")) == "It is gone."
    assert Done().writes == ()
    again = pickle.loads(pickle.dumps(Again("5m", keep_attempt=True, keep_place=True, code="overloaded")))
    assert (again.delay, again.keep_attempt, again.keep_place, again.code) == (300.0, True, True, "overloaded")
    again = pickle.loads(pickle.dumps(Again(ladder=True, message="Full.", status=400)))
    assert (again.ladder, again.message, again.status) == (True, "Full.", 400)
    failed = pickle.loads(pickle.dumps(Fail("gone", "It is gone.", status=410, keep_place=True)))
    assert (failed.code, failed.message, failed.status, str(failed)) == ("gone", "It is gone.", 410, "It is gone.")
    assert (failed.keep_place, Fail("gone").keep_place) == (True, False)


async def _later() -> None: ...


@pytest.mark.parametrize("after", ["log it", _later, partial(_later)])
def test_what_comes_after_a_commit_is_a_plain_function(after: Any) -> None:
    with pytest.raises(TypeError, match=r"Done\.after: .*`def`"):
        Done(1, after=after)
    assert Done(1, after=dict).after is dict


@pytest.mark.parametrize("result", [None, "a word", Done("a word", unsent=True)])
def test_what_comes_from_a_child_process_is_taken_as_it_is(result: Any) -> None:
    assert outcome.from_child(result) is result


def test_a_child_process_cannot_ask_for_anything_after_a_commit() -> None:
    words = "Done.after: a child process never hears of the commit; give it in a job without `process`"
    with pytest.raises(TypeError) as refused:
        outcome.from_child(Done(1, after=dict))
    assert str(refused.value) == words


def test_the_code_of_an_end_is_a_word_and_no_sentence() -> None:
    with pytest.raises(ValueError, match=r"Fail\.code: 'no such artist'"):
        Fail("no such artist")
    with pytest.raises(ValueError, match=r"Again\.code: 'not yet!'"):
        Again("5m", code="not yet!")
    assert (Fail("not_found", "no such artist").code, Again("5m", code="NOT_YET").code) == ("not_found", "NOT_YET")


@pytest.mark.parametrize("code", ["x", "y" * 64])
def test_a_code_of_a_handler_is_any_word(code: str) -> None:
    assert (Fail(code).code, Again("1m", code=code).code) == (code, code)


@pytest.mark.parametrize("code", ["", "y" * 65, "a b", 404, ["a"]])
def test_what_is_no_word_is_no_code_of_a_handler(code: Any) -> None:
    with pytest.raises(ValueError, match=r"^Fail\.code: "):
        Fail(code)
