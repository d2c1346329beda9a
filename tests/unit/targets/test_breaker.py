from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.guard.forms import Clock, play
from tidegate import Breaker
from tidegate.guard.breaker_policy import BreakerPolicy, OpenedBy, TripReason
from tidegate.guard.limits import UNLIMITED, AdaptiveLimit, LimitPhase
from tidegate.targets import breaker as target_breaker
from tidegate.targets.breaker import (
    StoredBreaker,
    advance,
    close,
    force_open,
    half_open_slots,
    record_probe,
    record_results,
)

CLOSED, HALF_OPEN, OPEN = "closed", "half-open", "open"


def policy(**numbers: Any) -> BreakerPolicy:
    given: dict[str, Any] = {
        "name": "gateway", "max_requests": 3, "interval": 60, "timeout": 120, "min_requests": 10, "failure_ratio": 0.6,
        "consecutive": None, "window": None, "trip": None, "on_state_change": None, "counts_as_failure": None,
        "permit_timeout": 60, **numbers,
    }  # fmt: skip
    return BreakerPolicy(**given)


def played(row: StoredBreaker, rules: BreakerPolicy, script: str, now: float = 0.0) -> StoredBreaker:
    """One result per letter, S(uccess) or F(ailure), each of the generation that is current."""
    for letter in script:
        row = record_results(row, rules, [(letter == "S", row.generation)], now)
    return row


@pytest.mark.req("BRK-01")
@pytest.mark.parametrize(
    ("script", "state"),
    [
        ("F" * 9, CLOSED), ("F" * 10, OPEN), ("SSSS" + "F" * 6, OPEN), ("SSSSS" + "F" * 5, CLOSED),
        ("F" * 6 + "SSSS", CLOSED), ("F" * 6 + "SSSS" + "F", OPEN), ("S" * 100, CLOSED), ("", CLOSED),
    ],
)  # fmt: skip
def test_it_trips_by_the_ratio_and_is_asked_on_a_failure(script: str, state: str) -> None:
    assert played(StoredBreaker(), policy(), script).state == state


@pytest.mark.req("BRK-01")
@pytest.mark.parametrize(
    ("script", "state"), [("FFFF", CLOSED), ("FFFFF", OPEN), ("FFFFSFFFF", CLOSED), ("SFFFFF", OPEN)]
)
def test_it_trips_after_so_many_failures_in_a_row(script: str, state: str) -> None:
    assert played(StoredBreaker(), policy(consecutive=5), script).state == state


def test_failures_in_a_row_are_counted_across_intervals() -> None:
    row, rules = StoredBreaker(), policy(consecutive=5)

    for n in range(4):
        row = played(row, rules, "F", now=n * 1000.0)
    assert row.state == CLOSED
    assert played(row, rules, "F", now=9000.0).state == OPEN


def test_counts_are_cleared_each_interval() -> None:
    rules = policy()
    row = played(StoredBreaker(), rules, "F" * 9, now=0.0)

    assert played(row, rules, "F", now=59.9).state == OPEN
    assert played(row, rules, "F", now=60.0).state == CLOSED


def test_a_rule_of_ones_own_takes_the_place_of_the_ratio() -> None:
    rules = policy(trip=lambda counts: counts.failures >= 2 and counts.requests >= 4)

    assert played(StoredBreaker(), rules, "FFF").state == CLOSED
    assert played(StoredBreaker(), rules, "FFFF").state == OPEN


@pytest.mark.req("BRK-02")
def test_open_lets_nothing_through_until_its_time_is_over() -> None:
    rules = policy(consecutive=1)
    row = played(StoredBreaker(), rules, "F", now=10.0)

    assert (row.state, row.since, row.until, row.generation) == (OPEN, 10.0, 130.0, 1)
    assert half_open_slots(row, rules, 0) == 0
    assert advance(row, 129.9) is row
    half = advance(row, 130.0)
    assert (half.state, half.since, half.until, half.generation) == (HALF_OPEN, 130.0, None, 2)


def test_without_a_timeout_only_a_probe_ends_it() -> None:
    rules = policy(consecutive=1, timeout=None)
    row = played(StoredBreaker(), rules, "F")

    assert row.until is None
    assert advance(row, 1e12).state == OPEN
    assert record_probe(row, 5.0).state == HALF_OPEN


def test_a_probe_opens_no_breaker_that_a_person_shut_and_closes_none() -> None:
    forced = force_open(StoredBreaker(), 1.0, 100.0, by="ada")

    assert record_probe(forced, 5.0) is forced
    assert advance(forced, 100.0).state == HALF_OPEN
    for state in (CLOSED, HALF_OPEN):
        row = StoredBreaker(state=state)
        assert record_probe(row, 5.0) is row


