"""Wrong numbers are refused at construction, with the field and what is allowed; errors say why and until when."""

from __future__ import annotations

import copy
import pickle
import re
from datetime import timedelta
from typing import Any

import pytest

from tests.unit.guard.forms import Clock, opened, play
from tidegate import Breaker, BreakerOpen, Held, TidegateError, TooManyRequests
from tidegate.guard.breaker_counts import LockedCounter
from tidegate.testing import VirtualClock

WHOLE = "1 to 1000000000"
SHARE = " 0 "
NUMBERS: list[tuple[str, Any, type[Exception], str]] = [
    ("name", "", ValueError, "1 to 200"),
    ("name", "x" * 201, ValueError, "1 to 200"),
    ("name", "two\nlines", ValueError, "1 to 200"),
    ("name", " padded", ValueError, "' padded'"),
    ("name", None, TypeError, "None"),
    ("max_requests", 0, ValueError, WHOLE),
    ("max_requests", -1, ValueError, WHOLE),
    ("max_requests", 2.5, ValueError, WHOLE),
    ("max_requests", True, ValueError, WHOLE),
    ("max_requests", "3", ValueError, WHOLE),
    ("min_requests", 0, ValueError, WHOLE),
    ("min_requests", 10**10, ValueError, WHOLE),
    ("consecutive", 0, ValueError, WHOLE),
    ("consecutive", 1.0, ValueError, WHOLE),
    ("failure_ratio", 0, ValueError, SHARE),
    ("failure_ratio", 1.01, ValueError, SHARE),
    ("failure_ratio", 60, ValueError, SHARE),
    ("failure_ratio", float("nan"), ValueError, SHARE),
    ("failure_ratio", "0.6", ValueError, SHARE),
    ("interval", -1, ValueError, "0 seconds"),
    ("interval", float("inf"), ValueError, "0 seconds"),
    ("interval", "a minute", ValueError, "'30s'"),
    ("interval", None, TypeError, "None"),
    ("timeout", 0, ValueError, "0.001 seconds"),
    ("timeout", "-5s", ValueError, "'30s'"),
    ("timeout", timedelta(seconds=-1), ValueError, "0.001 seconds"),
    ("window", 0, ValueError, "0.01 seconds"),
    ("window", [60], TypeError, "[60]"),
    ("permit_timeout", 0, ValueError, "0.001 seconds"),
    ("permit_timeout", "soon", ValueError, "soon"),
    ("max_timeout", 119, ValueError, "119 s is below the timeout of 120 s"),
    ("growth", 1.5, ValueError, "from 0 to 1"),
    ("trip", 0.6, TypeError, "0.6"),
    ("on_state_change", "log", TypeError, "'log'"),
    ("counts_as_failure", OSError(), TypeError, "OSError()"),
    ("counts_as_failure", OSError, TypeError, "lambda e: isinstance(e, OSError)"),
    ("clock", VirtualClock(), TypeError, "VirtualClock"),
]


@pytest.mark.req("BRK-11")
@pytest.mark.parametrize(("field", "value", "kind", "allowed"), NUMBERS)
def test_a_wrong_number_is_refused_with_its_field_and_what_is_allowed(
    field: str, value: object, kind: type[Exception], allowed: str
) -> None:
    with pytest.raises(kind) as refused:
        Breaker(**{"name": "api", field: value})  # type: ignore[arg-type]
    assert str(refused.value).startswith(f"{field}: ")
    assert allowed in str(refused.value)


@pytest.mark.req("BRK-11")
def test_durations_are_taken_as_people_write_them() -> None:
    breaker = Breaker("api", interval="1m", timeout=timedelta(minutes=2), permit_timeout="90s", window="1h30m")
    policy = breaker.policy
    assert (policy.interval, policy.timeout, policy.permit_timeout, policy.window) == (60.0, 120.0, 90.0, 5400.0)


@pytest.mark.req("BRK-01", "BRK-02", "BRK-03", "BRK-11")
def test_the_defaults_are_the_seeds_numbers() -> None:
    policy = Breaker("api").policy
    assert (policy.max_requests, policy.interval, policy.timeout) == (3, 60.0, 120.0)
    assert (policy.min_requests, policy.failure_ratio, policy.consecutive, policy.window) == (10, 0.6, None, None)


@pytest.mark.parametrize(
    ("held", "text"),
    [
        (BreakerOpen("api", None, "breaker", 0, 120, 120), r"api .*\(breaker open\).* 2 min"),
        (BreakerOpen("api", None, "breaker", 0, 0, 0), r"api .*\(breaker open\).* 0 ms"),
        (
            BreakerOpen("api", None, "breaker", 1.7e9, 1.7e9 + 61, 60.2),
            "61 s.*2023-11-14 22:14:21 UTC",
        ),
        (
            BreakerOpen("api", None, "breaker", 0, None, None),
            r"api .*\(breaker open\)",
        ),
        (
            TooManyRequests("api", None, "breaker", 0, 60, 0.25),
            r"api .*\(breaker half-open.* 250 ms",
        ),
        (Held("feed", 4711, "cooldown", 0, 9, 172_800), r"feed \(key 4711\) .*\(cooldown\).* 48 h"),
        (Held("feed", "a", "backoff", 0, 9, 150), r"feed \(key 'a'\) .*\(backoff\).* 3 min"),
        (Held("feed", None, "paused", 0, 9, 864_001), r"feed .*\(paused\).* 11 days"),
    ],
)
def test_a_call_that_was_not_made_says_who_why_and_when(held: Held, text: str) -> None:
    assert re.search(text, str(held))


@pytest.mark.req("BRK-02", "BRK-03")
def test_both_errors_are_held_survive_pickling_and_copying_and_are_no_errors_of_the_service() -> None:
    clock = Clock(5.0)
    breaker = opened(clock, max_requests=1)
    refusals: list[Held] = []
    for now in (5.0, 125.0):
        clock.now = now
        breaker.allow()
        with pytest.raises(Held) as refused:
            breaker.call(int)
        refusals.append(refused.value)
    assert [type(each) for each in refusals] == [BreakerOpen, TooManyRequests]
    for held in refusals:
        for twin in (pickle.loads(pickle.dumps(held)), copy.copy(held), copy.deepcopy(held)):
            assert type(twin) is type(held)
            assert str(twin) == str(held)
            for field in ("target", "key", "reason", "since", "until", "retry_after"):
                assert getattr(twin, field) == getattr(held, field)
    assert issubclass(Held, TidegateError)
    assert not issubclass(Held, OSError)


def test_a_refusal_is_a_new_error_each_time_so_no_traceback_grows() -> None:
    breaker = opened(Clock())
    depths = []
    for _ in range(3):
        with pytest.raises(BreakerOpen) as refused:
            breaker.call(int)
        depths.append(len(refused.traceback))
    assert len(set(depths)) == 1


def test_without_the_gil_a_countdown_with_a_lock_does_the_same() -> None:
    steps = LockedCounter()
    before = steps.__length_hint__()
    for _ in range(5):
        next(steps)
    assert before - steps.__length_hint__() == 5


def test_two_breakers_of_one_name_do_not_share_their_state() -> None:
    clock = Clock()
    first = opened(clock)
    second = Breaker("api", consecutive=1, clock=clock)
    assert (first.state, second.state) == ("open", "closed")
    assert play(second, "S") == "S"
