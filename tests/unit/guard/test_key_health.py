"""The state of one key: what it holds, and for how long."""

from __future__ import annotations

import math

import pytest

from tidegate import Backoff, Fault
from tidegate.faults.codes import CORE
from tidegate.guard.cooldown import FRESH, CooldownState, disable, reserve_probe
from tidegate.guard.hold import EndedBy, Hold, HoldReason
from tidegate.guard.key_health import KeyHealth, Notified, wait_after

HOUR = 3600.0


def fault(code: str, retry_after: float | None = None) -> Fault:
    return CORE[code].fault("test", retry_after=retry_after)


def wait(found: Fault, failures: int = 0, *, fatal: bool | None = None) -> float:
    is_fatal = found.fatal if fatal is None else fatal
    return wait_after(found, failures, Backoff.sync(), 0.5, max_retry_after=HOUR, reprobe_every=HOUR, fatal=is_fatal)


@pytest.mark.req("SYNC-05")
@pytest.mark.parametrize(
    ("asked", "failures", "waited"),
    [(None, 0, 30), (5, 0, 30), (45, 0, 45), (45, 3, 240), (HOUR, 0, HOUR), (7 * HOUR, 0, HOUR)],
)
def test_retry_after_is_a_lower_bound_up_to_an_hour(asked: float | None, failures: int, waited: float) -> None:
    assert wait(fault("rate_limited", asked), failures) == waited


@pytest.mark.req("SYNC-17")
@pytest.mark.parametrize(
    ("code", "waited"),
    [("unauthorized", math.inf), ("forbidden", math.inf), ("bad_answer", math.inf),
     ("quota_exhausted", HOUR), ("misconfigured", HOUR)],
)  # fmt: skip
def test_money_and_settings_are_asked_again_once_an_hour_credentials_never(code: str, waited: float) -> None:
    assert wait(fault(code)) == waited


def test_what_a_cooldown_governs_only_backs_off() -> None:
    assert wait(fault("forbidden"), fatal=False) == 30


def test_a_hold_says_why_since_when_until_when_and_who_can_end_it() -> None:
    state = KeyHealth(0.0)
    state.record_failure(fault("network"), 10.0, 30.0, fatal=False)
    state.record_failure(fault("network"), 50.0, 60.0, fatal=False)
    (hold,) = state.holds(60.0)

    assert (hold.reason, hold.since, hold.until, hold.ended_by) == (HoldReason.BACKOFF, 10.0, 110.0, EndedBy.TIME)
    assert (hold.code, hold.message) == ("network", CORE["network"].message)
    assert not list(state.holds(110.0))


@pytest.mark.parametrize(
    ("code", "asked", "reason"),
    [("rate_limited", 60, "retry_after"), ("overloaded", 60, "retry_after"), ("rate_limited", None, "backoff"),
     ("network", 60, "backoff")],
)  # fmt: skip
def test_a_wait_that_the_service_asked_for_is_called_so(code: str, asked: float | None, reason: str) -> None:
    state = KeyHealth(0.0)
    state.record_failure(fault(code, asked), 0.0, 60.0, fatal=False)

    assert [str(hold.reason) for hold in state.holds(1.0)] == [reason]


def test_a_success_ends_the_run_and_says_what_people_had_been_told() -> None:
    state = KeyHealth(0.0)
    state.record_failure(fault("unauthorized"), 0.0, math.inf, fatal=True)
    state.notified |= Notified.FATAL

    assert state.recover() is Notified.FATAL
    assert state.healthy
    assert not list(state.holds(1.0))


