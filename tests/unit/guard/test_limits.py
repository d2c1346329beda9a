"""How a target that has come back is given more, and when that ends."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.guard.limits import STEP_SECONDS, TOP, AdaptiveLimit, LimitPhase, advance, mark_limited, record_success

REST, TRIAL = 48.0, 12.0


def over(
    phase: LimitPhase, most: int, good: int, *, rate: float, lasted: float, bound: bool = True
) -> AdaptiveLimit | None:
    """What follows a step that began at 100 and brought so many answers."""
    return advance(
        AdaptiveLimit(phase=phase, most=most, since=100.0, good=good, bound=bound, rate=rate), 100.0 + lasted
    )


def test_it_begins_with_one_and_doubles_smoothly() -> None:
    climb = AdaptiveLimit(since=0.0)

    assert [climb.allowed(at) for at in (-5.0, 0.0, 5.9, 6.0, 60.0)] == [1, 1, 1, 2, 2]
    eight = AdaptiveLimit(most=8, since=0.0)
    assert [eight.allowed(at) for at in (0.0, 2.0, 4.0, 6.0)] == [8, 10, 12, 16]
    assert [AdaptiveLimit(most=256, since=9.0).allowed(at) for at in (9.0, 9.1)] == [256, 258]


def test_a_step_that_is_not_over_goes_on() -> None:
    for phase, lasts in {
        LimitPhase.SLOW_START: STEP_SECONDS,
        LimitPhase.STEADY: REST,
        LimitPhase.PROBING: TRIAL,
    }.items():
        climb = AdaptiveLimit(phase=phase, most=4, since=100.0, good=50, bound=True, rate=1.0)
        assert all(advance(climb, at) is climb for at in (100.0, 100.5, 100.0 + lasts - 0.01))
        assert advance(climb, 100.0 + lasts) != climb


def test_a_clock_that_is_set_back_begins_the_step_again_and_does_not_prolong_it() -> None:
    climb = AdaptiveLimit(phase=LimitPhase.STEADY, most=4, since=100.0, good=50, bound=True, rate=1.0)
    assert advance(climb, 40.0) == AdaptiveLimit(
        phase=LimitPhase.STEADY, most=4, since=40.0, good=50, bound=True, rate=1.0
    )


def test_a_doubling_that_brings_a_quarter_more_is_followed_by_another() -> None:
    assert over(LimitPhase.SLOW_START, 8, 75, rate=10.0, lasted=STEP_SECONDS) == AdaptiveLimit(
        most=16, since=106.0, rate=12.5
    )


def test_a_doubling_that_brings_less_ends_with_what_it_began_with() -> None:
    rests = over(LimitPhase.SLOW_START, 8, 74, rate=10.0, lasted=STEP_SECONDS)

    assert rests == AdaptiveLimit(phase=LimitPhase.STEADY, most=8, since=106.0, rate=74 / 6)
    assert rests.allowed(110.0) == 8


@pytest.mark.parametrize(("good", "rate"), [(19, 100.0), (0, 5.0), (500, 0.0)])
def test_from_few_answers_or_without_a_step_before_nothing_is_told(good: int, rate: float) -> None:
    assert over(LimitPhase.SLOW_START, 8, good, rate=rate, lasted=STEP_SECONDS) == AdaptiveLimit(
        most=16, since=106.0, rate=good / 6
    )


def test_twenty_answers_are_enough() -> None:
    found = over(LimitPhase.SLOW_START, 8, 20, rate=100.0, lasted=STEP_SECONDS)
    assert found is not None
    assert found.phase is LimitPhase.STEADY


@pytest.mark.parametrize("phase", LimitPhase)
def test_where_nothing_was_held_back_it_goes_on_as_if_nothing_were_known(phase: LimitPhase) -> None:
    found = over(phase, 8, 500, rate=1000.0, lasted=max(REST, TRIAL) + 1, bound=False)
    assert found == AdaptiveLimit(most=TOP, since=149.0) or found is None  # eight steps of six seconds have passed
    assert over(LimitPhase.SLOW_START, 8, 500, rate=1000.0, lasted=2 * STEP_SECONDS, bound=False) == AdaptiveLimit(
        most=32, since=112.0
    )


def test_above_the_top_there_is_no_limit() -> None:
    assert over(LimitPhase.SLOW_START, TOP // 2, 0, rate=0.0, lasted=STEP_SECONDS) is None
    assert over(LimitPhase.SLOW_START, TOP // 4, 0, rate=0.0, lasted=STEP_SECONDS) == AdaptiveLimit(
        most=TOP // 2, since=106.0
    )
    assert over(LimitPhase.SLOW_START, 1, 0, rate=0.0, lasted=1e9, bound=False) is None


def test_after_a_rest_a_quarter_more_is_tried() -> None:
    tries = over(LimitPhase.STEADY, 8, 960, rate=12.0, lasted=REST)

    assert tries == AdaptiveLimit(phase=LimitPhase.PROBING, most=8, since=148.0, rate=20.0)
    assert tries.allowed(148.0) == tries.allowed(159.0) == 10


@pytest.mark.parametrize(("good", "most"), [(960, 8), (480, 8), (479, 4)])
def test_what_brings_less_than_half_of_what_it_brought_is_halved(good: int, most: int) -> None:
    found = over(LimitPhase.STEADY, 8, good, rate=20.0, lasted=REST)
    assert found is not None
    assert (found.phase, found.most) == (LimitPhase.PROBING, most)


def test_what_was_halved_is_tried_from_now_on_and_what_it_brings_is_not_known() -> None:
    assert over(LimitPhase.STEADY, 9, 479, rate=20.0, lasted=REST) == AdaptiveLimit(
        phase=LimitPhase.PROBING, most=4, since=148.0
    )


def test_one_is_not_halved() -> None:
    found = over(LimitPhase.STEADY, 1, 0, rate=20.0, lasted=REST)
    assert found is not None
    assert found.most == 1


def test_a_trial_that_brings_more_is_kept_and_followed_by_another() -> None:
    # 120 were expected: a tenth more, and what chance may add.
    assert over(LimitPhase.PROBING, 8, 149, rate=10.0, lasted=TRIAL) == AdaptiveLimit(
        phase=LimitPhase.PROBING, most=10, since=112.0, rate=149 / 12
    )
    assert over(LimitPhase.PROBING, 8, 148, rate=10.0, lasted=TRIAL) == AdaptiveLimit(
        phase=LimitPhase.STEADY, most=8, since=112.0, rate=10.0
    )


@pytest.mark.parametrize(("good", "phase"), [(34, LimitPhase.STEADY), (35, LimitPhase.PROBING)])
def test_a_trial_that_brings_just_what_chance_may_add_has_brought_more(good: int, phase: LimitPhase) -> None:
    found = over(LimitPhase.PROBING, 8, good, rate=2.0, lasted=12.5)  # 25 were expected
    assert found is not None
    assert found.phase is phase


def test_what_was_seen_is_counted() -> None:
    climb = AdaptiveLimit(since=0.0)

    assert record_success(climb, 0) is climb
    assert record_success(record_success(climb, 3), 4).good == 7
    assert mark_limited(climb) == AdaptiveLimit(since=0.0, bound=True)
    held = mark_limited(climb)
    assert mark_limited(held) is held


@given(
    st.builds(
        AdaptiveLimit, phase=st.sampled_from(LimitPhase), most=st.integers(1, TOP), since=st.floats(0, 1e10),
        good=st.integers(0, 10**9), bound=st.booleans(), rate=st.floats(0, 1e6),
    )
)  # fmt: skip
def test_it_comes_back_from_the_store_as_it_was(climb: AdaptiveLimit) -> None:
    assert AdaptiveLimit.load(json.loads(json.dumps(climb.dump()))) == climb


def played(bears: Callable[[float], float], seconds: int, per: float = 0.1) -> list[tuple[float, int, float]]:
    """Moment, what is allowed and what comes back each second, with always more to do than may go.

    So many a second as are under way, by the time that one takes, and never more than it *bears*.
    """
    climb: AdaptiveLimit | None = AdaptiveLimit(since=0.0)
    seen = []
    for second in range(seconds):
        at = float(second)
        climb = None if climb is None else advance(climb, at)
        allowed = 10 * TOP if climb is None else climb.allowed(at)
        good = min(allowed / per, bears(at))
        seen.append((at, allowed, good))
        climb = None if climb is None else mark_limited(record_success(climb, round(good)))
    return seen


@pytest.mark.parametrize("bears", [10.0, 33.0, 100.0, 170.0, 500.0, 3000.0])
def test_it_finds_what_a_target_bears_and_stays_below_four_times_that(bears: float) -> None:
    seen = played(lambda _: bears, 3600)

    needed = bears * 0.1
    assert max(allowed for _, allowed, _ in seen) <= max(4, 5 * needed)
    settled = [(allowed, good) for at, allowed, good in seen if at >= 60]
    assert all(allowed <= max(3, 3.5 * needed) for allowed, _ in settled)
    assert all(good >= 0.95 * bears for _, good in settled)
    # Never twice as many from one second to the next.
    assert all(b <= 1.3 * a + 1 for (_, a, _), (_, b, _) in itertools.pairwise(seen))


def test_a_target_that_gets_better_is_given_more() -> None:
    seen = played(lambda at: 20.0 if at < 300 else 200.0, 900)

    assert all(good == 20 for at, _, good in seen if 60 < at < 300)
    assert seen[-1][2] >= 180


def test_a_target_that_bears_everything_has_no_limit_after_a_minute() -> None:
    seen = played(lambda _: 1e9, 120)

    assert seen[59][1] <= TOP
    assert seen[-1][1] == 10 * TOP
