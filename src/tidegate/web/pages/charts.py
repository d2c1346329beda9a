"""Charts as SVG, with the same content as text, and the history of queues and targets."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from tidegate.jobs.history import HOUR, SPANS, CallCounts, History, Point
from tidegate.web.pages import formatters
from tidegate.web.pages.formatters import took

# -- SVG ---------------------------------------------------------------------------------------------------------------
#
# Numbers are attributes, colours are classes. Each chart has a text alternative.

_WIDTH = 1000.0
_MIN_WIDTH = 8.0  # minimum width of a visible segment


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment of a band: size, tone and label."""

    n: float
    tone: str
    word: str


def band(parts: Sequence[Segment], label: str, whole: float | None = None) -> Markup:
    """Draw segments side by side, scaled to *whole* or to their sum."""
    visible = [part for part in parts if part.n > 0]
    total = max(whole or 0, sum(part.n for part in visible)) or 1
    widths = [max(_MIN_WIDTH, _WIDTH * part.n / total) for part in visible]
    squeeze = min(1.0, _WIDTH / (sum(widths) or 1))
    pieces, x = [], 0.0
    for part, width in zip(visible, widths, strict=True):
        pieces.append(_rect(x, width * squeeze - 2, part.tone, f"{part.word}: {part.n:,.0f}"))
        x += width * squeeze
    return _svg("band", 10, Markup("").join(pieces), label)


def share(n: float, limit: float, tone: str, label: str, height: int = 10) -> Markup:
    """Draw a share from 0 to 1, with a mark at *limit*."""
    width = _WIDTH * min(1.0, max(0.0, n))
    filled = _rect(0, max(_MIN_WIDTH, width) if n else 0, tone, "", height)
    mark = Markup("")
    if 0 < limit < 1:
        mark = Markup('<path class="mark" vector-effect="non-scaling-stroke" d="M{:.0f} 0V{}"/>').format(
            _WIDTH * limit, height
        )
    ground = Markup('<rect class="ground" width="{:.0f}" height="{}"/>').format(_WIDTH, height)
    return _svg("band", height, ground + filled + mark, label)


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """A time span with tone and label."""

    began: float
    ended: float
    tone: str
    word: str


def stretches(spans: Iterable[TimeSpan], start: float, end: float, label: str) -> Markup:
    """Draw spans between *start* and *end*. A short span keeps a visible minimum width."""
    length = max(end - start, 0.001)
    pieces = [Markup('<rect class="ground" y="9" width="{:.0f}" height="2"/>').format(_WIDTH)]
    for span in spans:
        x = min(_WIDTH - _MIN_WIDTH, max(0.0, _WIDTH * (span.began - start) / length))
        width = max(_MIN_WIDTH, _WIDTH * (span.ended - span.began) / length)
        pieces.append(_rect(x, min(width, _WIDTH - x), span.tone, span.word, 20))
    return _svg("picture strip-of-time", 20, Markup("").join(pieces), label)


def bars(pairs: Sequence[tuple[float, float]], label: str) -> Markup:
    """Draw pairs of (all, bad) as bars."""
    limit = max((n for n, _ in pairs), default=0) or 1
    wide = _WIDTH / max(len(pairs), 1)
    pieces = []
    for at, (n, bad) in enumerate(pairs):
        for part, tone in ((n, "good"), (bad, "bad")):
            height = 60 * part / limit
            pieces.append(
                Markup('<rect class="tone {}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>').format(
                    tone, at * wide, 60 - height, wide - 6, height
                )
            )
    return _svg("picture bars", 60, Markup("").join(pieces), label)


def sparks(values: Sequence[int], label: str) -> Markup:
    """Draw numbers as a sparkline of bars."""
    bars = [Column(at, n, 0, "warn", "") for at, n in enumerate(values)]
    return over_time(bars, 0, len(values), 1, label, "sparks")


@dataclass(frozen=True, slots=True)
class HeatCell:
    """One slot of a heat bar: the worse, the higher. *share* is from 0 to 1."""

    share: float
    tone: str
    word: str


