"""The past of a queue or a target as pictures: one bar for each slot of time, and the same in words."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from tidegate.ops.history import SPANS, CallCounts, History, Point
from tidegate.store.rollups import HOUR
from tidegate.web.pages import drawing, times
from tidegate.web.pages.drawing import Column, HeatCell

WORDS = {"3h": "3 hours", "24h": "24 hours", "7d": "7 days"}
DEFAULT = "24h"


@dataclass(frozen=True, slots=True)
class Chart:
    """One picture, what it shows, and the number that says it in short."""

    title: str
    short: str
    picture: Markup


@dataclass(frozen=True, slots=True)
class Past:
    """The pictures of one span of time; none when nothing was put down in it."""

    span: str
    start: int
    end: int
    charts: Sequence[Chart]


def chosen(span: str) -> str:
    """The span that an address asks for; the usual one for any other word."""
    return span if span in SPANS else DEFAULT


def counted(n: int, thing: str, bad: int) -> str:
    """'1 attempt, 0 failed', '1,200 attempts, 3 failed'."""
    return f"{times.many(n, thing)}, {bad:,} failed"


def of_queue(found: History[Point], span: str, now: float) -> Past:
    points = found.points
    if not points:
        return Past(span, found.start, found.end, ())
    attempts, bad = sum(point.attempts for point in points), sum(point.bad for point in points)
    slowest = max((point.p95 for point in points if point.p95 is not None), default=None)
    charts = [
        Chart("Attempts", f"{attempts:,}{_share(bad, attempts)}", _picture(
            found, now, f"Attempts: {attempts:,}, of which {bad:,} failed",
            lambda each: (each.attempts, each.bad, "good", counted(each.attempts, "attempt", each.bad)),
        )),
        _failed(found, now, [(point.bad, point.attempts) for point in points]),
        Chart("Duration", "none ran" if slowest is None else f"95 of 100 within {times.took(slowest)}", _picture(
            found, now, "Time that 95 of 100 attempts took at most",
            lambda each: (each.p95 or 0.0, 0, "busy", "none" if each.p95 is None else f"up to {times.took(each.p95)}"),
        )),
        Chart("Waiting", f"{points[-1].depth:,} now, at most {max(point.depth for point in points):,}", _picture(
            found, now, f"Jobs that waited: at most {max(point.depth for point in points):,}",
            lambda each: (each.depth, 0, "calm", f"{each.depth:,} waiting"),
        )),
        Chart("Oldest ready", _age(max(point.oldest for point in points)), _picture(
            found, now, f"Age of the oldest ready job: {_age(max(point.oldest for point in points))}",
            lambda each: (each.oldest, 0, "warn", times.span(each.oldest) if each.oldest else "none was ready"),
        )),
    ]  # fmt: skip
    return Past(span, found.start, found.end, charts)


def of_target(found: History[CallCounts], span: str, now: float) -> Past:
    points = found.points
    good, bad, rejected = (sum(getattr(point, name) for point in points) for name in ("good", "bad", "rejected"))
    if not good + bad + rejected:
        return Past(span, found.start, found.end, ())
    charts = [
        Chart("Calls", f"{good + bad:,}{_share(bad, good + bad)}", _picture(
            found, now, f"Calls: {good + bad:,}, of which {bad:,} failed",
            lambda each: (each.good + each.bad, each.bad, "good", counted(each.good, "good call", each.bad)),
        )),
        _failed(found, now, [(point.bad, point.good + point.bad) for point in points]),
        Chart("Turned away by the breaker", f"{rejected:,}", _picture(
            found, now, f"Calls that the breaker turned away: {rejected:,}",
            lambda each: (each.rejected, 0, "calm", f"{each.rejected:,} turned away"),
        )),
    ]  # fmt: skip
    return Past(span, found.start, found.end, charts[: 3 if rejected else 2 if bad else 1])


def beat_bar(found: Sequence[CallCounts | None], now: float) -> Chart:
    """The last 24 hours of a target at a glance: low where all was well, high where most of its calls failed."""
    there = [each for each in found if each is not None]
    good, bad, away = (sum(getattr(each, name) for each in there) for name in ("good", "bad", "rejected"))
    worst = sum(each.bad * 2 >= each.good + each.bad > 0 for each in there)
    label = f"Last 24 hours: {times.many(good + bad, 'call')}{_share(bad, good + bad)}"
    label += f"; in {times.many(worst, 'hour')} half of them or more" if worst else ""
    label += f"; {away:,} turned away by the breaker" if away else ""
    short = f"{math.floor(good / (good + bad) * 100)} % good" if good + bad else "held"
    return Chart("Last 24 hours", short, drawing.beats([_beat(each, now) for each in found], label))


def _beat(each: CallCounts | None, now: float) -> HeatCell:
    if each is None:
        return HeatCell(0, "none", "nobody looked")
    from_, calls = times.clock(each.at - HOUR, now), each.good + each.bad
    if not calls:
        return HeatCell(0.12, "calm", f"{from_}: held, {each.rejected:,} turned away") if each.rejected else (
            HeatCell(0, "none", f"{from_}: no calls"))  # fmt: skip
    word = f"{from_}: {counted(calls, 'call', each.bad)}"
    if not each.bad:
        return HeatCell(0.3, "good", word)
    return HeatCell(1.0, "bad", word) if each.bad * 2 >= calls else HeatCell(0.65, "warn", word)


def _picture(
    found: History[Point] | History[CallCounts],
    now: float,
    label: str,
    bar: Callable[[Point], tuple[float, float, str, str]] | Callable[[CallCounts], tuple[float, float, str, str]],
) -> Markup:
    bars = []
    for point in found.points:
        n, bad, tone, word = bar(point)  # type: ignore[arg-type]  # both are of one kind
        from_ = times.clock(point.at - found.step, now)
        bars.append(Column(point.at - found.step, n, bad, tone, f"{from_}: {word}"))
    return drawing.over_time(bars, found.start, found.end, found.step, label)


def _failed(found: History[Point] | History[CallCounts], now: float, shares: Sequence[tuple[int, int]]) -> Chart:
    """Which part failed in each slot, given how many of how many."""
    parts = [bad / of if of else 0.0 for bad, of in shares]
    begun = [point.at - found.step for point in found.points]
    worst = max(parts, default=0.0)
    short = f"at most {worst:.0%} in {times.span(found.step)}" if worst else "none"
    bars = [
        Column(at, part, 0, "bad", f"{times.clock(at, now)}: {part:.0%} failed")
        for at, part in zip(begun, parts, strict=True)
    ]
    label = f"Share that failed: {short}"
    picture = drawing.over_time(bars, found.start, found.end, found.step, label, limit=1.0)
    return Chart("Share that failed", short, picture)


def _share(bad: int, of: int) -> str:
    return f", {bad / of:.1%} failed" if bad else ""


def _age(seconds: float) -> str:
    return f"at most {times.span(seconds)}" if seconds else "none waited"
