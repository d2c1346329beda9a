"""Small pictures as SVG: numbers are attributes, colours are classes, and a text says the same as the picture."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

_WIDTH = 1000.0
_MIN_WIDTH = 8.0  # what is there can be seen


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of a band: how much, in which tone, and what it is."""

    n: float
    tone: str
    word: str


def band(parts: Sequence[Segment], label: str, whole: float | None = None) -> Markup:
    """Pieces side by side, as wide as their shares of *whole*, or of their sum."""
    there = [part for part in parts if part.n > 0]
    total = max(whole or 0, sum(part.n for part in there)) or 1
    widths = [max(_MIN_WIDTH, _WIDTH * part.n / total) for part in there]
    squeeze = min(1.0, _WIDTH / (sum(widths) or 1))
    pieces, x = [], 0.0
    for part, width in zip(there, widths, strict=True):
        pieces.append(_rect(x, width * squeeze - 2, part.tone, f"{part.word}: {part.n:,.0f}"))
        x += width * squeeze
    return _svg("band", 10, Markup("").join(pieces), label)


def share(n: float, limit: float, tone: str, label: str, height: int = 10) -> Markup:
    """How much of a whole, from 0 to 1, with a mark at *limit*."""
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
    """A piece of time that something took."""

    began: float
    ended: float
    tone: str
    word: str


def stretches(found: Iterable[TimeSpan], start: float, end: float, label: str) -> Markup:
    """What happened when, from *start* to *end*; a short one is as wide as can be seen."""
    length = max(end - start, 0.001)
    pieces = [Markup('<rect class="ground" y="9" width="{:.0f}" height="2"/>').format(_WIDTH)]
    for each in found:
        x = min(_WIDTH - _MIN_WIDTH, max(0.0, _WIDTH * (each.began - start) / length))
        width = max(_MIN_WIDTH, _WIDTH * (each.ended - each.began) / length)
        pieces.append(_rect(x, min(width, _WIDTH - x), each.tone, each.word, 20))
    return _svg("picture strip-of-time", 20, Markup("").join(pieces), label)


def bars(found: Sequence[tuple[float, float]], label: str) -> Markup:
    """Pairs of (all, bad) as bars that stand side by side."""
    limit = max((n for n, _ in found), default=0) or 1
    wide = _WIDTH / max(len(found), 1)
    pieces = []
    for at, (n, bad) in enumerate(found):
        for part, tone in ((n, "good"), (bad, "bad")):
            height = 60 * part / limit
            pieces.append(
                Markup('<rect class="tone {}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>').format(
                    tone, at * wide, 60 - height, wide - 6, height
                )
            )
    return _svg("picture bars", 60, Markup("").join(pieces), label)


def sparks(found: Sequence[int], label: str) -> Markup:
    """Numbers as small bars side by side."""
    bars = [Column(at, n, 0, "warn", "") for at, n in enumerate(found)]
    return over_time(bars, 0, len(found), 1, label, "sparks")


@dataclass(frozen=True, slots=True)
class HeatCell:
    """One stretch of time at a glance: the worse it was, the higher; *share* from 0 to 1."""

    share: float
    tone: str
    word: str


def beats(found: Sequence[HeatCell], label: str) -> Markup:
    """Equal stretches side by side; one without a share is a gap."""
    wide = _WIDTH / max(len(found), 1)
    pieces = [Markup('<rect class="ground" y="59" width="{:.0f}" height="1"/>').format(_WIDTH)]
    for at, each in enumerate(found):
        shown = _column(at * wide, wide * 0.75, 60 * each.share, each.tone) if each.share else Markup("")
        title = Markup("<title>{}</title>").format(each.word)
        pieces.append(Markup("<g>{}{}{}</g>").format(title, _column(at * wide, wide, 60, "none"), shown))
    return _svg("picture sparks", 60, Markup("").join(pieces), label)


@dataclass(frozen=True, slots=True)
class Column:
    """One slot of time: when it began, how much, how much of that was bad, in which tone, and what it says."""

    began: float
    n: float
    bad: float
    tone: str
    word: str


def over_time(
    found: Sequence[Column], start: float, end: float, step: float, label: str, kind: str = "bars", limit: float = 0.0
) -> Markup:
    """Bars where they belong between *start* and *end*; where nothing is known, there is none.

    One that is *most* is as high as the picture; without it, the highest is.
    """
    limit = limit or max((each.n for each in found), default=0) or 1
    wide = _WIDTH * step / max(end - start, step)
    pieces = [Markup('<rect class="ground" y="59" width="{:.0f}" height="1"/>').format(_WIDTH)]
    for each in found:
        x = _WIDTH * (each.began - start) / max(end - start, step)
        parts = [Markup("<title>{}</title>").format(each.word), _column(x, wide, 60, "none")] if each.word else []
        heights = [(60 * each.n / limit, each.tone), (60 * each.bad / limit, "bad")]
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
