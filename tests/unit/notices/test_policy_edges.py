"""When channels are told: the edges of the rules."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.notices.test_policy import POLICY, TOLD, T, heard, over
from tidegate.notices.policy import (
    BREAKER,
    FLAPPING,
    HOUR,
    BreakerTransition,
    Defer,
    Deliver,
    NoticeView,
    RaiseNotice,
    ResolveNotice,
    Suppress,
    SuppressReason,
    Verdict,
    changes,
    decide,
    of_breaker,
)

SHORT = [heard(n, at=T - 100 * n, ended_at=T - 100 * n + 50) for n in (1, 2)]  # four changes, of which nobody was told
CASES: dict[str, tuple[NoticeView, list[NoticeView], float, Verdict]] = {
    "a kind without a rule is told at once": (heard(kind="other"), [], T, Deliver()),
    "and its end when it has lasted": (over(), [replace(TOLD, kind="other")], T + 660, Deliver(of=1)),
    "and not before": (over(), [replace(TOLD, kind="other")], T + 659, Defer(T + 660, SuppressReason.NOT_STEADY)),
    "a snooze holds what is open at the same place": (
        heard(2), [heard(1, snoozed_until=T + 50)], T, Defer(T + 50, SuppressReason.SNOOZED)),
    "and ends with its time": (heard(2), [heard(1, snoozed_until=T + 50)], T + 50, Deliver()),
    "and with the trouble it was for": (heard(2), [heard(1, ended_at=T - 9, snoozed_until=T + 50)], T, Deliver()),
    "what changed more than four times in an hour flaps": (heard(9), SHORT, T, Deliver(flaps=5)),
    "and what changed four times does not": (heard(9), [SHORT[0], heard(3, at=T - HOUR, ended_at=T - 5)], T, Deliver()),
    "trouble of a moment has an end, too": (over(at=T), [replace(TOLD, ended_at=T)], T + 600, Deliver(of=1)),
    "and is known when it comes back": (
        heard(3, at=T + 120), [replace(TOLD, ended_at=T), over(at=T)], T + 120, Suppress(SuppressReason.KNOWN)),
    "an end is that of the last notice that was told": (
        over(9, at=T + 80), [TOLD, heard(5, at=T + 70, told_at=T + 70, ended_at=T + 80)], T + 680, Deliver(of=5)),
    "what flapped must be well for longer": (
        over(9, at=T + 100),
        [TOLD, heard(2, at=T + 70, ended_at=T + 80), heard(3, at=T + 90, ended_at=T + 100)],
        T + 700, Defer(T + 1900, SuppressReason.NOT_STEADY)),
    "an end that was told with its trouble is not told again": (
        over(3, at=T + 90), [TOLD, over(2, told_at=T)], T + 999, Suppress(SuppressReason.NOTHING_TOLD)),
    "an end lasts from when the trouble ended, not from an earlier word of it": (
        over(4, T + 310), [TOLD, over(2, T + 300)], T + 660, Deliver(of=1)),
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


def moves(*at: float) -> list[BreakerTransition]:
    return [BreakerTransition(T + each, closed=bool(number % 2)) for number, each in enumerate(at)]


FLAPS = moves(0, 10, 20, 30, 40)


@pytest.mark.parametrize(
    ("seen", "known", "now", "closed", "found"),
    [
        (moves(), None, 0, True, None),
        (moves(), None, 0, False, None),
        (moves(0), None, 299, False, None),
        (moves(0), None, 300, False, RaiseNotice(BREAKER, T)),
        (moves(0, 200), None, 500, True, None),
        (moves(0, 10, 20, 30), None, 40, False, None),
        (FLAPS, None, 40, False, RaiseNotice(FLAPPING, T)),
        (FLAPS, None, 1839, True, RaiseNotice(FLAPPING, T)),
        (FLAPS, None, 1840, True, None),
        (moves(-HOUR, 0, 10, 20, 30, 40), None, 50, True, RaiseNotice(FLAPPING, T)),
        (moves(-HOUR, 10, 20, 30, 40), None, 50, True, None),
        (moves(-HOUR + 50, 10, 20, 30, 40), None, 50, True, None),
        (moves(-HOUR + 50, 0, 10, 20, 30, 40), None, 50, True, RaiseNotice(FLAPPING, T)),
        (moves(-HOUR + 51, 10, 20, 30, 40), None, 50, True, RaiseNotice(FLAPPING, T - HOUR + 51)),
        (moves(0, 60), BREAKER, 659, True, None),
        (moves(0, 60), BREAKER, 660, True, ResolveNotice(T + 60)),
        (moves(0, 60), BREAKER, 660, False, None),
        (moves(0, 60), FLAPPING, 1859, True, None),
        (moves(0, 60), FLAPPING, 1860, True, ResolveNotice(T + 60)),
        (FLAPS, BREAKER, 1839, True, None),
        (FLAPS, BREAKER, 1840, True, ResolveNotice(T + 40)),
        (moves(), BREAKER, 5000, True, ResolveNotice(T + 4400)),
        (moves(), FLAPPING, 5000, True, ResolveNotice(T + 3200)),
    ],
)
def test_what_there_is_to_say_of_a_breaker(
    seen: list[BreakerTransition],
    known: str | None,
    now: float,
    closed: bool,
    found: RaiseNotice | ResolveNotice | None,
) -> None:
    assert of_breaker(seen, known, POLICY, T + now, closed) == found