@pytest.mark.parametrize(
    ("wait_for", "until", "by"), [(math.inf, None, EndedBy.PERSON), (HOUR, 10.0 + HOUR, EndedBy.PROBE)]
)
def test_a_fatal_fault_is_held_until_a_person_acts_or_a_probe_is_due(
    wait_for: float, until: float | None, by: EndedBy
) -> None:
    state = KeyHealth(0.0)
    state.record_failure(fault("quota_exhausted"), 10.0, wait_for, fatal=True)
    assert list(state.holds(11.0, "search")) == [
        Hold(
            reason=HoldReason.FATAL, since=10.0, until=until, ended_by=by, operation="search", code="quota_exhausted",
            message=CORE["quota_exhausted"].message,
        )
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("rest", "until", "by", "says"),
    [
        (disable(FRESH, until=90.0, by="anna", reason="moving", now=5.0), 90.0, EndedBy.TIME, False),
        (disable(FRESH, until=None, by="anna", reason="moving", now=5.0), None, EndedBy.PERSON, False),
        (disable(FRESH, until=90.0, by="auto", reason="moving", now=5.0), 90.0, EndedBy.TIME, True),
        (
            reserve_probe(disable(FRESH, until=20.0, by="anna", reason="moving", now=5.0), 95.0),
            95.0,
            EndedBy.TIME,
            False,
        ),
    ],
    ids=["for a time", "for good", "by its own faults", "while its probe is out"],
)
def test_a_rest_is_held_until_its_end_or_that_of_its_probe(
    rest: CooldownState, until: float | None, by: EndedBy, says: bool
) -> None:
    state = KeyHealth(0.0)
    state.record_failure(CORE["network"].fault("test"), 0.0, 1.0, fatal=False)
    state.rest = rest
    (hold,) = state.holds(30.0, "search")
    expected = CORE["network"].message if says else ""
    assert (hold.reason, hold.since, hold.until, hold.ended_by) == (HoldReason.COOLDOWN, 5.0, until, by)
    assert (hold.operation, hold.code, hold.message) == ("search", "moving", expected)


def test_a_rest_without_any_fault_has_no_message() -> None:
    state = KeyHealth(0.0)
    state.rest = disable(FRESH, until=90.0, by="auto", reason="moving", now=5.0)
    assert [hold.message for hold in state.holds(30.0)] == [""]


def test_a_rest_that_is_over_lets_one_call_through() -> None:
    state = KeyHealth(0.0)
    state.rest = disable(FRESH, until=20.0, by="anna", reason="moving", now=5.0)
    assert not list(state.holds(20.0))


def ill(**given: object) -> KeyHealth:
    state = KeyHealth(0.0)
    for name, value in given.items():
        setattr(state, name, value)
    return state


def test_it_is_well_only_when_nothing_at_all_is_known_of_it() -> None:
    assert KeyHealth(0.0).healthy
    for state in (
        ill(failures=1), ill(parts={"search": KeyHealth(0.0)}), ill(notified=Notified.CAP),
        ill(rest=disable(FRESH, until=1.0, by="anna", reason="moving", now=0.0)),
    ):  # fmt: skip
        assert not state.healthy


DAY = 86_400.0


@pytest.mark.parametrize(
    ("state", "days"),
    [
        (ill(until=100.0), 1),
        (ill(since=100.0), 1),
        (ill(since=100.0, notified=Notified.CAP), 7),
        (ill(since=100.0, rest=CooldownState(failing_code="network", failing_count=2)), 7),
    ],
    ids=["from the end of its wait", "from its beginning", "where people were told", "where a rest is counted up to"],
)
def test_it_is_forgotten_after_a_day_or_a_week_of_silence(state: KeyHealth, days: int) -> None:
    assert not state.idle(100.0 + days * DAY)
    assert state.idle(100.0 + days * DAY + 1)


def test_what_only_a_person_ends_is_never_forgotten() -> None:
    rest = disable(FRESH, until=1.0, by="anna", reason="moving", now=0.0)
    assert not ill(until=math.inf).idle(1000 * DAY)
    assert not ill(rest=rest).idle(1000 * DAY)


def test_people_were_told_of_it_when_they_were_told_of_one_of_its_operations() -> None:
    assert not KeyHealth(0.0).told_of
    assert ill(notified=Notified.CAP).told_of
    assert not ill(parts={"search": KeyHealth(0.0)}).told_of
    assert ill(parts={"search": KeyHealth(0.0), "sync": ill(notified=Notified.FATAL)}).told_of


