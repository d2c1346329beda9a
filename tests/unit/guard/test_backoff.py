"""How long to wait: the three profiles by their exact numbers, lists, own numbers, and a bound that always holds."""

from __future__ import annotations

import math
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate import Backoff
from tidegate.guard import Add

NO_JITTER = 0.5  # the middle of +-


@pytest.mark.req("SYNC-05")
@pytest.mark.parametrize(
    ("failures", "middle"),
    [(0, 30), (1, 60), (2, 120), (3, 240), (4, 480), (5, 960), (6, 1800), (7, 1800), (5000, 1800)],
)
def test_the_sync_profile_is_30_s_doubling_to_30_min_with_a_quarter_of_jitter(failures: int, middle: float) -> None:
    sync = Backoff.sync()

    assert sync.delay(failures, 0.0) == middle * 0.75
    assert sync.delay(failures, NO_JITTER) == middle
    assert middle * 1.2499 < sync.delay(failures, 0.99999) < middle * 1.25
    assert sync.bound == 37.5 * 60
    assert Backoff("30s", cap="30m") == sync


@pytest.mark.req("LID-12")
@pytest.mark.parametrize(
    ("attempts", "least"), [(1, 60), (2, 120), (3, 240), (4, 480), (5, 960), (6, 1920), (7, 3600), (100, 3600)]
)
def test_the_submission_profile_adds_up_to_a_minute_and_never_passes_an_hour(attempts: int, least: float) -> None:
    submission = Backoff.submission()

    assert submission.delay(attempts - 1, 0.0) == least
    assert submission.delay(attempts - 1, 0.5) == min(least + 30, 3600)
    assert submission.delay(attempts - 1, 0.999999) < least + 60 or least == 3600
    assert submission.bound == 3600


@pytest.mark.parametrize(("failures", "middle"), [(0, 5), (1, 15), (2, 45), (3, 45), (99, 45)])
def test_the_conversion_profile_is_5_15_45_s_with_a_fifth_of_jitter(failures: int, middle: float) -> None:
    conversion = Backoff.conversion()

    assert conversion.delay(failures, 0.0) == pytest.approx(middle * 0.8)
    assert conversion.delay(failures, NO_JITTER) == middle
    assert conversion.delay(failures, 0.9999999) == pytest.approx(middle * 1.2)
    assert conversion.bound == pytest.approx(54)


@given(
    base=st.floats(0, 1e6),
    over=st.floats(0, 1e6),
    factor=st.floats(1, 1000),
    jitter=st.floats(0, 1) | st.builds(lambda lo, more: Add(lo, lo + more), st.floats(0, 1e5), st.floats(0, 1e5)),
    failures=st.integers(0, 10**30),
    roll=st.floats(0, 1, exclude_max=True),
)
def test_no_delay_is_ever_above_the_stated_bound_or_below_nothing(
    base: float, over: float, factor: float, jitter: Any, failures: int, roll: float
) -> None:
    backoff = Backoff(base, cap=base + over, factor=factor, jitter=jitter)

    assert 0 <= backoff.delay(failures, roll) <= backoff.bound < math.inf
    assert 0 <= backoff.delay(failures) <= backoff.bound


@given(base=st.floats(0.001, 100), times=st.floats(1, 1e6), factor=st.floats(1.01, 3), failures=st.integers(0, 3000))
def test_the_ladder_never_falls_and_its_top_is_the_cap_however_slowly_it_climbs(
    base: float, times: float, factor: float, failures: int
) -> None:
    backoff = Backoff(base, cap=base * times, factor=factor, jitter=0)

    assert backoff.grown(failures) <= backoff.grown(failures + 1)
    assert backoff.grown(3000) == backoff.cap


def test_no_wait_at_all_stays_none_whatever_the_number_of_failures() -> None:
    assert Backoff(0, cap=10).delay(10_000) == 0


def test_the_cap_is_reached_where_the_ladder_before_jitter_reaches_it() -> None:
    assert [Backoff.sync().at_cap(n) for n in (0, 5, 6, 7)] == [False, False, True, True]
    assert [Backoff.listed(5, 45, 15).at_cap(n) for n in (0, 1, 2)] == [False, True, False]
    assert not Backoff(30, cap=30).at_cap(100), "a constant wait has nothing to climb to"


def test_a_list_gives_its_waits_one_by_one_and_then_the_last_one() -> None:
    listed = Backoff.listed("1s", 10, "1m")

    assert [listed.delay(n) for n in range(5)] == [1, 10, 60, 60, 60]
    assert repr(listed) == "Backoff.listed(1, 10, 60, jitter=0.0)"


def test_two_of_the_same_numbers_are_equal_and_survive_a_pickle() -> None:
    assert pickle.loads(pickle.dumps(Backoff.submission())) == Backoff("1m", cap="1h", jitter=Add("0s", "1m"))
    assert len({Backoff.sync(), Backoff(30, cap=1800)}) == 1
    assert Backoff.sync() != Backoff.conversion()
    assert repr(Backoff.sync()) == "Backoff(30, cap=1800, factor=2, jitter=0.25)"


@pytest.mark.parametrize(
    ("numbers", "field"),
    [
        ({"base": -1}, "Backoff.base"),
        ({"base": "soon"}, "Backoff.base"),
        ({"base": math.nan}, "Backoff.base"),
        ({"base": 10**400}, "Backoff.base"),
        ({"base": 60, "cap": 30}, "Backoff.cap"),
        ({"cap": math.inf}, "Backoff.cap"),
        ({"cap": 1e300}, "Backoff.cap"),
        ({"factor": 0.5}, "Backoff.factor"),
        ({"factor": math.nan}, "Backoff.factor"),
        ({"factor": True}, "Backoff.factor"),
        ({"jitter": 1.5}, "Backoff.jitter"),
        ({"jitter": -0.1}, "Backoff.jitter"),
        ({"jitter": "a bit"}, "Backoff.jitter"),
    ],
)
def test_wrong_numbers_are_refused_by_the_name_of_the_field(numbers: dict[str, Any], field: str) -> None:
    with pytest.raises(ValueError, match=f"^{field}\\b"):
        Backoff(**numbers)


def test_wrong_lists_and_wrong_questions_are_refused_too() -> None:
    with pytest.raises(ValueError, match=r"Backoff\.listed"):
        Backoff.listed()
    with pytest.raises(ValueError, match=r"Backoff\.listed\[1\]"):
        Backoff.listed(1, -1)
    with pytest.raises(ValueError, match=r"Add\.hi"):
        Add(5, 1)
    with pytest.raises(ValueError, match="failures"):
        Backoff.sync().delay(-1)
