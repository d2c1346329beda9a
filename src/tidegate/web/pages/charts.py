"""Charts as SVG, with the same content as text, and the history of queues and targets."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidegate.jobs.history import HOUR, SPANS, CallCounts, History, Point
from tidegate.svg import LinearScale, Svg, group, number, path, rect, stretched
from tidegate.web.pages import formatters
from tidegate.web.pages.formatters import took

# -- SVG ---------------------------------------------------------------------------------------------------------------

_WIDTH, _HEIGHT = 1000.0, 60.0
_MIN_WIDTH = 8.0  # minimum width of a visible segment


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment of a band: size, tone and label."""

    n: float
    tone: str
    word: str


def band(parts: Sequence[Segment], label: str, whole: float | None = None) -> Svg:
    """Draw segments side by side, scaled to *whole* or to their sum."""
    visible = [part for part in parts if part.n > 0]
    total = max(whole or 0, sum(part.n for part in visible)) or 1
    widths = [max(_MIN_WIDTH, _WIDTH * part.n / total) for part in visible]
    squeeze = min(1.0, _WIDTH / (sum(widths) or 1))
    shapes, x = [], 0.0
    for part, width in zip(visible, widths, strict=True):
        title = f"{part.word}: {part.n:,.0f}"
        shapes.append(rect(f"tone {part.tone}", x, 0, width * squeeze - 2, 10, rx=1, title=title))
        x += width * squeeze
    return stretched("band", _WIDTH, 10, shapes, label)


def share(n: float, limit: float, tone: str, label: str, height: int = 10) -> Svg:
    """Draw a share from 0 to 1, with a mark at *limit*."""
    width = max(_MIN_WIDTH, LinearScale(0, 1, 0, _WIDTH)(n)) if n else 0
    shapes = [rect("ground", 0, 0, _WIDTH, height), rect(f"tone {tone}", 0, 0, width, height, rx=1)]
    if 0 < limit < 1:
        shapes.append(path("mark", f"M{number(_WIDTH * limit)} 0V{height}", vector_effect="non-scaling-stroke"))
    return stretched("band", _WIDTH, height, shapes, label)


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """A time span with tone and label."""

    began: float
    ended: float
    tone: str
    word: str


def stretches(spans: Iterable[TimeSpan], start: float, end: float, label: str) -> Svg:
    """Draw spans between *start* and *end*. A short span keeps a visible minimum width."""
    scale = LinearScale(start, max(end, start + 0.001), 0, _WIDTH)
    shapes = [rect("ground", 0, 9, _WIDTH, 2)]
    for span in spans:
        x = min(_WIDTH - _MIN_WIDTH, scale(span.began))
        width = max(_MIN_WIDTH, scale.length(span.ended - span.began))
        shapes.append(rect(f"tone {span.tone}", x, 0, min(width, _WIDTH - x), 20, rx=1, title=span.word))
    return stretched("picture strip-of-time", _WIDTH, 20, shapes, label)


def bars(pairs: Sequence[tuple[float, float]], label: str) -> Svg:
    """Draw pairs of (all, bad) as bars."""
    return over_time([Column(at, n, bad, "good", "") for at, (n, bad) in enumerate(pairs)], 0, len(pairs), 1, label)


def sparks(values: Sequence[int], label: str) -> Svg:
    """Draw numbers as a sparkline of bars."""
    columns = [Column(at, n, 0, "warn", "") for at, n in enumerate(values)]
    return over_time(columns, 0, len(values), 1, label, "sparks")


@dataclass(frozen=True, slots=True)
class Column:
    """One bar of a time chart: start, value, bad part of it, tone and label."""

    began: float
    n: float
    bad: float
    tone: str
    word: str