@pytest.mark.req("BRK-03")
@pytest.mark.parametrize(
    ("good", "under_way", "left"), [(0, 0, 3), (0, 2, 1), (0, 3, 0), (1, 1, 1), (2, 0, 1), (2, 1, 0), (0, 9, 0)]
)
def test_half_open_lets_through_what_is_left_of_its_permits(good: int, under_way: int, left: int) -> None:
    assert half_open_slots(StoredBreaker(state=HALF_OPEN, good=good), policy(), under_way) == left


def test_closed_lets_everything_through() -> None:
    assert half_open_slots(StoredBreaker(), policy(), 1_000_000) == UNLIMITED


@pytest.mark.req("BRK-03")
@pytest.mark.parametrize(
    ("script", "state"), [("S", HALF_OPEN), ("SS", HALF_OPEN), ("SSS", CLOSED), ("F", OPEN), ("SSF", OPEN)]
)
def test_half_open_closes_after_its_successes_and_opens_at_a_failure(script: str, state: str) -> None:
    row = played(StoredBreaker(state=HALF_OPEN, generation=5), policy(), script, now=7.0)

    assert row.state == state
    assert row.generation == (5 if state == HALF_OPEN else 6)
    assert row.closed_at == (7.0 if state == CLOSED else None)
    assert row.until == (127.0 if state == OPEN else None)


@pytest.mark.req("BRK-04")
@pytest.mark.parametrize("state", [CLOSED, HALF_OPEN, OPEN])
@pytest.mark.parametrize("ok", [True, False])
@pytest.mark.parametrize("generation", [0, 4, 6, 99])
def test_a_result_of_another_generation_changes_nothing_but_the_totals(state: str, ok: bool, generation: int) -> None:
    row = StoredBreaker(state=state, generation=5, run=2, good=1, buckets=((0.0, 3, 2),), totals=(1, 2, 3))

    found = record_results(row, policy(consecutive=1), [(ok, generation)] * 20, 1.0)

    assert found == replace(row, totals=(21, 2, 3) if ok else (1, 22, 3))


@pytest.mark.req("BRK-08")
@pytest.mark.parametrize(
    ("numbers", "script", "why"),
    [
        ({"consecutive": 3}, "SFFF", TripReason(rule=OpenedBy.CONSECUTIVE, run=3, requests=4, failures=3)),
        (
            {"min_requests": 4, "failure_ratio": 0.5},
            "SSFF",
            TripReason(rule=OpenedBy.RATIO, run=2, requests=4, failures=2),
        ),
        (
            {"trip": lambda seen: seen.failures > 1},
            "FSF",
            TripReason(rule=OpenedBy.RULE, run=1, requests=3, failures=2),
        ),
    ],
)
def test_an_open_breaker_knows_which_rule_opened_it_and_what_was_counted(
    numbers: dict[str, Any], script: str, why: TripReason
) -> None:
    rules = policy(**numbers)
    row = played(StoredBreaker(), rules, script)
    assert row.opened == why
    assert StoredBreaker.load(row.state, row.generation, row.since, row.until, row.closed_at, row.dump()) == row

    trial = advance(row, 1e6)
    assert trial.opened is None
    again = record_results(trial, rules, [(False, trial.generation)], 1e6)
    assert again.opened == TripReason(rule=OpenedBy.HALF_OPEN, run=why.run + 1)
    assert close(again, 1e6).opened is None
    assert force_open(StoredBreaker(), 1.0, 100.0, by="ada").opened == TripReason(rule=OpenedBy.PERSON)


def test_a_rule_that_only_a_newer_program_knows_is_none() -> None:
    row = StoredBreaker.load(OPEN, 1, 0.0, None, None, '{"opened": {"rule": "moon", "phase": 3}}')

    assert row.opened is None
    known = StoredBreaker.load(OPEN, 1, 0.0, None, None, '{"opened": {"rule": "probe", "phase": 3}}')
    assert known.opened == TripReason(rule=OpenedBy.PROBE)


def test_totals_and_moves_are_kept_through_every_move_and_only_grow() -> None:
    rules = policy(consecutive=2, max_requests=1)

    row = record_results(StoredBreaker(), rules, [(True, 0), (False, 0), (False, 0), (False, 0)], 1.0)
    assert (row.state, row.totals, row.transitions) == (OPEN, (1, 3, 0), ((CLOSED, OPEN, 1),))
    row = target_breaker.record_rejected(row, 5)
    row = advance(row, 1e6)
    row = record_results(row, rules, [(False, row.generation)], 1e6)
    row = force_open(row, 1e6, None, by="ada")  # it was open, so that is no move
    row = close(row, 1e6)

    assert row.totals == (1, 4, 5)
    assert row.transitions == ((CLOSED, OPEN, 1), (HALF_OPEN, OPEN, 1), (OPEN, CLOSED, 1), (OPEN, HALF_OPEN, 1))
    again = StoredBreaker.load(row.state, row.generation, row.since, row.until, row.closed_at, row.dump())
    assert again == row


