"""When channels are told: the edges of the rules."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.machine.test_telling import POLICY, TOLD, T, heard, over
from tidegate.machine.telling import (
    BREAKER,
    FLAPPING,
    HOUR,
    Drop,
    Heard,
    Move,
    Over,
    Raise,
    Tell,
    Verdict,
    Wait,
    Why,
    changes,
    decide,
    of_breaker,
)

SHORT = [heard(n, at=T - 100 * n, ended_at=T - 100 * n + 50) for n in (1, 2)]  # four changes, of which nobody was told
CASES: dict[str, tuple[Heard, list[Heard], float, Verdict]] = {
    "a kind without a rule is told at once": (heard(kind="other"), [], T, Tell()),
    "and its end when it has lasted": (over(), [replace(TOLD, kind="other")], T + 660, Tell(of=1)),
    "and not before": (over(), [replace(TOLD, kind="other")], T + 659, Wait(T + 660, Why.NOT_STEADY)),
    "a snooze holds what is open at the same place": (
        heard(2), [heard(1, snoozed_until=T + 50)], T, Wait(T + 50, Why.SNOOZED)),
    "and ends with its time": (heard(2), [heard(1, snoozed_until=T + 50)], T + 50, Tell()),
    "and with the trouble it was for": (heard(2), [heard(1, ended_at=T - 9, snoozed_until=T + 50)], T, Tell()),
    "what changed more than four times in an hour flaps": (heard(9), SHORT, T, Tell(flaps=5)),
    "and what changed four times does not": (heard(9), [SHORT[0], heard(3, at=T - HOUR, ended_at=T - 5)], T, Tell()),
    "trouble of a moment has an end, too": (over(at=T), [replace(TOLD, ended_at=T)], T + 600, Tell(of=1)),
    "and is known when it comes back": (
        heard(3, at=T + 120), [replace(TOLD, ended_at=T), over(at=T)], T + 120, Drop(Why.KNOWN)),
    "an end is that of the last notice that was told": (
        over(9, at=T + 80), [TOLD, heard(5, at=T + 70, told_at=T + 70, ended_at=T + 80)], T + 680, Tell(of=5)),
    "what flapped must be well for longer": (
        over(9, at=T + 100),
        [TOLD, heard(2, at=T + 70, ended_at=T + 80), heard(3, at=T + 90, ended_at=T + 100)],
        T + 700, Wait(T + 1900, Why.NOT_STEADY)),
    "an end that was told with its trouble is not told again": (
        over(3, at=T + 90), [TOLD, over(2, told_at=T)], T + 999, Drop(Why.NOTHING_TOLD)),
    "an end lasts from when the trouble ended, not from an earlier word of it": (
        over(4, T + 310), [TOLD, over(2, T + 300)], T + 660, Tell(of=1)),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_(case: str) -> None:
    notice, past, now, verdict = CASES[case]
    assert decide(notice, past, POLICY, now) == verdict


def test_changes_are_beginnings_and_ends_of_troubles_within_the_hour() -> None:
    notices = [heard(1, at=T, ended_at=T + 1), heard(2, at=T + 2), over(3, T + 3)]
    assert [changes(notices, now) for now in (T + 3, T + HOUR - 1, T + HOUR, T + HOUR + 1, T + HOUR + 2)] == [
        3,
        3,
        2,
        1,
        0,
    ]


def moves(*at: float) -> list[Move]:
    return [Move(T + each, closed=bool(number % 2)) for number, each in enumerate(at)]


FLAPS = moves(0, 10, 20, 30, 40)


@pytest.mark.parametrize(
    ("seen", "known", "now", "closed", "found"),
    [
        (moves(), None, 0, True, None),
        (moves(), None, 0, False, None),
        (moves(0), None, 299, False, None),
        (moves(0), None, 300, False, Raise(BREAKER, T)),
        (moves(0, 200), None, 500, True, None),
        (moves(0, 10, 20, 30), None, 40, False, None),
        (FLAPS, None, 40, False, Raise(FLAPPING, T)),
        (FLAPS, None, 1839, True, Raise(FLAPPING, T)),
        (FLAPS, None, 1840, True, None),
        (moves(-HOUR, 0, 10, 20, 30, 40), None, 50, True, Raise(FLAPPING, T)),
        (moves(-HOUR, 10, 20, 30, 40), None, 50, True, None),
        (moves(-HOUR + 50, 10, 20, 30, 40), None, 50, True, None),
        (moves(-HOUR + 50, 0, 10, 20, 30, 40), None, 50, True, Raise(FLAPPING, T)),
        (moves(-HOUR + 51, 10, 20, 30, 40), None, 50, True, Raise(FLAPPING, T - HOUR + 51)),
        (moves(0, 60), BREAKER, 659, True, None),
        (moves(0, 60), BREAKER, 660, True, Over(T + 60)),
        (moves(0, 60), BREAKER, 660, False, None),
        (moves(0, 60), FLAPPING, 1859, True, None),
        (moves(0, 60), FLAPPING, 1860, True, Over(T + 60)),
        (FLAPS, BREAKER, 1839, True, None),
        (FLAPS, BREAKER, 1840, True, Over(T + 40)),
        (moves(), BREAKER, 5000, True, Over(T + 4400)),
        (moves(), FLAPPING, 5000, True, Over(T + 3200)),
    ],
)
def test_what_there_is_to_say_of_a_breaker(
    seen: list[Move], known: str | None, now: float, closed: bool, found: Raise | Over | None
) -> None:
    assert of_breaker(seen, known, POLICY, T + now, closed) == found