def over_time(
    columns: Sequence[Column], start: float, end: float, step: float, label: str, kind: str = "bars", limit: float = 0.0
) -> Svg:
    """Draw bars at their time between *start* and *end*. A slot without data has no bar.

    A bar of value *limit* has full height. Without a limit, the highest bar has it. The space above a bar belongs to
    its hover area.
    """
    x = LinearScale(start, max(end, start + step), 0, _WIDTH)
    y = LinearScale(0, limit or max((column.n for column in columns), default=0) or 1, 0, _HEIGHT)
    wide = x.length(step)
    shapes = [rect("ground", 0, _HEIGHT - 1, _WIDTH, 1)]
    for column in columns:
        left = x(column.began)
        heights = [(column.n, column.tone), (column.bad, "bad")]
        parts = [_column(left, wide * 0.85, y(n), tone) for n, tone in heights if n]
        if column.word:
            parts.insert(0, _column(left, wide, _HEIGHT, "none"))
        shapes.append(group(*parts, title=column.word))
    return stretched(f"picture {kind}", _WIDTH, _HEIGHT, shapes, label)


def _column(x: float, width: float, height: float, tone: str) -> Svg:
    height = max(1.0, height)
    return rect(f"tone {tone}", x, _HEIGHT - height, width, height)


WORDS = {"3h": "3 hours", "24h": "24 hours", "7d": "7 days"}
DEFAULT = "24h"


@dataclass(frozen=True, slots=True)
class Chart:
    """One chart with its title and key figure."""

    title: str
    short: str
    picture: Svg


@dataclass(frozen=True, slots=True)
class Past:
    """The charts of one time range. Empty when nothing was recorded in it."""

    span: str
    start: int
    end: int
    charts: Sequence[Chart]


def chosen(span: str) -> str:
    """Return the time range that a URL names, or the default for an unknown name."""
    return span if span in SPANS else DEFAULT


def counted(n: int, thing: str, bad: int) -> str:
    """Format counts: '1 attempt, 0 failed', '1,200 attempts, 3 failed'."""
    return f"{formatters.many(n, thing)}, {bad:,} failed"


def of_queue(history: History[Point], span: str, now: float) -> Past:
    points = history.points
    if not points:
        return Past(span, history.start, history.end, ())
    attempts, bad = sum(point.attempts for point in points), sum(point.bad for point in points)
    slowest = max((point.p95 for point in points if point.p95 is not None), default=None)
    deepest, oldest = max(point.depth for point in points), _age(max(point.oldest for point in points))
    draw = _HistoryCharts(history, now)
    charts = [
        draw.chart(
            "Attempts",
            f"{attempts:,}{_share(bad, attempts)}",
            f"Attempts: {attempts:,}, of which {bad:,} failed",
            [(slot.attempts, slot.bad, "good", counted(slot.attempts, "attempt", slot.bad)) for slot in points],
        ),
        draw.failed([(point.bad, point.attempts) for point in points]),
        draw.chart(
            "Duration",
            "none ran" if slowest is None else f"95 of 100 within {took(slowest)}",
            "Time that 95 of 100 attempts took at most",
            [(slot.p95 or 0, 0, "busy", "none" if slot.p95 is None else f"up to {took(slot.p95)}") for slot in points],
        ),
        draw.chart(
            "Waiting",
            f"{points[-1].depth:,} now, at most {deepest:,}",
            f"Jobs that waited: at most {deepest:,}",
            [(slot.depth, 0, "calm", f"{slot.depth:,} waiting") for slot in points],
        ),
        draw.chart(
            "Oldest ready",
            oldest,
            f"Age of the oldest ready job: {oldest}",
            [
                (slot.oldest, 0, "warn", formatters.span(slot.oldest) if slot.oldest else "none was ready")
                for slot in points
            ],
        ),
    ]
    return Past(span, history.start, history.end, charts)


