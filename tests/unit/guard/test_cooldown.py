"""Cooldown: a run per code, a rest, one probe at its end."""

from __future__ import annotations

import pytest

from tidegate import Cooldown, Fault
from tidegate.faults.codes import CORE
from tidegate.guard.cooldown import (
    FRESH,
    PROBE_TIME,
    CooldownChange,
    CooldownState,
    admits,
    disable,
    record_failure,
    record_success,
    release_probe,
    reserve_probe,
)

FEEDS = Cooldown.feeds()
HOUR = 3600.0


def fault(code: str) -> Fault:
    return CORE[code].fault("test")


def after(*codes: str, rest: CooldownState = FRESH, at: float = 0.0) -> CooldownState:
    for code in codes:
        rest, _ = record_failure(rest, FEEDS, fault(code), at)
    return rest


@pytest.mark.req("FEED-04", "FEED-05")
@pytest.mark.parametrize(
    ("code", "times", "hours"),
    [("forbidden", 5, 24), ("not_found", 3, 48), ("gone", 1, 72), ("upstream_failure", 10, 6), ("network", 10, 12),
     ("parse_error", 5, 24)],
)  # fmt: skip
def test_each_type_rests_after_its_own_number_of_failures_for_its_own_time(code: str, times: int, hours: float) -> None:
    before = after(*[code] * (times - 1), at=100.0)
    rest, change = record_failure(before, FEEDS, fault(code), 100.0)

    assert not before.disabled
    assert (change, rest.until, rest.reason, rest.by) == (CooldownChange.DISABLED, 100.0 + hours * HOUR, code, "auto")
    assert not admits(rest, 100.0 + hours * HOUR - 0.001)
    assert admits(rest, 100.0 + hours * HOUR)


@pytest.mark.req("FEED-04")
@pytest.mark.parametrize("code", ["rate_limited", "unexpected"])
def test_throttling_and_the_unexpected_never_disable(code: str) -> None:
    assert not after(*[code] * 1000).disabled


@pytest.mark.req("FEED-04")
def test_another_type_starts_a_new_run() -> None:
    assert not after("not_found", "upstream_failure", "not_found", "upstream_failure", "not_found").disabled
    assert after("not_found", "upstream_failure", *["not_found"] * 3).disabled


@pytest.mark.req("FEED-04")
@pytest.mark.parametrize("between", ["rate_limited", "cancelled", "own_disk"])
def test_throttled_cancelled_and_own_faults_neither_count_nor_break_a_run(between: str) -> None:
    assert after("not_found", between, "not_found", between, "not_found").disabled
    assert not after("not_found", between, "not_found", between).disabled


@pytest.mark.req("FEED-04")
def test_an_unexpected_failure_starts_a_new_run() -> None:
    assert not after("not_found", "not_found", "unexpected", "not_found", "not_found").disabled


@pytest.mark.req("FEED-04")
def test_codes_that_are_one_type_make_one_run() -> None:
    assert after(*["network", "timeout", "cut_short", "network", "timeout"] * 2).reason == "network"
    assert after(*["overloaded", "upstream_failure"] * 5).until == 6 * HOUR


@pytest.mark.req("FEED-10")
def test_one_probe_goes_at_the_end_and_another_only_when_its_time_is_over() -> None:
    rest = after("gone")
    end = 72 * HOUR
    probed = reserve_probe(rest, end + PROBE_TIME)

    assert admits(rest, end)
    assert not admits(probed, end)
    assert admits(probed, end + PROBE_TIME)
    assert admits(release_probe(probed), end)


@pytest.mark.req("FEED-10")
def test_a_success_after_the_rest_enables_and_forgets_the_run() -> None:
    assert record_success(after("gone"), 72 * HOUR) == (FRESH, CooldownChange.ENABLED)
    assert record_success(after("not_found", "not_found"), 1.0) == (FRESH, CooldownChange.NONE)


@pytest.mark.req("FEED-10")
@pytest.mark.parametrize(("code", "hours"), [("not_found", 48), ("upstream_failure", 6), ("gone", 72)])
def test_a_probe_that_fails_rests_again_at_once_with_the_rest_of_its_own_type(code: str, hours: float) -> None:
    end = 72 * HOUR
    rest, change = record_failure(reserve_probe(after("gone"), end + PROBE_TIME), FEEDS, fault(code), end)

    assert (change, rest.until, rest.reason) == (CooldownChange.DISABLED, end + hours * HOUR, code)


@pytest.mark.req("FEED-10")
@pytest.mark.parametrize("code", ["rate_limited", "unexpected"])
def test_a_probe_that_is_throttled_or_unexpected_stays_on_probation(code: str) -> None:
    end = 72 * HOUR
    rest, change = record_failure(reserve_probe(after("gone"), end + PROBE_TIME), FEEDS, fault(code), end)

    assert (change, rest.disabled, admits(rest, end)) == (CooldownChange.NONE, True, True)
    assert record_failure(rest, FEEDS, fault("not_found"), end)[1] is CooldownChange.DISABLED


def test_what_a_person_disabled_without_an_end_no_outcome_and_no_time_enables() -> None:
    manual = disable(FRESH, until=None, by="anna", reason="manual", now=5.0)

    assert not admits(manual, 1e12)
    assert record_success(manual, 10.0) == (manual, CooldownChange.NONE)
    assert record_failure(manual, FEEDS, fault("gone"), 10.0) == (manual, CooldownChange.NONE)
    assert (manual.by, manual.reason) == ("anna", "manual")


def test_a_late_answer_does_not_end_a_rest_before_its_time() -> None:
    manual = disable(FRESH, until=100.0, by="anna", reason="manual", now=5.0)

    assert record_success(manual, 10.0) == (manual, CooldownChange.NONE)
    assert record_success(after("gone"), 10.0)[0].disabled
    assert record_success(manual, 100.0) == (FRESH, CooldownChange.ENABLED)


def test_a_late_failure_does_not_lengthen_a_rest_that_has_begun() -> None:
    rest = after("gone")

    assert record_failure(rest, FEEDS, fault("gone"), 10.0) == (rest, CooldownChange.NONE)


def test_the_methods_of_a_rest_do_what_the_functions_do() -> None:
    rest = after("gone")
    end = 72 * HOUR
    assert (FRESH.admits(0.0), rest.admits(end - 1), rest.admits(end)) == (True, False, True)
    assert rest.after_success(end) == (FRESH, CooldownChange.ENABLED)
    assert FRESH.after_fault(FEEDS, fault("gone"), 0.0) == (rest, CooldownChange.DISABLED)


def test_a_late_success_forgets_the_run_and_leaves_the_rest() -> None:
    rest, change = record_success(after("gone"), 10.0)
    assert (rest.failing_code, rest.failing_count, rest.until, change) == (None, 0, 72 * HOUR, CooldownChange.NONE)


def test_who_disables_a_key_takes_its_probe_back() -> None:
    probed = reserve_probe(after("gone"), 72 * HOUR + PROBE_TIME)
    manual = disable(probed, until=10.0, by="anna", reason="moving", now=5.0)
    assert (manual.disabled_at, manual.until, manual.by, manual.reason) == (5.0, 10.0, "anna", "moving")
    assert manual.admits(10.0)


def test_what_has_no_probe_out_is_given_back_as_it_is() -> None:
    rest = after("gone")
    assert release_probe(rest) is rest
