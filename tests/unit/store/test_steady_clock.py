"""What follows from the wall clock and the time since boot: single steps, and any sequence of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.clock import VirtualClock
from tidegate.store.clock import Anchor, ClockReading, SteadyClock, decide
from tidegate.store.clock_steps import (
    CONFIRMED,
    MAX_STEPS,
    SLACK,
    TOLERATED,
    ClockStep,
    correct,
    cutoff,
    with_jump,
    with_step,
)

DAY = 86400.0
T = 1_700_000_000.0


def anchored(boot: float = 0.0, **more: object) -> Anchor:
    anchor, _ = decide(None, ClockReading("a", boot, T + boot))
    return anchor


def store_time(anchor: Anchor, boot: float) -> float:
    return boot + anchor.offset


def test_a_small_correction_is_followed_at_once() -> None:
    anchor, by = decide(anchored(), ClockReading("a", 10, T + 10 + TOLERATED))

    assert (by, store_time(anchor, 10), anchor.held_offset) == (0, T + 15, None)


def test_suspend_is_elapsed_time() -> None:
    anchor, by = decide(anchored(), ClockReading("a", 8 * DAY, T + 8 * DAY))

    assert (by, anchor.held_offset, store_time(anchor, 8 * DAY)) == (0, None, T + 8 * DAY)


def test_a_step_is_not_believed_before_it_has_held_for_ten_minutes() -> None:
    for step in (8 * DAY, -DAY, TOLERATED + 1):
        held, by = decide(anchored(), ClockReading("a", 100, T + 100 + step))
        assert (by, store_time(held, 100)) == (0, T + 100)
        still, by = decide(held, ClockReading("a", 99 + CONFIRMED, T + 99 + CONFIRMED + step))
        assert (by, store_time(still, 99 + CONFIRMED)) == (0, T + 99 + CONFIRMED)
        believed, by = decide(still, ClockReading("a", 100 + CONFIRMED, T + 100 + CONFIRMED + step))
        assert (by, store_time(believed, 0), believed.held_offset) == (step, T + step, None)


def test_a_second_step_starts_the_ten_minutes_again() -> None:
    held, _ = decide(anchored(), ClockReading("a", 100, T + 100 + DAY))
    again, by = decide(held, ClockReading("a", 600, T + 600 + 2 * DAY))

    assert (by, again.held_until, store_time(again, 600)) == (0, 600 + CONFIRMED, T + 600)


def test_a_clock_that_returns_ends_the_episode() -> None:
    held, _ = decide(anchored(), ClockReading("a", 100, T + 100 + DAY))
    back, by = decide(held, ClockReading("a", 145, T + 145))

    assert (by, back.held_offset, back.steps) == (0, None, ())


def test_after_a_reboot_on_a_clock_that_is_ahead_no_age_is_known_until_it_is_corrected() -> None:
    ahead, by = decide(anchored(), ClockReading("b", 30, T + 8 * DAY))
    assert (by, ahead.jumps, ahead.ages_from) == (0, (ClockStep(T + 8 * DAY, 8 * DAY),), 30 + CONFIRMED)

    corrected, by = decide(ahead, ClockReading("b", 60, T + 60))  # NTP, a little later
    assert (by, store_time(corrected, 60), corrected.jumps, corrected.steps) == (30 - 8 * DAY, T + 60, (), ())


def test_a_clock_that_is_right_after_a_reboot_is_trusted_after_ten_minutes() -> None:
    ahead, _ = decide(anchored(), ClockReading("b", 30, T + 8 * DAY))
    still, _ = decide(ahead, ClockReading("b", 29 + CONFIRMED, T + 8 * DAY + CONFIRMED - 1))
    assert still.jumps == ahead.jumps
    trusted, by = decide(still, ClockReading("b", 30 + CONFIRMED, T + 8 * DAY + CONFIRMED))

    assert (by, trusted.jumps, trusted.steps) == (0, (), ())


def test_a_correction_that_leaves_an_hour_starts_the_ten_minutes_again() -> None:
    ahead, _ = decide(anchored(), ClockReading("b", 30, T + 8 * DAY))
    corrected, by = decide(ahead, ClockReading("b", 60, T + 3600 + 30))

    assert by == 3600 - 8 * DAY
    assert (corrected.jumps, corrected.ages_from) == ((ClockStep(T + 3600, 3600),), 60 + CONFIRMED)


@pytest.mark.parametrize("boot_ids", ["abcdef", [""] * 6])  # some platforms have none
@pytest.mark.parametrize("uptime", [5.0, 5000.0])
def test_the_doubt_survives_any_number_of_reboots(boot_ids: list[str], uptime: float) -> None:
    anchor, _ = decide(None, ClockReading(boot_ids[0], 60, T))
    for n, boot_id in enumerate(boot_ids[1:]):
        anchor, _ = decide(anchor, ClockReading(boot_id, 30 if n == 0 else uptime, T + 8 * DAY + 40 * n))
        assert anchor.jumps
    assert (anchor.ages_from, anchor.steps) == (uptime + CONFIRMED, ())


def test_a_reboot_undoes_the_newest_jump_first() -> None:
    jumps = (ClockStep(T + 8 * DAY, 8 * DAY), ClockStep(T + 9 * DAY, 3600.0))
    shifts, remaining = correct(jumps, T + DAY, -8 * DAY)

    assert [(part.by, part.until) for part in shifts] == [
        (-3600.0, T + 9 * DAY - SLACK),
        (3600 - 8 * DAY, T + 8 * DAY - SLACK),
    ]
    assert remaining == (ClockStep(T + 3600, 3600.0),)


def test_a_correction_beyond_the_jump_moves_everything_by_the_rest() -> None:
    shifts, remaining = correct((ClockStep(T + DAY, DAY),), T - DAY, -2 * DAY)

    assert ([part.by for part in shifts], remaining) == ([-DAY, -DAY], ())
    assert (shifts[0].moved(T), shifts[1].moved(T)) == (T, T - DAY)


def test_so_many_jumps_are_merged_that_the_oldest_rows_stay_longest() -> None:
    jumps: tuple[ClockStep, ...] = ()
    for n in range(MAX_STEPS + 5):
        jumps = with_jump(jumps, T + n * DAY, 100.0)

    assert (len(jumps), sum(jump.by for jump in jumps)) == (MAX_STEPS, 100.0 * (MAX_STEPS + 5))
    assert jumps[0] == ClockStep(T + 5 * DAY, 600.0)


def test_a_step_that_is_held_is_still_a_step_after_a_reboot() -> None:
    held, _ = decide(anchored(), ClockReading("a", 100, T + 100 + 8 * DAY))
    anchor, by = decide(held, ClockReading("b", 5, T + 140 + 8 * DAY))

    assert (by, anchor.jumps, anchor.steps) == (8 * DAY, (), (ClockStep(T + 140 + 8 * DAY, 8 * DAY),))


def test_after_a_quick_reboot_ages_are_known_at_once() -> None:
    anchor, by = decide(anchored(), ClockReading("b", 5, T + 40))

    assert (by, anchor.jumps) == (0, ())


def test_after_a_reboot_on_a_clock_that_is_behind_stored_times_move_back() -> None:
    anchor, by = decide(anchored(), ClockReading("b", 5, T - DAY))

    assert (by, store_time(anchor, 5)) == (-DAY, T - DAY)


def test_an_age_is_counted_without_the_steps_forward() -> None:
    steps = (ClockStep(T, 8 * DAY),)

    assert cutoff(T + 60, 7 * DAY, steps) == T + 60 - 7 * DAY - 8 * DAY
    assert cutoff(T + 7 * DAY, 7 * DAY, steps) == T
    assert cutoff(T + 8 * DAY, 7 * DAY, steps) == T + DAY


def test_a_step_that_is_undone_no_longer_counts() -> None:
    assert with_step((ClockStep(T + 8 * DAY, 8 * DAY),), T + 60, -8 * DAY) == ()


def test_what_is_left_of_a_step_that_is_undone_in_part_still_counts() -> None:
    assert with_step((ClockStep(T + 26 * DAY, 26 * DAY),), T + 7 * DAY, -19 * DAY) == (ClockStep(T + 7 * DAY, 7 * DAY),)


@given(
    st.lists(st.tuples(st.floats(1, 5 * DAY), st.floats(-30 * DAY, 30 * DAY)), max_size=8),
    st.floats(60, 40 * DAY),
)
def test_nothing_is_ever_older_than_the_time_that_has_passed(moves: list[tuple[float, float]], age: float) -> None:
    """A row that is written at any moment is not older than *age* before that much time has passed."""
    clock, written = VirtualClock(T), list[tuple[float, float]]()  # elapsed time and label of each row
    steady = SteadyClock(clock)
    for wait, step in [(1.0, 0.0), *moves, (1.0, 0.0)]:
        written.append((clock.monotonic(), steady.now()))
        clock.advance(wait)
        before = steady.older_than(age)
        assert all(label >= before - 1e-3 for at, label in written if clock.monotonic() - at < age - 2 * TOLERATED)
        clock.step_wall(step)
        for _ in range(2):  # it is looked at while it is held, and after
            before = steady.older_than(age)
            assert all(label >= before - 1e-3 for at, label in written if clock.monotonic() - at < age - 2 * TOLERATED)
            clock.advance(CONFIRMED / 2 + 1)


@given(st.lists(st.tuples(st.floats(1, 500), st.floats(-30 * DAY, 30 * DAY)), max_size=8))
def test_time_goes_on_whatever_the_wall_clock_does_for_less_than_ten_minutes(
    moves: list[tuple[float, float]],
) -> None:
    clock = VirtualClock(T)
    steady, off = SteadyClock(clock), 0.0
    steady.now()
    for wait, step in moves:
        clock.step_wall(step - off)
        off = step
        steady.now()
        clock.advance(min(wait, CONFIRMED - 1))
        assert abs(steady.now() - (T + clock.monotonic())) <= TOLERATED * (len(moves) + 1)
        clock.step_wall(-off)
        off = 0.0
        steady.now()
