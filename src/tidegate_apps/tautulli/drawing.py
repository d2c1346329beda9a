"""The charts as SVG: numbers are attributes, colours are classes, and a text says the same as the picture."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from tidegate_apps.tautulli.charting import ChartBar

_WIDTH, _HEIGHT = 1000.0, 100.0
_MIN_HEIGHT = 1.5  # what is there can be seen


def columns(bars: Sequence[ChartBar], label: str) -> Markup:
    """Columns side by side, each with its words; the space above it belongs to it, so that it is easily pointed at."""
    limit = max((bar.plays for bar in bars), default=0) or 1
    wide = _WIDTH / max(len(bars), 1)
    gap = min(6.0, wide * 0.2)
    pieces = []
    for at, bar in enumerate(bars):
        height = max(_MIN_HEIGHT, _HEIGHT * bar.plays / limit) if bar.plays else 0.0
        pieces.append(
            Markup(
                '<g><title>{}: {}</title><rect class="room" x="{:.2f}" width="{:.2f}" height="100"/>'
                '<rect class="column" x="{:.2f}" y="{:.2f}" width="{:.2f}" height="{:.2f}"/></g>'
            ).format(
                bar.label, plays(bar.plays), at * wide, wide, at * wide + gap / 2, _HEIGHT - height, wide - gap, height
            )
        )
    return Markup(
        '<svg class="picture chart" role="img" aria-label="{}" viewBox="0 0 1000 100" preserveAspectRatio="none">'
        '<path class="grid" d="M0 0H1000M0 50H1000M0 100H1000"/>{}</svg>'
    ).format(label, Markup("").join(pieces))


def share(part: float) -> Markup:
    """A thin bar, as long as a share of the largest."""
    return Markup(
        '<svg class="picture share" aria-hidden="true" viewBox="0 0 100 4" preserveAspectRatio="none">'
        '<rect class="column" width="{:.1f}" height="4"/></svg>'
    ).format(max(1.0, 100 * min(part, 1.0)))


def in_words(bars: Sequence[ChartBar], what: str) -> str:
    """What the chart shows, for whoever cannot see it."""
    total = sum(bar.plays for bar in bars)
    best = max(bars, key=lambda bar: bar.plays, default=None)
    if best is None or not total:
        return f"Plays {what}: none."
    return f"Plays {what}: {plays(total)} in all, the most on {best.label} with {best.plays:,}."


def plays(n: int) -> str:
    return f"{n:,} play{'' if n == 1 else 's'}"