def test_of_a_batch_only_those_before_the_trip_count() -> None:
    rules = policy(consecutive=2)

    row = record_results(StoredBreaker(), rules, [(False, 0)] * 10, 1.0)

    assert (row.state, row.generation, row.run) == (OPEN, 1, 2)


def test_a_closed_breaker_starts_with_clean_counts() -> None:
    row = close(StoredBreaker(state=HALF_OPEN, generation=3, run=7, good=2, buckets=((0.0, 9, 9),)), 50.0)

    moves = ((HALF_OPEN, CLOSED, 1),)
    assert row == StoredBreaker(
        state=CLOSED,
        generation=4,
        since=50.0,
        closed_at=50.0,
        transitions=moves,
        adaptive_limit=AdaptiveLimit(since=50.0),
    )


@given(
    st.builds(
        StoredBreaker,
        state=st.sampled_from([CLOSED, HALF_OPEN, OPEN]),
        generation=st.integers(0, 10**9),
        since=st.floats(0, 1e10),
        until=st.none() | st.floats(0, 1e10),
        closed_at=st.none() | st.floats(0, 1e10),
        buckets=st.lists(st.tuples(st.floats(0, 1e10), st.integers(0, 99), st.integers(0, 99)), max_size=10).map(tuple),
        run=st.integers(0, 99),
        good=st.integers(0, 99),
        by=st.none() | st.text(max_size=9),
        good_generation=st.none() | st.integers(0, 10**9),
        trial_key=st.text(max_size=9),
        adaptive_limit=st.none()
        | st.builds(
            AdaptiveLimit, phase=st.sampled_from(LimitPhase), most=st.integers(1, 999), since=st.floats(0, 1e10)
        ),
    )
)
def test_a_row_comes_back_from_the_store_as_it_was(row: StoredBreaker) -> None:
    kept = row.dump()

    assert StoredBreaker.load(row.state, row.generation, row.since, row.until, row.closed_at, kept) == row


def test_a_row_of_a_store_that_knows_no_counts_is_empty() -> None:
    assert StoredBreaker.load(CLOSED, 0, 0.0, None, None, "{}") == StoredBreaker()


Step = tuple[bool, float]


@settings(max_examples=300)
@given(
    steps=st.lists(st.tuples(st.booleans(), st.sampled_from([0.0, 1.0, 30.0, 130.0])), max_size=60),
    consecutive=st.none() | st.integers(1, 4),
    least=st.integers(1, 6),
    ratio=st.sampled_from([0.3, 0.5, 0.6, 1.0]),
    permits=st.integers(1, 3),
)
def test_one_call_at_a_time_it_does_what_the_breaker_in_memory_does(
    steps: list[Step], consecutive: int | None, least: int, ratio: float, permits: int
) -> None:
    numbers: dict[str, Any] = {
        "interval": 0, "consecutive": consecutive, "min_requests": least, "failure_ratio": ratio,
        "max_requests": permits,
    }  # fmt: skip
    clock = Clock()
    breaker, row, rules = Breaker("gateway", clock=clock, **numbers), StoredBreaker(), policy(**numbers)

    for ok, pause in steps:
        clock.now += pause
        answer = play(breaker, "S" if ok else "F")
        row = advance(row, clock.now)
        assert (half_open_slots(row, rules, 0) > 0) == (answer in "SF")
        if answer in "SF":
            row = record_results(row, rules, [(ok, row.generation)], clock.now)
        assert row.state == breaker.state
        if row.state == CLOSED:
            mine, memory = target_breaker.counts(row), breaker.counts
            assert (mine.requests, mine.failures) == (memory.requests, memory.failures)


@settings(max_examples=200)
@given(st.lists(st.tuples(st.booleans(), st.floats(0.1, 40)), min_size=1, max_size=60))
def test_a_sliding_window_counts_what_is_younger_and_forgets_what_is_older(steps: list[Step]) -> None:
    rules = policy(window=100, min_requests=1000)
    row, now, made = StoredBreaker(), 0.0, list[tuple[float, bool]]()

    for ok, pause in steps:
        now += pause
        row = record_results(row, rules, [(ok, 0)], now)
        made.append((now, ok))
        counts = target_breaker.counts(row)
        surely = [each for each in made if now - each[0] < 90]
        perhaps = [each for each in made if now - each[0] < 100]
        assert len(surely) <= counts.requests <= len(perhaps)
        assert sum(not each for _, each in surely) <= counts.failures <= sum(not each for _, each in perhaps)
        assert len(row.buckets) <= 11


