"""What counts as growth, on made series."""

from __future__ import annotations

import math
import random

import pytest

from tests.soak.slope import HOUR, Kind, Line, judged, lowest

Points = list[tuple[float, float]]
LEVEL = 120.0  # megabytes


def series(value: object, minutes: float = 60, noise: float = 0.0, seed: int = 1) -> Points:
    """A sample every 10 s of a function of the seconds; noise only adds, as memory in use does."""
    assert callable(value)
    dice = random.Random(seed)
    return [(10.0 * n, value(10.0 * n) + noise * dice.random() ** 2) for n in range(int(minutes * 6))]


def flat(_: float) -> float:
    return LEVEL


def warming(at: float) -> float:
    return LEVEL - 60 * math.exp(-at / 150)


def leak(an_hour: float) -> object:
    return lambda at: LEVEL + an_hour * at / HOUR


def step(at: float) -> object:
    return lambda now: LEVEL + (20 if now > at * 60 else 0)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("minutes", [30, 60])
def test_what_is_flat_does_not_grow_however_noisy_it_is(minutes: int, seed: int) -> None:
    assert not judged(series(flat, minutes), Kind.SHARE).grows
    assert not judged(series(flat, minutes, noise=15, seed=seed), Kind.SHARE).grows
    assert not judged(series(warming, minutes, noise=5, seed=seed), Kind.SHARE).grows


@pytest.mark.parametrize("seed", range(20))
def test_a_leak_is_found_under_noise(seed: int) -> None:
    found = judged(series(leak(12), noise=5, seed=seed), Kind.SHARE)

    assert found.grows
    assert found.per_hour == pytest.approx(12, rel=0.4)
    assert judged(series(leak(2.5)), Kind.SHARE).grows
    assert not judged(series(leak(1.0)), Kind.SHARE).grows  # less than one in a hundred


@pytest.mark.parametrize("at", [1, 20, 29, 31, 37, 44, 46, 52, 59])
def test_a_step_is_no_leak_whenever_it_comes(at: int) -> None:
    assert not judged(series(step(at), noise=3), Kind.SHARE).grows


def test_handles_must_not_rise_by_one() -> None:
    def handles(at: float) -> float:
        return 30 + (at // 10) % 4

    assert not judged(series(handles), Kind.EXACT).grows
    assert not judged(series(lambda at: handles(at) + 9 * (at % 600 > 300)), Kind.EXACT).grows
    assert judged(series(lambda at: handles(at) + (at > 45 * 60)), Kind.EXACT).grows


def test_what_goes_up_and_down_must_stay_within_its_bounds() -> None:
    def wal(at: float) -> float:
        return at % 300

    assert not judged(series(wal), Kind.BOUNDED).grows
    assert judged(series(lambda at: wal(at) + at / 10), Kind.BOUNDED).grows
    assert judged(series(lambda at: wal(at) + at / 10 + 9000 * (at < 60)), Kind.BOUNDED).grows  # whatever starting took


@pytest.mark.parametrize("seed", range(20))
def test_a_pool_may_be_used_more_and_less_but_none_of_it_may_stay_away(seed: int) -> None:
    dice = random.Random(seed)
    used = [dice.randrange(9) for _ in range(12)]  # connections, by five minutes: a pool shrinks late

    def pool(at: float) -> float:
        return 30 + used[int(at // 300)]

    def leaking(at: float) -> float:
        return pool(at) + at // 60

    assert not judged(series(pool), Kind.POOL).grows
    assert judged(series(leaking), Kind.POOL).grows
    assert judged(series(lambda at: 30 + at // 400), Kind.POOL).grows  # slowly, from a pool that does nothing else
    assert judged(series(lambda at: pool(at) + 20 * (at > 3000)), Kind.POOL).grows


def test_what_is_kept_on_purpose_is_only_shown() -> None:
    found = judged(series(leak(500)), Kind.KEPT)

    assert (found.grows, round(found.per_hour)) == (False, 500)


def test_a_handful_of_samples_is_no_verdict() -> None:
    with pytest.raises(ValueError, match="too few"):
        judged(series(flat, minutes=1), Kind.SHARE)


def test_a_line_goes_through_its_points() -> None:
    line = Line.through([(0, 1), (1, 3), (2, 5)])

    assert (line.level, line.slope, line.error) == (3, 2, 0)
    assert not Line.through([(0, 1), (1, 9)]).rises(0)


def test_the_lowest_points_are_one_of_each_part() -> None:
    assert lowest([(float(n), float(-n % 3)) for n in range(9)], 3) == [(0, 0), (3, 0), (6, 0)]
    assert len(lowest([(0.0, 1.0), (1.0, 1.0)], 6)) == 2
