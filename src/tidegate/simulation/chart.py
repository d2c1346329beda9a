"""The chart of a simulated outage as SVG."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

from tidegate.durations import brief
from tidegate.simulation.play import HoldKind, HoldSpan, SimulatedCalls, Simulation
from tidegate.simulation.report import describe_simulation, outcome, summary

# -- shapes ------------------------------------------------------------------------------------------------------------

# Plain classes instead of variables: viewers outside of browsers support them.
_LIGHT = """
.page{fill:#fff} .strong{fill:#1b2130} .soft{fill:#566070} .line{stroke:#d5dae2} .mid{stroke:#aab2bf}
.band{fill:#f6d5cf} .band-edge{stroke:#b3402f} .band-word{fill:#8f2d1f}
.ok{fill:#1d7a4c} .bad{fill:#b3261e} .cross{stroke:#b3261e}
.backoff{fill:#c98a0b} .retry-after{fill:#c2571a} .breaker-open{fill:#7a3fa3} .half-open{fill:#3f73c4}
.cooldown{fill:#0e7c86} .fatal{fill:#2a3040} .held{fill:#7b8494} .notice{fill:#1b2130}
"""
_DARK = """
.page{fill:#12161d} .strong{fill:#eef1f6} .soft{fill:#a3adbb} .line{stroke:#2b323d} .mid{stroke:#566070}
.band{fill:#45221d} .band-edge{stroke:#e07a68} .band-word{fill:#f0a595}
.ok{fill:#4cc38a} .bad{fill:#f2705f} .cross{stroke:#f2705f}
.backoff{fill:#e8b339} .retry-after{fill:#ef8a4a} .breaker-open{fill:#b98ae0} .half-open{fill:#79a7f0}
.cooldown{fill:#3fb9c4} .fatal{fill:#eef1f6} .held{fill:#a3adbb} .notice{fill:#eef1f6}
"""
_STYLE = f"""text{{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}}
.line,.mid,.band-edge{{fill:none;stroke-width:1}} .band-edge{{stroke-dasharray:4 3}}
.cross{{fill:none;stroke-width:1.8;stroke-linecap:round}}
{_LIGHT.strip()}
@media (prefers-color-scheme:dark){{
{_DARK.strip()}
}}"""


def page(width: int, height: int, title: str, description: str, shapes: list[str]) -> str:
    """Returns a whole SVG document. *title* and *description* are for screen readers."""
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="title desc">',
            f'<title id="title">{escape(title)}</title>',
            f'<desc id="desc">{escape(description)}</desc>',
            f"<style>{_STYLE}</style>",
            f'<rect class="page" width="{width}" height="{height}" rx="8"/>',
            *shapes,
            "</svg>",
            "",
        ]
    )


def part(width: int, top: int, bottom: int, label: str, shapes: list[str]) -> str:
    """Returns the area between *top* and *bottom* as a part of a page, whose stylesheet has the colours.

    Classes get the prefix "o-" to avoid conflicts with classes of the page.
    """
    inside = re.sub(r'class="([a-z-]+)"', r'class="o-\1"', "\n".join(shapes))
    size = f'viewBox="0 {top} {width} {bottom - top}"'
    return f'<svg class="outage" {size} role="img" aria-label={quoteattr(label)}>\n{inside}\n</svg>'


def text(x: float, y: float, words: str, *, kind: str = "soft", size: int = 13, anchor: str = "start") -> str:
    look = f'font-size="{size}" text-anchor="{anchor}"' + (' font-weight="600"' if kind != "soft" else "")
    return f'<text class="{kind}" x="{x:g}" y="{y:g}" {look}>{escape(words)}</text>'


def box(kind: str, x: float, y: float, width: float, height: float, tip: str = "", *, round_by: float = 0) -> str:
    corner = f' rx="{round_by:g}"' if round_by else ""
    shape = f'<rect class={quoteattr(kind)} x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"{corner}'
    return f"{shape}><title>{escape(tip)}</title></rect>" if tip else f"{shape}/>"


def line(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<path class="{kind}" d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}"/>'


def dots(places: list[tuple[float, float]], size: float = 2.6) -> str:
    """Returns filled circles as one path: a chart may have thousands."""
    arc = f"a{size} {size} 0 1 0 {2 * size:g} 0a{size} {size} 0 1 0 {-2 * size:g} 0z"
    return _path("ok", "".join(f"M{x - size:.1f} {y:.1f}{arc}" for x, y in places))


def crosses(places: list[tuple[float, float]], size: float = 2.4) -> str:
    mark = f"l{2 * size:g} {2 * size:g}m0 {-2 * size:g}l{-2 * size:g} {2 * size:g}"
    return _path("cross", "".join(f"M{x - size:.1f} {y - size:.1f}{mark}" for x, y in places))


def bars(kind: str, places: list[tuple[float, float, float]], width: float) -> str:
    """Returns bars from (x, y) downwards, each with its height, as one path."""
    return _path(kind, "".join(f"M{x:.1f} {y:.1f}h{width:g}v{height:.1f}h{-width:g}z" for x, y, height in places))


def diamond(kind: str, x: float, y: float, tip: str, size: float = 5) -> str:
    return (
        f'<path class="{kind}" d="M{x:.1f} {y - size:.1f}l{size} {size}l{-size} {size}l{-size} {-size}z">'
        f"<title>{escape(tip)}</title></path>"
    )


def _path(kind: str, moves: str) -> str:
    return f'<path class="{kind}" d="{moves}"/>' if moves else ""


# -- timeline: the outage, the holds, and each call with and without Tidegate ------------------------------------------

_WIDTH, _LEFT, _RIGHT, _TOP = 960, 172, 28, 150
_ROW, _LANE, _HALF = 24, 62, 24
_COLUMN = 7.0  # minimum width of a column of marks, in pixels
_MAX_STACKED = 4  # a column with more marks becomes a bar
_STEPS = (
    1,
    5,
    10,
    30,
    60,
    300,
    600,
    900,
    1800,
    3600,
    7200,
    10800,
    14400,
    21600,
    43200,
    86400,
    172800,
    604800,
    2592000,
)


@dataclass(frozen=True, slots=True)
class _Scale:
    """Converts seconds to pixels."""

    lasts: float
    every: float

    def x(self, at: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * min(at / self.lasts, 1.0)

    @property
    def column(self) -> float:
        """Seconds per column of marks. Full ticks, so that all columns cover the same number of calls."""
        tick = self.x(self.every) - self.x(0)
        return self.every * math.ceil(_COLUMN / tick)


def picture(result: Simulation, title: str) -> str:
    """Returns a whole SVG document."""
    axis, shapes = _draw(result)
    heading = [
        text(24, 36, title, kind="strong", size=20),
        text(24, 60, describe_simulation(result), size=14),
        text(24, 82, outcome(result), size=14),
    ]
    return page(_WIDTH, int(axis + 84), title, summary(result), [*heading, *shapes])


def inside(result: Simulation) -> str:
    """Returns the chart as a part of a page, without the heading."""
    axis, shapes = _draw(result)
    return part(_WIDTH, _TOP - 48, int(axis + 84), summary(result), shapes)


def _draw(result: Simulation) -> tuple[float, list[str]]:
    """Returns the position of the axis, and the shapes."""
    scale = _Scale(result.plan.lasts, result.plan.every)
    rows = [kind for kind in HoldKind if any(span.why is kind for span in result.spans)]
    lanes = [
        ("Tidegate", result.calls),
        ("a plain loop", result.plain.calls),
        ("a loop of 3 tries", result.stubborn.calls),
    ]
    gates_end = _TOP + _ROW * (len(rows) + bool(result.told)) + (14 if rows or result.told else 0)
    axis = gates_end + _LANE * len(lanes) + 6
    shapes = [*_bands(result, scale, axis), *_grid(scale, axis)]
    for number, kind in enumerate(rows):
        shapes += _gate(kind, [span for span in result.spans if span.why is kind], scale, _TOP + number * _ROW)
    if result.told:
        shapes += _notices(result, scale, _TOP + len(rows) * _ROW)
    tallest = max(_tallest(calls, scale) for _, calls in lanes)
    for number, (label, calls) in enumerate(lanes):
        shapes += _call_row(label, calls, scale, gates_end + number * _LANE + _LANE / 2, tallest)
    shapes += _legend(axis + 62, tallest, told=bool(result.told))
    return axis, shapes


def _bands(result: Simulation, scale: _Scale, axis: float) -> list[str]:
    shapes: list[str] = []
    taken = 0.0
    for trouble in result.plan.outage.troubles:
        left, right = scale.x(trouble.start), scale.x(trouble.end)
        if trouble.start >= result.plan.lasts:
            continue
        shapes.append(box("band", left, _TOP - 12, max(right - left, 1.5), axis - _TOP + 12, trouble.label))
        shapes += [line("band-edge", x, _TOP - 12, x, axis) for x in (left, right)]
        wide = 7.5 * len(trouble.label)
        x = min(left, _WIDTH - _RIGHT - wide)
        y = _TOP - 18 if x > taken else _TOP - 33  # move a label up that would overlap the previous one
        taken = x + wide if x > taken else taken
        shapes.append(text(x, y, trouble.label, kind="band-word", size=12))
    return shapes


def _grid(scale: _Scale, axis: float) -> list[str]:
    step = next((step for step in _STEPS if scale.lasts / step <= 12), _STEPS[-1])
    shapes = [line("mid", _LEFT, axis, _WIDTH - _RIGHT, axis)]
    for number in range(int(scale.lasts / step) + 1):
        x = scale.x(number * step)
        shapes.append(line("line", x, _TOP - 6, x, axis + 5))
        shapes.append(text(x, axis + 20, brief(number * step) if number else "0", size=12, anchor="middle"))
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    return [*shapes, text(middle, axis + 40, "time since the start", size=12, anchor="middle")]


def _gate(kind: HoldKind, spans: list[HoldSpan], scale: _Scale, top: float) -> list[str]:
    shapes = [text(_LEFT - 14, top + 14, str(kind), kind="strong", size=12, anchor="end")]
    shapes.append(line("line", _LEFT, top + 10, _WIDTH - _RIGHT, top + 10))
    start, end = spans[0].start, spans[0].end
    for span in [*spans[1:], HoldSpan(float("inf"), float("inf"), kind)]:
        if scale.x(span.start) - scale.x(end) < 0.8 and span.start < float("inf"):
            end = span.end  # too close to distinguish
            continue
        left, tip = scale.x(start), f"{kind}: {brief(start)} to {brief(end)}"
        width = max(scale.x(end) - left, 1.5)
        shapes.append(box(kind.replace(" ", "-"), left, top + 2, width, 16, tip, round_by=2))
        start, end = span.start, span.end
    return shapes


def _notices(result: Simulation, scale: _Scale, top: float) -> list[str]:
    shapes = [text(_LEFT - 14, top + 14, "notices", kind="strong", size=12, anchor="end")]
    shapes.append(line("line", _LEFT, top + 10, _WIDTH - _RIGHT, top + 10))
    for notice in result.told:
        tip = f"{brief(notice.at)}: {notice.title}. {notice.message}"
        shapes.append(diamond("notice", scale.x(notice.at), top + 10, tip))
    return shapes


def _columns(calls: SimulatedCalls, scale: _Scale) -> Counter[tuple[int, bool]]:
    width = scale.column
    return Counter((int(call.at / width + 1e-9), call.ok) for call in calls)


def _tallest(calls: SimulatedCalls, scale: _Scale) -> int:
    return max(_columns(calls, scale).values(), default=0)


def _call_row(label: str, calls: SimulatedCalls, scale: _Scale, middle: float, tallest: int) -> list[str]:
    counted = f"{len(calls):,} calls, {calls.failures:,} failed"
    marks = _bars_per_column(calls, scale, middle, tallest) if tallest > _MAX_STACKED else _marks(calls, scale, middle)
    return [
        text(_LEFT - 14, middle - 3, label, kind="strong", size=13, anchor="end"),
        text(_LEFT - 14, middle + 14, counted, size=11, anchor="end"),
        line("mid", _LEFT, middle, _WIDTH - _RIGHT, middle),
        *marks,
    ]


def _marks(calls: SimulatedCalls, scale: _Scale, middle: float) -> list[str]:
    """Draws one mark per call: a dot above the line for a success, a cross below for a failure."""
    width = scale.column
    stacked: Counter[tuple[int, bool]] = Counter()
    good: list[tuple[float, float]] = []
    bad: list[tuple[float, float]] = []
    for call in calls:
        x = scale.x(call.at)
        column = (int(call.at / width + 1e-9), call.ok)
        away = 7 + 6.5 * stacked[column]
        stacked[column] += 1
        (good if call.ok else bad).append((x, middle - away if call.ok else middle + away))
    return [dots(good), crosses(bad)]


def _bars_per_column(calls: SimulatedCalls, scale: _Scale, middle: float, tallest: int) -> list[str]:
    """Draws bars above and below the line, for too many calls to draw one by one."""
    good: list[tuple[float, float, float]] = []
    bad: list[tuple[float, float, float]] = []
    for (column, ok), count in sorted(_columns(calls, scale).items()):
        height = max(1.0, (_HALF - 1) * count / tallest)
        x = scale.x(column * scale.column)
        (good if ok else bad).append((x, middle - 1 - height if ok else middle + 1, height))
    width = scale.x(scale.column) - _LEFT - 1
    return [bars("ok", good, width), bars("bad", bad, width)]


def _legend(y: float, tallest: int, *, told: bool) -> list[str]:
    dense = tallest > _MAX_STACKED
    words = ("calls that succeeded", "calls that failed", "the outage", "a notice was sent")
    starts = (_LEFT, _LEFT + 170, _LEFT + 320, _LEFT + 430)
    shapes = [text(x + 16, y + 4, word, size=12) for x, word in list(zip(starts, words, strict=True))[: 3 + told]]
    shapes.append(bars("ok", [(starts[0], y - 5, 10)], 6) if dense else dots([(starts[0] + 4, y)]))
    shapes.append(bars("bad", [(starts[1], y - 5, 10)], 6) if dense else crosses([(starts[1] + 4, y)]))
    shapes.append(box("band", starts[2] - 4, y - 6, 14, 12))
    return [*shapes, diamond("notice", starts[3] + 4, y, "a notice")] if told else shapes