@settings(max_examples=200)
@given(st.lists(st.tuples(st.booleans(), st.integers(-3, 3), st.integers(0, 4)), max_size=80))
def test_half_open_never_has_more_under_way_and_good_than_its_permits(steps: list[tuple[bool, int, int]]) -> None:
    """Calls overlap, and their results come in any order, some of them of generations long gone."""
    rules = policy(consecutive=2, timeout=5)
    row, now, out = StoredBreaker(), 0.0, list[int]()

    for ok, pick, pause in steps:
        now += pause
        row = advance(row, now)
        under_way = sum(generation == row.generation for generation in out)
        if half_open_slots(row, rules, under_way) > 0:
            out.append(row.generation)
        if row.state == HALF_OPEN:
            assert sum(each == row.generation for each in out) + row.good <= 3
        if out and pick >= 0:
            row = record_results(row, rules, [(ok, out.pop(pick % len(out)))], now)


def test_a_generation_never_comes_again() -> None:
    rules, row, seen, now = policy(consecutive=1, timeout=1, max_requests=1), StoredBreaker(), {0}, 0.0

    for letter in "FSFFS" * 20:
        now += 2
        row = advance(row, now)
        row = played(row, rules, letter, now)
        assert row.generation >= max(seen)
        seen.add(row.generation)
    assert replace(row, generation=0) != row


def test_one_that_has_closed_climbs_and_knows_no_limit_when_that_is_over() -> None:
    row = close(StoredBreaker(state=HALF_OPEN), 50.0)

    assert [target_breaker.concurrency_limit(row, None, at) for at in (50.0, 55.9, 56.0)] == [1, 1, 2]
    assert target_breaker.is_ramping(row, None, 50.0)
    for step in range(1, 11):
        row = advance(row, 50.0 + 6.0 * step)
    assert (
        row.adaptive_limit,
        target_breaker.concurrency_limit(row, None, 110.0),
        target_breaker.is_ramping(row, None, 110.0),
    ) == (
        None,
        UNLIMITED,
        False,
    )


def test_where_a_limit_is_named_it_grows_to_that_over_a_minute() -> None:
    row = close(StoredBreaker(state=HALF_OPEN), 50.0)

    assert [target_breaker.concurrency_limit(row, 30, at) for at in (50.0, 52.0, 80.0, 109.0, 110.0, 999.0)] == [
        1,
        1,
        15,
        30,
        30,
        30,
    ]
    assert [target_breaker.is_ramping(row, 30, at) for at in (50.0, 109.9, 110.0)] == [True, True, False]
    never = StoredBreaker()
    assert (target_breaker.concurrency_limit(never, 30, 5.0), target_breaker.is_ramping(never, 30, 5.0)) == (30, False)
    assert (target_breaker.concurrency_limit(never, None, 5.0), target_breaker.is_ramping(never, None, 5.0)) == (
        UNLIMITED,
        False,
    )


def test_only_good_answers_that_it_let_through_itself_are_counted_for_its_climb() -> None:
    row = close(StoredBreaker(state=HALF_OPEN, generation=3), 50.0)

    row = record_results(row, policy(), [(True, 4), (True, 4), (False, 4), (True, 3)], 51.0)

    assert row.adaptive_limit == AdaptiveLimit(since=50.0, good=2)
    assert record_results(row, policy(consecutive=1), [(False, 4)], 52.0).adaptive_limit is None  # open


def test_what_held_it_back_is_noted_once_and_only_while_it_climbs() -> None:
    row = close(StoredBreaker(state=HALF_OPEN), 50.0)

    held = target_breaker.mark_limited(row)
    assert held.adaptive_limit == AdaptiveLimit(since=50.0, bound=True)
    assert target_breaker.mark_limited(held) is held
    assert target_breaker.mark_limited(StoredBreaker()) == StoredBreaker()


def test_one_that_was_held_by_something_else_climbs_too_unless_it_does_already() -> None:
    assert target_breaker.restart_limit(StoredBreaker(), 7.0) == StoredBreaker(adaptive_limit=AdaptiveLimit(since=7.0))
    climbing = close(StoredBreaker(state=HALF_OPEN), 5.0)
    assert target_breaker.restart_limit(climbing, 7.0) is climbing
    for state in (OPEN, HALF_OPEN):
        assert target_breaker.restart_limit(StoredBreaker(state=state), 7.0).adaptive_limit is None


def test_a_clock_that_is_set_back_begins_the_gentle_opening_again() -> None:
    row = close(StoredBreaker(), 5000.0)
    assert target_breaker.concurrency_limit(row, 60, 4000.0) == 1

    later = advance(row, 4000.0)

    assert [target_breaker.concurrency_limit(later, 60, 4000.0 + age) for age in (0.0, 30.0, 60.0)] == [1, 30, 60]
    assert later.adaptive_limit is not None
    assert later.adaptive_limit.since == 4000.0
