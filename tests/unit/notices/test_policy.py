"""When channels are told: the rules, on virtual time."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.notices.policy import (
    BREAKER,
    FLAPPING,
    HOUR,
    RECOVERED,
    BreakerTransition,
    Defer,
    Deliver,
    NoticePolicy,
    NoticeView,
    QuietHours,
    RaiseNotice,
    ResolveNotice,
    Suppress,
    SuppressReason,
    Verdict,
    decide,
    of_breaker,
)

POLICY = NoticePolicy()
T = 1_800_000_000.0


def heard(id_: int = 1, kind: str = "fatal", level: str = "error", at: float = T, **more: float | None) -> NoticeView:
    return NoticeView(id=id_, kind=kind, level=level, created_at=at, **more)


def over(id_: int = 2, at: float = T + 60, **more: float | None) -> NoticeView:
    return heard(id_, RECOVERED, "success", at, ended_at=at, **more)


TOLD = heard(1, told_at=T, ended_at=T + 60)
CASES: dict[str, tuple[NoticeView, list[NoticeView], float, Verdict]] = {
    "a fatal fault is told at once": (heard(), [], T, Deliver()),
    "a long backoff is told after an hour": (
        heard(kind="cap", level="warning"),
        [],
        T,
        Defer(T + HOUR, SuppressReason.GRACE),
    ),
    "and then it is": (heard(kind="cap", level="warning"), [], T + HOUR, Deliver()),
    "what is over sooner is not told": (
        heard(kind="cap", ended_at=T + 9),
        [],
        T + 10,
        Suppress(SuppressReason.WAS_SHORT),
    ),
    "nor is its end": (over(), [heard(kind="cap", ended_at=T + 60)], T + HOUR, Suppress(SuppressReason.NOTHING_TOLD)),
    "what rests is for the page": (heard(kind="disabled"), [], T, Suppress(SuppressReason.PAGE_ONLY)),
    "jobs that gave up are gathered": (
        heard(kind="gave_up", level="warning"),
        [],
        T + 299,
        Defer(T + 300, SuppressReason.GRACE),
    ),
    "what was read before it was due is not told": (
        heard(kind="gave_up", acked_at=T + 9),
        [],
        T + 301,
        Suppress(SuppressReason.READ),
    ),
    "an end that may not last is not told yet": (over(), [TOLD], T + 61, Defer(T + 660, SuppressReason.NOT_STEADY)),
    "an end that has lasted is told to whoever knew": (over(), [TOLD], T + 660, Deliver(of=1)),
    "an end after somebody read of the trouble is told": (
        over(),
        [replace(TOLD, acked_at=T + 5)],
        T + 660,
        Deliver(of=1),
    ),
    "an end that did not last is not told": (
        over(),
        [TOLD, heard(3, at=T + 120)],
        T + 660,
        Suppress(SuppressReason.DID_NOT_LAST),
    ),
    "trouble that came back is known": (heard(3, at=T + 120), [TOLD, over()], T + 120, Suppress(SuppressReason.KNOWN)),
    "and its end is told": (
        over(4, T + 180),
        [TOLD, over(), heard(3, at=T + 120, ended_at=T + 180)],
        T + 780,
        Deliver(of=1),
    ),
    "trouble that comes back after its end was told is told anew": (
        heard(3, at=T + 999),
        [TOLD, over(told_at=T + 660)],
        T + 999,
        Deliver(),
    ),
    "trouble that comes back after a person dealt with it is told anew": (
        heard(3, at=T + 999),
        [TOLD],
        T + 999,
        Deliver(),
    ),
    "an end is told once": (
        over(5, T + 700),
        [TOLD, over(told_at=T + 660)],
        T + 9999,
        Suppress(SuppressReason.NOTHING_TOLD),
    ),
    "a lighter trouble at the same place adds nothing": (
        heard(2, BREAKER, "warning", T + 60),
        [heard(1, told_at=T)],
        T + 60,
        Suppress(SuppressReason.KNOWN),
    ),
    "a heavier one does": (heard(2, at=T + 60), [heard(1, BREAKER, "warning", told_at=T)], T + 60, Deliver()),
    "an end is not told while other trouble goes on there": (
        over(3, T + 90),
        [TOLD, heard(2, BREAKER, "warning", T + 30)],
        T + 9999,
        Suppress(SuppressReason.DID_NOT_LAST),
    ),
    "what is snoozed waits": (heard(snoozed_until=T + 900), [], T, Defer(T + 900, SuppressReason.SNOOZED)),
    "so does more trouble at that place": (
        heard(2, at=T + 60),
        [heard(1, BREAKER, "warning", snoozed_until=T + 900, told_at=T)],
        T + 60,
        Defer(T + 900, SuppressReason.SNOOZED),
    ),
    "a snooze ends": (heard(snoozed_until=T + 900), [], T + 900, Deliver()),
    "an end that was waited for before it was written is told at once": (
        over(),
        [heard(1, BREAKER, "warning", told_at=T, ended_at=T + 60)],
        T + 61,
        Deliver(of=1),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_(case: str) -> None:
    notice, past, now, verdict = CASES[case]

    assert decide(notice, past, POLICY, now) == verdict


@pytest.mark.parametrize(
    ("clock", "level", "verdict"),
    [
        ("2027-01-15T21:59", "warning", Deliver()),
        ("2027-01-15T22:00", "warning", Defer(datetime(2027, 1, 16, 7, tzinfo=UTC).timestamp(), SuppressReason.QUIET)),
        ("2027-01-16T06:59", "warning", Defer(datetime(2027, 1, 16, 7, tzinfo=UTC).timestamp(), SuppressReason.QUIET)),
        ("2027-01-16T07:00", "warning", Deliver()),
        ("2027-01-16T03:00", "error", Deliver()),
    ],
)
def test_in_quiet_hours_errors_pass_and_the_rest_waits(clock: str, level: str, verdict: Verdict) -> None:
    quiet = QuietHours.of("22:00-07:00", ZoneInfo("UTC"))
    now = datetime.fromisoformat(clock).replace(tzinfo=UTC).timestamp()

    assert decide(heard(level=level, at=now), [], replace(POLICY, quiet=quiet), now) == verdict


@given(
    st.floats(T, T + 400 * 86400),
    st.sampled_from(["22:00-07:00", "00:30-05:00", "02:15-02:45", "23:00-00:00"]),
    st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"]),
)
def test_quiet_hours_always_end_later_and_within_a_day(now: float, hours: str, zone: str) -> None:
    until = QuietHours.of(hours, ZoneInfo(zone)).until(now)

    assert until is None or now < until <= now + 25 * HOUR


# -- what comes and goes -----------------------------------------------------------------------------------------------


FLAPS = [(times, share) for times in (10, 30) for share in (0.05, 0.5, 0.95)]


@pytest.mark.parametrize(("times", "share"), FLAPS)
def test_a_key_that_flaps_ten_times_an_hour_or_more_is_told_of_once_and_its_end_once(times: int, share: float) -> None:
    """The rules, asked after each change and every half a minute, as the server does."""
    period = HOUR / times
    rows: list[NoticeView] = []
    told = []
    moments = sorted({T + i * period for i in range(times)} | {T + (i + share) * period for i in range(times)})
    looks = sorted({*moments, *(T + 30.0 * i for i in range(1 + int(2 * HOUR / 30)))})
    undecided: set[int] = set()
    for now in looks:
        if now in moments:
            failing = bool(rows) and rows[-1].kind == "fatal" and rows[-1].open
            id_ = len(rows) + 1
            if failing:
                rows[-1] = replace(rows[-1], ended_at=now)
            rows.append(over(id_, now) if failing else heard(id_, at=now))
            undecided.add(id_)
        for id_ in sorted(undecided):
            row = rows[id_ - 1]
            verdict = decide(row, [each for each in rows if each.id != id_], POLICY, now)
            if isinstance(verdict, Deliver):
                rows[id_ - 1] = replace(row, told_at=now)
                told.append((row.kind, now))
            if not isinstance(verdict, Defer):
                undecided.discard(id_)

    assert [kind for kind, _ in told] == ["fatal", RECOVERED]
    assert told[1][1] > T + HOUR - period
    assert not undecided


def breaker_notices(moves: list[BreakerTransition], until: float) -> list[str]:
    """The kinds of what is written of a breaker, looked at every half a minute."""
    found: list[str] = []
    known: str | None = None
    now = T
    while now <= until:
        seen = [move for move in moves if move.at <= now]
        closed = seen[-1].closed if seen else True
        match of_breaker(seen, known, POLICY, now, closed):
            case RaiseNotice(kind, _):
                known = kind
                found.append(kind)
            case ResolveNotice():
                known = None
                found.append(RECOVERED)
        now += 30.0
    return found


@pytest.mark.parametrize(("times", "share"), FLAPS)
def test_a_breaker_that_flaps_ten_times_an_hour_or_more_makes_two_notices_at_most(times: int, share: float) -> None:
    period = HOUR / times
    moves = [BreakerTransition(T + (i + part) * period, bool(part)) for i in range(times) for part in (0.0, share)]

    found = breaker_notices(moves, T + 2 * HOUR)

    assert len(found) == 2
    assert found[0] in (BREAKER, FLAPPING)
    assert found[1] == RECOVERED


@pytest.mark.parametrize(
    ("moves", "kinds"),
    [
        ([], []),
        ([(0, False), (299, True)], []),
        ([(0, False), (331, True)], [BREAKER, RECOVERED]),
        ([(0, False)], [BREAKER]),
        ([(0, False), (400, True), (900, False), (1000, True)], [BREAKER, RECOVERED]),
        ([(0, False), (400, True), (1100, False), (1500, True)], [BREAKER, RECOVERED, BREAKER, RECOVERED]),
    ],
)
def test_a_breaker_is_told_of_when_it_stays_open_and_when_it_stays_closed(
    moves: list[tuple[int, bool]], kinds: list[str]
) -> None:
    assert breaker_notices([BreakerTransition(T + at, closed) for at, closed in moves], T + HOUR) == kinds
