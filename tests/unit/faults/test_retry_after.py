"""How long a service asks us to wait: two legal forms, one of OpenAI, and everything that servers really send."""

from __future__ import annotations

import pytest

from tidegate.faults.classification import classify
from tidegate.faults.heuristics import retry_after

DATE = "Sun, 06 Nov 1994 08:49:37 GMT"
UNIX = 784111777.0
LATER = "Sun, 06 Nov 1994 08:51:37 GMT"  # two minutes

# Retry-After, retry-after-ms, the answer's Date, now -> seconds
TABLE = {
    "seconds": ("120", None, None, None, 120.0),
    "seconds between spaces": ("  120 ", None, None, None, 120.0),
    "a fraction": ("1.5", None, None, None, 1.5),
    "a tenth": ("0.1", None, None, None, 0.1),
    "zero": ("0", None, None, None, None),
    "zero with a fraction": ("0.000", None, None, None, None),
    "negative": ("-5", None, None, None, None),
    "with a sign": ("+5", None, None, None, None),
    "nothing": ("", None, None, None, None),
    "spaces": ("   ", None, None, None, None),
    "a word": ("soon", None, None, None, None),
    "a unit": ("5s", None, None, None, None),
    "an exponent": ("1e3", None, None, None, None),
    "infinity": ("inf", None, None, None, None),
    "not a number": ("nan", None, None, None, None),
    "underscores": ("1_000", None, None, None, None),
    "two numbers": ("1, 2", None, None, None, None),
    "hexadecimal": ("0x10", None, None, None, None),
    "Arabic digits": ("١٢٠", None, None, None, None),
    "fullwidth digits": ("\uff11\uff12\uff10", None, None, None, None),
    "superscript": ("5²", None, None, None, None),
    "thirty years": ("999999999", None, None, None, 999999999.0),
    "longer than all of history": ("9" * 40, None, None, None, None),
    "a megabyte of digits": ("9" * 1_000_000, None, None, None, None),
    "a date against the answer's own": (LATER, None, DATE, None, 120.0),
    "a date against the answer's own, not ours": (LATER, None, DATE, UNIX + 9999, 120.0),
    "a date against now": (LATER, None, None, UNIX + 60, 60.0),
    "a date against nothing": (LATER, None, None, None, None),
    "a date against a broken date": (LATER, None, "yesterday", UNIX + 60, 60.0),
    "the same date": (DATE, None, DATE, None, None),
    "a past date": (DATE, None, LATER, None, None),
    "the older form": ("Sunday, 06-Nov-94 08:51:37 GMT", None, DATE, None, 120.0),
    "the oldest form": ("Sun Nov  6 08:51:37 1994", None, DATE, None, 120.0),
    "a zone of its own": ("Sun, 06 Nov 1994 09:51:37 +0100", None, DATE, None, 120.0),
    "an unknown zone": ("Sun, 06 Nov 1994 08:51:37 -0000", None, DATE, None, 120.0),
    "the end of time": ("Fri, 31 Dec 9999 23:59:59 GMT", None, DATE, None, 253402300799.0 - UNIX),
    "no such day": ("Sun, 66 Nov 1994 08:51:37 GMT", None, DATE, None, None),
    "no such zone": ("Sun, 06 Nov 1994 08:51:37 +9999", None, DATE, None, None),
    "a date in Arabic digits": ("Sun, ٠٦ Nov 1994 08:51:37 GMT", None, DATE, None, None),
    "half a date": ("06 Nov", None, DATE, None, None),
    "a date without a time": ("06 Nov 1999", None, DATE, None, None),
    "a date and a story": (LATER + " " + "x" * 100, None, DATE, None, None),
    "milliseconds": (None, "1500", None, None, 1.5),
    "a fraction of a millisecond": (None, "0.5", None, None, 0.0005),
    "milliseconds before seconds": ("60", "1500", None, None, 1.5),
    "zero milliseconds": ("60", "0", None, None, 60.0),
    "negative milliseconds": ("60", "-1", None, None, 60.0),
    "milliseconds that are none": ("60", "soon", None, None, 60.0),
    "neither": (None, None, None, None, None),
}


@pytest.mark.parametrize(
    ("value", "milliseconds", "date", "now", "seconds"), TABLE.values(), ids=[name.replace(" ", "-") for name in TABLE]
)
def test_a_wait_is_read_or_ignored(
    value: str | None, milliseconds: str | None, date: str | None, now: float | None, seconds: float | None
) -> None:
    assert retry_after(value, milliseconds=milliseconds, date=date, now=now) == seconds


class Answer:
    def __init__(self, status: int, **headers: str | bytes) -> None:
        self.status_code = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


@pytest.mark.parametrize(
    ("answer", "seconds"),
    [
        (Answer(429, Retry_After="7"), 7.0),
        (Answer(429, RETRY_AFTER="7"), 7.0),
        (Answer(429, retry_after=b"7"), 7.0),
        (Answer(503, Retry_After=LATER, Date=DATE), 120.0),
        (Answer(429, retry_after_ms="250"), 0.25),
        (Answer(503), None),
        (Answer(503, Retry_After="-1"), None),
    ],
)
def test_the_fault_carries_what_the_answer_asks_for(answer: Answer, seconds: float | None) -> None:
    assert (fault := classify(answer)) is not None
    assert fault.retry_after == seconds


def test_a_date_without_a_date_beside_it_needs_to_know_what_time_it_is() -> None:
    answer = Answer(503, Retry_After=LATER)

    assert [fault and fault.retry_after for fault in (classify(answer), classify(answer, now=UNIX))] == [None, 120.0]