def beats(cells: Sequence[HeatCell], label: str) -> Markup:
    """Draw equal slots side by side. A slot without a share is a gap."""
    wide = _WIDTH / max(len(cells), 1)
    pieces = [Markup('<rect class="ground" y="59" width="{:.0f}" height="1"/>').format(_WIDTH)]
    for at, cell in enumerate(cells):
        shown = _column(at * wide, wide * 0.75, 60 * cell.share, cell.tone) if cell.share else Markup("")
        title = Markup("<title>{}</title>").format(cell.word)
        pieces.append(Markup("<g>{}{}{}</g>").format(title, _column(at * wide, wide, 60, "none"), shown))
    return _svg("picture sparks", 60, Markup("").join(pieces), label)


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
) -> Markup:
    """Draw bars at their time between *start* and *end*. A slot without data has no bar.

    A bar of value *limit* has full height. Without a limit, the highest bar has it.
    """
    limit = limit or max((column.n for column in columns), default=0) or 1
    wide = _WIDTH * step / max(end - start, step)
    pieces = [Markup('<rect class="ground" y="59" width="{:.0f}" height="1"/>').format(_WIDTH)]
    for column in columns:
        x = _WIDTH * (column.began - start) / max(end - start, step)
        parts = [Markup("<title>{}</title>").format(column.word), _column(x, wide, 60, "none")] if column.word else []
        heights = [(60 * column.n / limit, column.tone), (60 * column.bad / limit, "bad")]
        parts += [_column(x, wide * 0.85, height, tone) for height, tone in heights if height]
        pieces.append(Markup("<g>{}</g>").format(Markup("").join(parts)))
    return _svg(f"picture {kind}", 60, Markup("").join(pieces), label)


def _column(x: float, width: float, height: float, tone: str) -> Markup:
    return Markup('<rect class="tone {}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>').format(
        tone, x, 60 - max(1.0, height), width, max(1.0, height)
    )


def _rect(x: float, width: float, tone: str, word: str, height: int = 10) -> Markup:
    title = Markup("<title>{}</title>").format(word) if word else Markup("")
    return Markup('<rect class="tone {}" x="{:.1f}" width="{:.1f}" height="{}" rx="1">{}</rect>').format(
        tone, x, max(0.0, width), height, title
    )


def _svg(kind: str, height: int, inside: Markup, label: str) -> Markup:
    return Markup(
        '<svg class="{}" role="img" aria-label="{}" viewBox="0 0 {:.0f} {}" preserveAspectRatio="none">{}</svg>'
    ).format(kind, label, _WIDTH, height, inside)


WORDS = {"3h": "3 hours", "24h": "24 hours", "7d": "7 days"}
DEFAULT = "24h"


@dataclass(frozen=True, slots=True)
class Chart:
    """One chart with its title and key figure."""

    title: str
    short: str
    picture: Markup


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
    charts = [
        Chart(
            "Attempts",
            f"{attempts:,}{_share(bad, attempts)}",
            _picture(
                history,
                now,
                f"Attempts: {attempts:,}, of which {bad:,} failed",
                lambda slot: (slot.attempts, slot.bad, "good", counted(slot.attempts, "attempt", slot.bad)),
            ),
        ),
        _failed(history, now, [(point.bad, point.attempts) for point in points]),
        Chart(
            "Duration",
            "none ran" if slowest is None else f"95 of 100 within {formatters.took(slowest)}",
            _picture(
                history,
                now,
                "Time that 95 of 100 attempts took at most",
                lambda slot: (slot.p95 or 0.0, 0, "busy", "none" if slot.p95 is None else f"up to {took(slot.p95)}"),
            ),
        ),
        Chart(
            "Waiting",
            f"{points[-1].depth:,} now, at most {max(point.depth for point in points):,}",
            _picture(
                history,
                now,
                f"Jobs that waited: at most {max(point.depth for point in points):,}",
                lambda slot: (slot.depth, 0, "calm", f"{slot.depth:,} waiting"),
            ),
        ),
        Chart(
            "Oldest ready",
            _age(max(point.oldest for point in points)),
            _picture(
                history,
                now,
                f"Age of the oldest ready job: {_age(max(point.oldest for point in points))}",
                lambda slot: (
                    slot.oldest,
                    0,
                    "warn",
                    formatters.span(slot.oldest) if slot.oldest else "none was ready",
                ),
            ),
        ),
    ]
    return Past(span, history.start, history.end, charts)


