"""What a row of the shared breaker keeps when it moves, field by field."""

from __future__ import annotations

import pytest

from tests.unit.targets.test_breaker import CLOSED, HALF_OPEN, OPEN, played, policy
from tidegate.guard import Counts
from tidegate.guard.limits import AdaptiveLimit, LimitPhase, ramp_limit
from tidegate.targets.breaker import (
    StoredBreaker,
    advance,
    close,
    counts,
    endless,
    force_open,
    half_open,
    is_ramping,
    outage_at_trial,
    record_probe,
    record_rejected,
    record_results,
)


def test_when_it_last_closed_and_its_run_are_kept_while_it_is_open_and_half_open() -> None:
    row = StoredBreaker(closed_at=5.0, run=7)
    shut = force_open(row, 10.0, 130.0)
    half = half_open(shut, 130.0)

    assert (shut.closed_at, shut.run) == (half.closed_at, half.run) == (5.0, 7)


def test_a_failure_while_half_open_is_one_more_in_a_row() -> None:
    row = record_results(StoredBreaker(state=HALF_OPEN, run=7), policy(), [(False, 0)], 1.0)

    assert (row.state, row.run) == (OPEN, 8)


def test_a_trial_is_known_by_its_outage_until_one_succeeds() -> None:
    first = half_open(force_open(StoredBreaker(), 10.0, 20.0), 20.0)
    assert [outage_at_trial(row, 25.0) for row in (StoredBreaker(), force_open(StoredBreaker(), 10.0, 20.0))] == [
        None
    ] * 2
    assert outage_at_trial(first, 25.0) == 15.0

    # One fails, and one that was admitted with it succeeds later: the next trials are those of a service that works.
    shut = record_results(first, policy(), [(False, first.generation)], 30.0)
    answered = record_results(shut, policy(), [(True, first.generation)], 31.0)
    silent = record_results(shut, policy(), [(True, first.generation - 2)], 31.0)
    assert [outage_at_trial(half_open(row, 60.0), 60.0) for row in (shut, answered, silent)] == [50.0, None, 50.0]

    # Nothing succeeds any more: it is an outage again.
    again = half_open(record_results(half_open(answered, 60.0), policy(), [(False, 4)], 65.0), 90.0)
    assert outage_at_trial(again, 90.0) == 80.0
    assert outage_at_trial(half_open(close(again, 95.0), 95.0), 95.0) == 0.0


def test_a_success_in_the_same_half_open_state_shows_that_the_service_works() -> None:
    half = half_open(force_open(StoredBreaker(), 10.0, 20.0), 20.0)

    assert outage_at_trial(record_results(half, policy(), [(True, half.generation)], 21.0), 21.0) is None


def test_a_probe_makes_it_half_open_from_that_moment_on() -> None:
    assert record_probe(force_open(StoredBreaker(), 1.0, None), 5.0).since == 5.0


def test_the_same_move_is_counted_each_time() -> None:
    row = StoredBreaker()
    for at in (1.0, 2.0, 3.0):
        row = close(force_open(row, at, None), at)

    assert row.transitions == ((CLOSED, OPEN, 3), (OPEN, CLOSED, 3))


def test_the_counts_of_a_row_are_those_of_its_window() -> None:
    row = StoredBreaker(buckets=((0.0, 5, 2), (10.0, 4, 1)), run=1)

    assert counts(row) == Counts(9, 6, 3, 0, 1)


@pytest.mark.parametrize("window", [None, 60])
def test_counts_from_before_the_clock_was_set_back_leave_after_an_interval_as_any_others(window: float | None) -> None:
    rules = policy(window=window, min_requests=1000)
    row = played(StoredBreaker(), rules, "FFF", 10_000.0)
    row = played(row, rules, "F", 1000.0)
    assert counts(row).failures == 4

    assert counts(played(row, rules, "F", 1060.0)).failures == 1


def test_only_one_that_is_open_for_a_probe_is_open_without_an_end() -> None:
    assert endless(force_open(StoredBreaker(), 1.0, None))
    assert not endless(force_open(StoredBreaker(), 1.0, 100.0))
    assert not endless(force_open(StoredBreaker(), 1.0, None, by="ada"))
    assert not endless(StoredBreaker())


def test_a_bucket_of_the_window_takes_what_comes_within_a_tenth_of_it() -> None:
    row, rules = StoredBreaker(), policy(window=100, min_requests=1000)
    for now, letter in ((20.0, "S"), (25.0, "F"), (29.9, "S"), (30.0, "F"), (39.0, "F"), (40.0, "S")):
        row = played(row, rules, letter, now)

    assert row.buckets == ((20.0, 3, 1), (30.0, 2, 2), (40.0, 1, 0))


def test_a_bucket_is_not_younger_for_being_full() -> None:
    row, rules = StoredBreaker(), policy(window=100, min_requests=1000)
    for now in (1.0, 1.0, 1.0, 11.5):
        row = played(row, rules, "S", now)

    assert row.buckets == ((1.0, 3, 0), (11.5, 1, 0))


def test_the_next_step_of_its_climb_is_kept() -> None:
    row = close(StoredBreaker(state=HALF_OPEN), 50.0)

    assert advance(row, 50.0) is row
    assert advance(row, 56.0).adaptive_limit == AdaptiveLimit(most=2, since=56.0)


def test_without_a_limit_it_opens_as_long_as_it_climbs_and_no_longer() -> None:
    resting = AdaptiveLimit(phase=LimitPhase.STEADY, most=8, since=0.0)

    assert is_ramping(StoredBreaker(adaptive_limit=resting, closed_at=0.0), None, 900.0)
    assert is_ramping(StoredBreaker(adaptive_limit=resting), None, 1.0)
    assert not is_ramping(StoredBreaker(closed_at=0.0), None, 1.0)


@pytest.mark.parametrize(("age", "allowed"), [(-5.0, 1), (0.0, 1), (0.0625, 1), (0.125, 2), (59.75, 598), (60.0, 600)])
def test_where_a_limit_is_named_one_call_is_the_first(age: float, allowed: int) -> None:
    assert ramp_limit(600, 100.0, 100.0 + age) == allowed


def test_when_no_call_was_rejected_the_row_stays_as_it_is() -> None:
    row = StoredBreaker(state=OPEN)

    assert record_rejected(row, 0) is row
    assert record_rejected(row, 2).totals == (0, 0, 2)
