"""Outages as people write them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.simulation.outage import LEAD, FailureMode, FailurePeriod, Outage

HOUR = 3600.0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2h down", [FailurePeriod(start=LEAD, end=LEAD + 2 * HOUR)]),
        ("2h down at 1h", [FailurePeriod(start=HOUR, end=3 * HOUR)]),
        ("1h30m hang at 0s", [FailurePeriod(start=0, end=1.5 * HOUR, ill=FailureMode.HANG)]),
        ("1h 30% errors at 0s", [FailurePeriod(start=0, end=HOUR, ill=FailureMode.STATUS, status=500, share=0.3)]),
        ("1h 2.5 % down at 0s", [FailurePeriod(start=0, end=HOUR, share=0.025)]),
        ("1h 503 at 0s", [FailurePeriod(start=0, end=HOUR, ill=FailureMode.STATUS, status=503)]),
        (
            "1h 429 retry-after 10m at 0s",
            [FailurePeriod(start=0, end=HOUR, ill=FailureMode.STATUS, status=429, retry_after=600)],
        ),
        ("1H DOWN AT 1H", [FailurePeriod(start=HOUR, end=2 * HOUR)]),
        (
            "1h down at 1h, 30m 401, 1h down at 5h",
            [
                FailurePeriod(start=HOUR, end=2 * HOUR),
                FailurePeriod(start=2 * HOUR, end=2.5 * HOUR, ill=FailureMode.STATUS, status=401),
                FailurePeriod(start=5 * HOUR, end=6 * HOUR),
            ],
        ),
        ("none", []),
        ("", []),
    ],
)
def test_a_text_becomes_troubles(text: str, expected: list[FailurePeriod]) -> None:
    assert list(Outage.parse(text).troubles) == expected


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("down", "'2h down'"),
        ("2h sleepy", "'2h sleepy' is not understood"),
        ("2h 200", "400 to 599"),
        ("2h 0% errors", "0%"),
        ("2h 101% errors", "101% is not a valid percentage"),
        ("2h 1.2.3% errors", "1.2.3% is not a valid percentage"),
        ("2h down retry-after 5m", "retry-after"),
        ("0s down", "0.001 seconds"),
        ("2h down,", "'' is not understood"),
    ],
)
def test_a_text_that_is_none_says_what_is_allowed(text: str, told: str) -> None:
    with pytest.raises(ValueError, match="outage: ") as raised:
        Outage.parse(text)

    assert told in str(raised.value)


@given(st.text(alphabet="0123456789.%hmsd ,-aerotynwucigf", max_size=40))
def test_any_text_is_an_outage_or_a_value_error(text: str) -> None:
    try:
        outage = Outage.parse(text)
    except ValueError:
        return
    assert all(each.start < each.end for each in outage.troubles)


def test_trouble_begins_at_its_start_and_is_over_at_its_end() -> None:
    outage = Outage.parse("1h down at 1h")

    assert [outage.trouble(at, 0.0) is not None for at in (3599.9, 3600, 7199.9, 7200)] == [False, True, True, False]


def test_a_share_is_decided_by_the_roll() -> None:
    outage = Outage.parse("1h 30% errors at 0s")

    assert [outage.trouble(0, roll) is not None for roll in (0.0, 0.29, 0.3, 0.99)] == [True, True, False, False]


def test_an_outage_says_itself_in_words() -> None:
    outage = Outage.parse("2h down, 1h 30% errors, 30m 429 retry-after 5m, 1m hang")

    assert re.findall(r"\d+[hm%]?", outage.label) == ["2h", "1h", "30%", "500", "30m", "429", "5m", "1m"]
    assert (outage.start, outage.end) == (LEAD, LEAD + 3.5 * HOUR + 60)
    assert (Outage().label, Outage().start, Outage().end) == ("no outage", None, None)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"start": 5.0, "end": 5.0}, "end"),
        ({"start": 0.0, "end": 1.0, "share": 0.0}, "share"),
        ({"start": 0.0, "end": 1.0, "ill": FailureMode.STATUS, "status": 200}, "status"),
        ({"start": 0.0, "end": 1.0, "retry_after": 5.0}, "retry_after"),
    ],
)
def test_a_trouble_that_cannot_be_is_refused(wrong: dict[str, float], field: str) -> None:
    with pytest.raises(ValueError, match=f"FailurePeriod.{field}"):
        FailurePeriod(**wrong)  # type: ignore[arg-type]
