"""A verdict is cheap: many a second, at most 4 kB of anything looked at, and linear in what it is given."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from bench.classify import TYPED, per_second
from tidegate.faults.classification import classify
from tidegate.faults.evidence import MAX_BODY, Evidence
from tidegate.faults.rule import Pack, Rule

MEGABYTE = 1_000_000
WORST = (
    " ", "\n", "1", "status ", "status status ", "://", "http:", "<lfm ", "<lfm><error code=", "token=\"", "token\\",
    "key'", "\\", "?u=", "'u': ", "a@://", "Bearer ", "returned an http error ", "é", "İ", "\x00", "{", "[[", "a=b&",
)  # fmt: skip


def turn() -> float:
    """Seconds of the processor for one turn of a loop: 40 ns where 30,000 verdicts a second are asked for."""

    def loop() -> float:
        start, total = time.process_time(), 0
        for n in range(100_000):
            total += n
        return time.process_time() - start

    return min(loop() for _ in range(5)) / 100_000


@pytest.mark.alone
@pytest.mark.parametrize("make", TYPED.values(), ids=TYPED)
def test_a_typed_failure_is_judged_many_thousand_times_a_second(make: Callable[[], BaseException]) -> None:
    # A quarter of what an idle machine does, so that only a mistake turns this red; `make bench` has the numbers.
    assert 1 / per_second(make(), verdicts=5_000, rounds=5) <= 800 * turn()


@pytest.mark.alone
@pytest.mark.parametrize("piece", WORST, ids=repr)
@pytest.mark.parametrize("wrap", [RuntimeError, lambda text: text, lambda text: ValueError("x", text)])
def test_a_message_of_a_megabyte_takes_milliseconds(piece: str, wrap: Callable[[str], Any]) -> None:
    what = wrap(piece * (MEGABYTE // len(piece)))
    best = min(_seconds(what) for _ in range(3))

    assert best <= 1_250_000 * turn()  # 50 ms


@pytest.mark.alone
def test_a_message_of_a_megabyte_costs_no_more_than_one_of_four_kilobytes() -> None:
    short, long = (min(_seconds("status " * (size // 7)) for _ in range(20)) for size in (MAX_BODY, MEGABYTE))

    assert long <= 10 * short + 0.001


class Answer:
    def __init__(self, body: Any) -> None:
        self.status_code = 500
        self.headers: dict[str, str] = {}
        self.content = body


@pytest.mark.parametrize("body", [b"x" * 9000, bytearray(b"x" * 9000), "x" * 9000, {"x": "y" * 9000}, ["x"] * 9000])
def test_no_rule_sees_more_than_four_kilobytes_of_a_body(body: Any) -> None:
    seen: list[int] = []

    def look(evidence: Evidence) -> bool:
        seen.append(len(evidence.body))
        return False

    classify(Answer(body), Pack("looking", [Rule(name="look", code="gone", test=look)]))

    assert seen == [MAX_BODY]


@pytest.mark.alone
def test_a_huge_parsed_body_is_not_written_out_as_a_whole() -> None:
    body = [{"number": number} for number in range(300_000)]
    pack = Pack("looking", [Rule(name="look", code="gone", text="no such text")])

    assert min(_seconds(Answer(body), pack) for _ in range(3)) <= 250_000 * turn()  # 10 ms


def _seconds(what: Any, pack: Pack | None = None) -> float:
    start = time.process_time()
    classify(what, pack)
    return time.process_time() - start
