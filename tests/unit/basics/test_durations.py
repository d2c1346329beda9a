"""Durations as people write them."""

from __future__ import annotations

import contextlib
import math
import time
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.durations import MAX_SECONDS, brief, seconds


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (30, 30), (1.5, 1.5), ("30s", 30), ("250ms", 0.25), ("3m", 180), ("1h30m", 5400), ("1h 30m", 5400),
        (" 2 d ", 172_800), ("1w", 604_800), ("0s", 0), (timedelta(minutes=2), 120), (MAX_SECONDS, MAX_SECONDS),
    ],
)  # fmt: skip
def test_the_usual_ways_to_write_one(written: Any, meant: float) -> None:
    assert seconds(written) == meant
    assert type(seconds(written)) is float


@pytest.mark.parametrize(
    "written",
    ["", "   ", "30", "s", "-5s", "5 parsecs", "1e3s", "1h, 30m", "5s and more", "9" * 400 + "s", "1s" * 60,
     -1, math.nan, math.inf, 10**400, MAX_SECONDS + 1, timedelta(days=-1), timedelta.max],
)  # fmt: skip
def test_what_is_no_duration_is_refused_by_the_name_of_its_field(written: Any) -> None:
    with pytest.raises(ValueError, match=r"^wait: "):
        seconds(written, field="wait")


@pytest.mark.parametrize("written", [None, True, b"5s", [1]])
def test_what_is_of_another_type_is_a_type_error(written: Any) -> None:
    with pytest.raises(TypeError, match=r"^wait: "):
        seconds(written, field="wait")


def test_a_least_value_is_named_when_it_is_missed() -> None:
    with pytest.raises(ValueError, match="1 seconds"):
        seconds("10ms", minimum=1)


def test_a_very_long_text_is_refused_quickly() -> None:
    started = time.process_time()
    with pytest.raises(ValueError, match="duration"):
        seconds("1" * 1_000_000)
    assert time.process_time() - started < 10


@given(st.text(max_size=30) | st.floats() | st.integers())
def test_it_gives_a_finite_number_of_seconds_or_a_clear_error(written: Any) -> None:
    with contextlib.suppress(ValueError):
        assert 0 <= seconds(written, field="wait") <= MAX_SECONDS


@pytest.mark.parametrize(
    ("value", "written"),
    [(0, "0s"), (0.25, "250ms"), (0.9999, "1s"), (1, "1s"), (59.7, "1m"), (90, "1m30s"), (90_061, "1d1h")],
)
def test_the_shortest_way_to_write_one(value: float, written: str) -> None:
    assert brief(value) == written