def of_target(history: History[CallCounts], span: str, now: float) -> Past:
    points = history.points
    good, bad, rejected = (sum(getattr(point, name) for point in points) for name in ("good", "bad", "rejected"))
    if not good + bad + rejected:
        return Past(span, history.start, history.end, ())
    draw = _HistoryCharts(history, now)
    charts = [
        draw.chart(
            "Calls",
            f"{good + bad:,}{_share(bad, good + bad)}",
            f"Calls: {good + bad:,}, of which {bad:,} failed",
            [(slot.good + slot.bad, slot.bad, "good", counted(slot.good, "good call", slot.bad)) for slot in points],
        ),
        draw.failed([(point.bad, point.good + point.bad) for point in points]),
        draw.chart(
            "Turned away by the breaker",
            f"{rejected:,}",
            f"Calls that the breaker turned away: {rejected:,}",
            [(slot.rejected, 0, "calm", f"{slot.rejected:,} turned away") for slot in points],
        ),
    ]
    return Past(span, history.start, history.end, charts[: 3 if rejected else 2 if bad else 1])


def beat_bar(slots: Sequence[CallCounts | None], now: float) -> Chart:
    """Draw the last 24 hours of a target: low while healthy, high where most calls failed."""
    known = [slot for slot in slots if slot is not None]
    good, bad, away = (sum(getattr(slot, name) for slot in known) for name in ("good", "bad", "rejected"))
    worst = sum(slot.bad * 2 >= slot.good + slot.bad > 0 for slot in known)
    label = f"Last 24 hours: {formatters.many(good + bad, 'call')}{_share(bad, good + bad)}"
    label += f"; in {formatters.many(worst, 'hour')} half of them or more" if worst else ""
    label += f"; {away:,} turned away by the breaker" if away else ""
    short = f"{math.floor(good / (good + bad) * 100)} % good" if good + bad else "held"
    columns = [_beat(at, slot, now) for at, slot in enumerate(slots)]
    return Chart("Last 24 hours", short, over_time(columns, 0, len(slots), 1, label, "sparks", limit=1.0))


def _beat(at: int, counts: CallCounts | None, now: float) -> Column:
    """Return the bar of one hour: the worse, the higher."""
    if counts is None:
        return Column(at, 0, 0, "none", "nobody looked")
    from_, calls = formatters.clock(counts.at - HOUR, now), counts.good + counts.bad
    if not calls and counts.rejected:
        return Column(at, 0.12, 0, "calm", f"{from_}: held, {counts.rejected:,} turned away")
    if not calls:
        return Column(at, 0, 0, "none", f"{from_}: no calls")
    word = f"{from_}: {counted(calls, 'call', counts.bad)}"
    if not counts.bad:
        return Column(at, 0.3, 0, "good", word)
    return Column(at, 1.0, 0, "bad", word) if counts.bad * 2 >= calls else Column(at, 0.65, 0, "warn", word)


@dataclass(frozen=True, slots=True)
class _HistoryCharts:
    """Draws charts with a bar for each slot of a history."""

    history: History[Point] | History[CallCounts]
    now: float

    def chart(
        self, title: str, short: str, label: str, bars: Sequence[tuple[float, float, str, str]], limit: float = 0.0
    ) -> Chart:
        """Return a chart. A bar is its value, the bad part of it, tone and label."""
        history = self.history
        starts = [point.at - history.step for point in history.points]
        columns = [
            Column(start, n, bad, tone, f"{formatters.clock(start, self.now)}: {word}")
            for start, (n, bad, tone, word) in zip(starts, bars, strict=True)
        ]
        picture = over_time(columns, history.start, history.end, history.step, label, limit=limit)
        return Chart(title, short, picture)

    def failed(self, counts: Sequence[tuple[int, int]]) -> Chart:
        """Return the failed share of each slot from pairs of failed and total."""
        shares = [bad / of if of else 0.0 for bad, of in counts]
        worst = max(shares, default=0.0)
        short = f"at most {worst:.0%} in {formatters.span(self.history.step)}" if worst else "none"
        bars = [(share, 0.0, "bad", f"{share:.0%} failed") for share in shares]
        return self.chart("Share that failed", short, f"Share that failed: {short}", bars, limit=1.0)


def _share(bad: int, of: int) -> str:
    return f", {bad / of:.1%} failed" if bad else ""


def _age(seconds: float) -> str:
    return f"at most {formatters.span(seconds)}" if seconds else "none waited"
