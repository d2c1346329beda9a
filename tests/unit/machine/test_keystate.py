"""The state of one key: what it holds, and for how long."""

from __future__ import annotations

import math

import pytest

from tidegate import Backoff, Fault
from tidegate.core.codes import CORE
from tidegate.machine.gate import EndedBy, HoldReason
from tidegate.machine.keystate import KeyState, Told, wait_after

HOUR = 3600.0


def fault(code: str, retry_after: float | None = None) -> Fault:
    return CORE[code].fault("test", retry_after=retry_after)


def wait(found: Fault, failures: int = 0, *, fatal: bool | None = None) -> float:
    is_fatal = found.fatal if fatal is None else fatal
    return wait_after(found, failures, Backoff.sync(), 0.5, most_asked=HOUR, reprobe=HOUR, fatal=is_fatal)


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
    state = KeyState(0.0)
    state.failed(fault("network"), 10.0, 30.0, fatal=False)
    state.failed(fault("network"), 50.0, 60.0, fatal=False)
    (hold,) = state.holds(60.0)

    assert (hold.reason, hold.since, hold.until, hold.ended_by) == (HoldReason.BACKOFF, 10.0, 110.0, EndedBy.TIME)
    assert (hold.code, hold.message) == ("network", "The service could not be reached.")
    assert not list(state.holds(110.0))


@pytest.mark.parametrize(
    ("code", "asked", "reason"),
    [("rate_limited", 60, "retry_after"), ("overloaded", 60, "retry_after"), ("rate_limited", None, "backoff"),
     ("network", 60, "backoff")],
)  # fmt: skip
def test_a_wait_that_the_service_asked_for_is_called_so(code: str, asked: float | None, reason: str) -> None:
    state = KeyState(0.0)
    state.failed(fault(code, asked), 0.0, 60.0, fatal=False)

    assert [str(hold.reason) for hold in state.holds(1.0)] == [reason]


def test_a_success_ends_the_run_and_says_what_people_had_been_told() -> None:
    state = KeyState(0.0)
    state.failed(fault("unauthorized"), 0.0, math.inf, fatal=True)
    state.told |= Told.FATAL

    assert state.recovered() is Told.FATAL
    assert state.healthy
    assert not list(state.holds(1.0))