def test_a_run_counts_its_failures_and_a_new_run_begins_anew() -> None:
    state = KeyHealth(0.0)
    state.record_failure(fault("unauthorized"), 10.0, 5.0, fatal=True)
    state.record_failure(fault("network"), 20.0, 7.0, fatal=False)
    assert (state.failures, state.since, state.until, state.fatal) == (2, 10.0, 27.0, False)
    assert state.fault == fault("network")
    state.record_failure(fault("unauthorized"), 21.0, math.inf, fatal=True)
    state.recover()
    assert (state.failures, state.until, state.fatal, state.notified) == (0, -math.inf, False, Notified.NOTHING)
    state.record_failure(fault("network"), 50.0, 5.0, fatal=False)
    assert (state.failures, state.since) == (1, 50.0)


def test_without_a_ladder_only_what_the_service_asked_for_is_waited() -> None:
    def waited(asked: float | None) -> float:
        return wait_after(fault("network", asked), 3, None, 0.5, max_retry_after=HOUR, reprobe_every=None, fatal=False)

    assert (waited(None), waited(5.0), waited(2 * HOUR)) == (0.0, 5.0, HOUR)


def test_without_an_hour_to_ask_again_only_a_person_ends_a_fatal_fault() -> None:
    found = fault("quota_exhausted")
    assert wait_after(found, 0, None, 0.5, max_retry_after=HOUR, reprobe_every=None, fatal=True) == math.inf


def test_of_a_key_that_never_failed_nothing_is_known_but_since_when() -> None:
    state = KeyHealth(5.0)
    assert (state.since, state.until, state.failures, state.fatal) == (5.0, -math.inf, 0, False)
    assert (state.fault, state.notified, state.rest, state.parts) == (None, Notified.NOTHING, FRESH, None)


def test_an_operation_has_a_state_of_its_own_once_it_is_made() -> None:
    state = KeyHealth(5.0)
    assert state.part("read") is None
    made = state.made_part("read", 7.0)
    assert (made.since, made.failures) == (7.0, 0)
    assert state.made_part("read", 9.0) is made
    assert state.part("read") is made
    assert (state.part("write"), state.part(None)) == (None, None)


def test_a_probe_that_proved_nothing_is_free_again() -> None:
    state = KeyHealth(0.0)
    rest = disable(FRESH, until=10.0, by="auto", reason="gone", now=0.0)
    state.rest = reserve_probe(rest, 20.0)
    state.release(21.0, None, 12.0)
    assert state.rest == reserve_probe(rest, 20.0), "it was another's"
    state.release(20.0, None, 12.0)
    assert state.rest == rest


def test_a_fatal_state_may_be_tried_again_at_once_where_its_trial_proved_nothing() -> None:
    state = KeyHealth(0.0)
    part, other = state.made_part("read", 0.0), state.made_part("write", 0.0)
    for each in (state, part, other):
        each.fatal, each.until = True, 30.0
    state.release(31.0, "read", 12.0)
    assert [each.until for each in (state, part, other)] == [30.0, 30.0, 30.0]
    state.release(30.0, "read", 12.0)
    assert [each.until for each in (state, part, other)] == [12.0, 12.0, 30.0]
    mild = KeyHealth(0.0)
    mild.until = 30.0
    mild.release(30.0, "read", 12.0)
    assert mild.until == 30.0, "a wait after failures is no trial"


@pytest.mark.parametrize(
    ("code", "fatal", "refused"),
    [
        ("unauthorized", True, True), ("unauthorized", False, False), ("bad_answer", True, False),
        ("network", False, False), (None, False, False),
    ],
)  # fmt: skip
def test_it_is_refused_after_a_fatal_fault_of_credentials_alone(code: str | None, fatal: bool, refused: bool) -> None:
    state = KeyHealth(0.0)
    state.fatal, state.fault = fatal, None if code is None else fault(code)
    assert state.refused is refused