def of_target(history: History[CallCounts], span: str, now: float) -> Past:
    points = history.points
    good, bad, rejected = (sum(getattr(point, name) for point in points) for name in ("good", "bad", "rejected"))
    if not good + bad + rejected:
        return Past(span, history.start, history.end, ())
    charts = [
        Chart(
            "Calls",
            f"{good + bad:,}{_share(bad, good + bad)}",
            _picture(
                history,
                now,
                f"Calls: {good + bad:,}, of which {bad:,} failed",
                lambda slot: (slot.good + slot.bad, slot.bad, "good", counted(slot.good, "good call", slot.bad)),
            ),
        ),
        _failed(history, now, [(point.bad, point.good + point.bad) for point in points]),
        Chart(
            "Turned away by the breaker",
            f"{rejected:,}",
            _picture(
                history,
                now,
                f"Calls that the breaker turned away: {rejected:,}",
                lambda slot: (slot.rejected, 0, "calm", f"{slot.rejected:,} turned away"),
            ),
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
    return Chart("Last 24 hours", short, beats([_beat(slot, now) for slot in slots], label))


def _beat(counts: CallCounts | None, now: float) -> HeatCell:
    if counts is None:
        return HeatCell(0, "none", "nobody looked")
    from_, calls = formatters.clock(counts.at - HOUR, now), counts.good + counts.bad
    if not calls:
        return (
            HeatCell(0.12, "calm", f"{from_}: held, {counts.rejected:,} turned away")
            if counts.rejected
            else (HeatCell(0, "none", f"{from_}: no calls"))
        )
    word = f"{from_}: {counted(calls, 'call', counts.bad)}"
    if not counts.bad:
        return HeatCell(0.3, "good", word)
    return HeatCell(1.0, "bad", word) if counts.bad * 2 >= calls else HeatCell(0.65, "warn", word)


def _picture(
    history: History[Point] | History[CallCounts],
    now: float,
    label: str,
    bar: Callable[[Point], tuple[float, float, str, str]] | Callable[[CallCounts], tuple[float, float, str, str]],
) -> Markup:
    bars = []
    for point in history.points:
        n, bad, tone, word = bar(point)  # type: ignore[arg-type]  # both are of one kind
        from_ = formatters.clock(point.at - history.step, now)
        bars.append(Column(point.at - history.step, n, bad, tone, f"{from_}: {word}"))
    return over_time(bars, history.start, history.end, history.step, label)


def _failed(history: History[Point] | History[CallCounts], now: float, shares: Sequence[tuple[int, int]]) -> Chart:
    """Return the failed share of each slot from pairs of failed and total."""
    parts = [bad / of if of else 0.0 for bad, of in shares]
    begun = [point.at - history.step for point in history.points]
    worst = max(parts, default=0.0)
    short = f"at most {worst:.0%} in {formatters.span(history.step)}" if worst else "none"
    bars = [
        Column(at, part, 0, "bad", f"{formatters.clock(at, now)}: {part:.0%} failed")
        for at, part in zip(begun, parts, strict=True)
    ]
    label = f"Share that failed: {short}"
    picture = over_time(bars, history.start, history.end, history.step, label, limit=1.0)
    return Chart("Share that failed", short, picture)


def _share(bad: int, of: int) -> str:
    return f", {bad / of:.1%} failed" if bad else ""


def _age(seconds: float) -> str:
    return f"at most {formatters.span(seconds)}" if seconds else "none waited"
