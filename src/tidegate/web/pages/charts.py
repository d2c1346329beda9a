"""The past of a queue or a target as pictures: one bar for each slot of time, and the same in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from tidegate.ops.history import SPANS, Calls, History, Point
from tidegate.web.pages import drawing, times
from tidegate.web.pages.drawing import Bar

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


def of_queue(found: History[Point], span: str, now: float) -> Past:
    points = found.points
    if not points:
        return Past(span, found.start, found.end, ())
    attempts, bad = sum(each.attempts for each in points), sum(each.bad for each in points)
    slowest = max((each.p95 for each in points if each.p95 is not None), default=None)
    charts = [
        Chart("Attempts", f"{attempts:,}{_share(bad, attempts)}", _picture(
            found, now, f"Attempts: {attempts:,}, of which {bad:,} failed",
            lambda each: (each.attempts, each.bad, "good", f"{each.attempts:,} attempts, {each.bad:,} failed"),
        )),
        Chart("Duration", "none ran" if slowest is None else f"95 of 100 within {times.took(slowest)}", _picture(
            found, now, "Time that 95 of 100 attempts took at most",
            lambda each: (each.p95 or 0.0, 0, "busy", "none" if each.p95 is None else f"up to {times.took(each.p95)}"),
        )),
        Chart("Waiting", f"{points[-1].depth:,} now, at most {max(each.depth for each in points):,}", _picture(
            found, now, f"Jobs that waited: at most {max(each.depth for each in points):,}",
            lambda each: (each.depth, 0, "calm", f"{each.depth:,} waiting"),
        )),
        Chart("Oldest ready", _age(max(each.oldest for each in points)), _picture(
            found, now, f"Age of the oldest ready job: {_age(max(each.oldest for each in points))}",
            lambda each: (each.oldest, 0, "warn", times.span(each.oldest) if each.oldest else "none was ready"),
        )),
    ]  # fmt: skip
    return Past(span, found.start, found.end, charts)


def of_target(found: History[Calls], span: str, now: float) -> Past:
    points = found.points
    good, bad, rejected = (sum(getattr(each, name) for each in points) for name in ("good", "bad", "rejected"))
    if not good + bad + rejected:
        return Past(span, found.start, found.end, ())
    charts = [
        Chart("Calls", f"{good + bad:,}{_share(bad, good + bad)}", _picture(
            found, now, f"Calls: {good + bad:,}, of which {bad:,} failed",
            lambda each: (each.good + each.bad, each.bad, "good", f"{each.good:,} good calls, {each.bad:,} failed"),
        )),
        Chart("Turned away by the breaker", f"{rejected:,}", _picture(
            found, now, f"Calls that the breaker turned away: {rejected:,}",
            lambda each: (each.rejected, 0, "calm", f"{each.rejected:,} turned away"),
        )),
    ]  # fmt: skip
    return Past(span, found.start, found.end, charts[: 2 if rejected else 1])


def _picture(
    found: History[Point] | History[Calls],
    now: float,
    label: str,
    bar: Callable[[Point], tuple[float, float, str, str]] | Callable[[Calls], tuple[float, float, str, str]],
) -> Markup:
    bars = []
    for each in found.points:
        n, bad, tone, word = bar(each)  # type: ignore[arg-type]  # both are of one kind
        from_ = times.clock(each.at - found.step, now)
        bars.append(Bar(each.at - found.step, n, bad, tone, f"{from_}: {word}"))
    return drawing.over_time(bars, found.start, found.end, found.step, label)


def _share(bad: int, of: int) -> str:
    return f", {bad / of:.1%} failed" if bad else ""


def _age(seconds: float) -> str:
    return f"at most {times.span(seconds)}" if seconds else "none waited"
