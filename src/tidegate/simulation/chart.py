"""The chart of a simulated outage as SVG."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass

from tidegate import svg
from tidegate.durations import brief
from tidegate.simulation.play import HoldKind, HoldSpan, SimulatedCalls, Simulation
from tidegate.simulation.report import describe_simulation, outcome, summary
from tidegate.svg import Svg, element, line, number, path, rect, x_axis

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


def page(width: int, height: int, title: str, description: str, shapes: list[Svg]) -> str:
    """Returns a whole SVG document. *title* and *description* are for screen readers."""
    return element(
        "svg",
        element("title", title, id="title"),
        element("desc", description, id="desc"),
        element("style", Svg(_STYLE)),
        rect("page", 0, 0, width, height, rx=8),
        *_on_lines(shapes),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
        role="img",
        aria_labelledby="title desc",
    )


def part(width: int, top: int, bottom: int, label: str, shapes: list[Svg]) -> str:
    """Returns the area between *top* and *bottom* as a part of a page, whose stylesheet has the colours.

    Classes get the prefix "o-" to avoid conflicts with classes of the page.
    """
    inside = re.sub(r'class="([a-z-]+)"', r'class="o-\1"', svg.join(_on_lines(shapes)))
    box = f"0 {top} {width} {bottom - top}"
    return element("svg", Svg(inside), class_="outage", viewBox=box, role="img", aria_label=label)


def _on_lines(shapes: list[Svg]) -> list[Svg]:
    return [Svg(f"{shape}\n") for shape in shapes]


def text(x: float, y: float, content: str, *, kind: str = "soft", size: int = 13, anchor: str = "start") -> Svg:
    return svg.text(kind, x, y, content, size=size, anchor=anchor, bold=kind != "soft")


def dots(places: list[tuple[float, float]], size: float = 2.6) -> Svg:
    """Returns filled circles as one path: a chart may have thousands."""
    arc = f"a{size} {size} 0 1 0 {2 * size:g} 0a{size} {size} 0 1 0 {-2 * size:g} 0z"
    return path("ok", "".join(f"M{number(x - size)} {number(y)}{arc}" for x, y in places))


def crosses(places: list[tuple[float, float]], size: float = 2.4) -> Svg:
    mark = f"l{2 * size:g} {2 * size:g}m0 {-2 * size:g}l{-2 * size:g} {2 * size:g}"
    return path("cross", "".join(f"M{number(x - size)} {number(y - size)}{mark}" for x, y in places))


def bars(kind: str, places: list[tuple[float, float, float]], width: float) -> Svg:
    """Returns bars from (x, y) downwards, each with its height, as one path."""
    moves = (f"M{number(x)} {number(y)}h{width:g}v{number(height)}h{-width:g}z" for x, y, height in places)
    return path(kind, "".join(moves))


def diamond(kind: str, x: float, y: float, tip: str, size: float = 5) -> Svg:
    return path(kind, f"M{number(x)} {number(y - size)}l{size} {size}l{-size} {size}l{-size} {-size}z", title=tip)


# -- timeline: the outage, the holds, and each call with and without Tidegate ------------------------------------------

_WIDTH, _LEFT, _RIGHT, _TOP = 960, 172, 28, 150
_ROW, _LANE, _HALF = 24, 62, 24
_COLUMN = 7.0  # minimum width of a column of marks, in pixels
_MAX_STACKED = 4  # a column with more marks becomes a bar


@dataclass(frozen=True, slots=True)
class _TimeScale(svg.LinearScale):
    """Maps seconds to pixels. *every* is the time between two calls."""

    every: float

    @property
    def column(self) -> float:
        """Seconds per column of marks. Full ticks, so that all columns cover the same number of calls."""
        return self.every * math.ceil(_COLUMN / self.length(self.every))


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


def _draw(result: Simulation) -> tuple[float, list[Svg]]:
    """Returns the position of the axis, and the shapes."""
    scale = _TimeScale(0, result.plan.lasts, _LEFT, _WIDTH - _RIGHT, result.plan.every)
    rows = [kind for kind in HoldKind if any(span.why is kind for span in result.spans)]
    lanes = [
        ("Tidegate", result.calls),
        ("plain loop", result.plain.calls),
        ("3 attempts per call", result.stubborn.calls),
    ]
    gates_end = _TOP + _ROW * (len(rows) + bool(result.told)) + (14 if rows or result.told else 0)
    axis = gates_end + _LANE * len(lanes) + 6
    shapes = [*_bands(result, scale, axis), *_grid(scale, axis)]
    for row, kind in enumerate(rows):
        shapes += _gate(kind, [span for span in result.spans if span.why is kind], scale, _TOP + row * _ROW)
    if result.told:
        shapes += _notices(result, scale, _TOP + len(rows) * _ROW)
    tallest = max(_tallest(calls, scale) for _, calls in lanes)
    for row, (label, calls) in enumerate(lanes):
        shapes += _call_row(label, calls, scale, gates_end + row * _LANE + _LANE / 2, tallest)
    shapes += _legend(axis + 62, tallest, told=bool(result.told))
    return axis, shapes


def _bands(result: Simulation, scale: _TimeScale, axis: float) -> list[Svg]:
    shapes: list[Svg] = []
    taken = 0.0
    for trouble in result.plan.outage.troubles:
        left, right = scale(trouble.start), scale(trouble.end)
        if trouble.start >= result.plan.lasts:
            continue
        shapes.append(rect("band", left, _TOP - 12, max(right - left, 1.5), axis - _TOP + 12, title=trouble.label))
        shapes += [line("band-edge", x, _TOP - 12, x, axis) for x in (left, right)]
        wide = 7.5 * len(trouble.label)
        x = min(left, _WIDTH - _RIGHT - wide)
        y = _TOP - 18 if x > taken else _TOP - 33  # move a label up that would overlap the previous one
        taken = x + wide if x > taken else taken
        shapes.append(text(x, y, trouble.label, kind="band-word", size=12))
    return shapes


def _grid(scale: _TimeScale, axis: float) -> list[Svg]:
    ticks = scale.ticks(svg.TIME_STEPS)
    shapes = x_axis(scale, ticks, lambda tick: brief(tick) if tick else "0", top=_TOP - 6, bottom=axis)
    middle = (scale.start + scale.end) / 2
    return [*shapes, text(middle, axis + 40, "time since the start", size=12, anchor="middle")]


def _gate(kind: HoldKind, spans: list[HoldSpan], scale: _TimeScale, top: float) -> list[Svg]:
    shapes = [text(_LEFT - 14, top + 14, str(kind), kind="strong", size=12, anchor="end")]
    shapes.append(line("line", _LEFT, top + 10, _WIDTH - _RIGHT, top + 10))
    start, end = spans[0].start, spans[0].end
    for span in [*spans[1:], HoldSpan(float("inf"), float("inf"), kind)]:
        if scale(span.start) - scale(end) < 0.8 and span.start < float("inf"):
            end = span.end  # too close to distinguish
            continue
        left, tip = scale(start), f"{kind}: {brief(start)} to {brief(end)}"
        width = max(scale(end) - left, 1.5)
        shapes.append(rect(kind.replace(" ", "-"), left, top + 2, width, 16, title=tip, rx=2))
        start, end = span.start, span.end
    return shapes


def _notices(result: Simulation, scale: _TimeScale, top: float) -> list[Svg]:
    shapes = [text(_LEFT - 14, top + 14, "notices", kind="strong", size=12, anchor="end")]
    shapes.append(line("line", _LEFT, top + 10, _WIDTH - _RIGHT, top + 10))
    for notice in result.told:
        tip = f"{brief(notice.at)}: {notice.title}. {notice.message}"
        shapes.append(diamond("notice", scale(notice.at), top + 10, tip))
    return shapes


def _columns(calls: SimulatedCalls, scale: _TimeScale) -> Counter[tuple[int, bool]]:
    width = scale.column
    return Counter((int(call.at / width + 1e-9), call.ok) for call in calls)


def _tallest(calls: SimulatedCalls, scale: _TimeScale) -> int:
    return max(_columns(calls, scale).values(), default=0)


def _call_row(label: str, calls: SimulatedCalls, scale: _TimeScale, middle: float, tallest: int) -> list[Svg]:
    counted = f"{len(calls):,} calls, {calls.failures:,} failed"
    marks = _bars_per_column(calls, scale, middle, tallest) if tallest > _MAX_STACKED else _marks(calls, scale, middle)
    return [
        text(_LEFT - 14, middle - 3, label, kind="strong", size=13, anchor="end"),
        text(_LEFT - 14, middle + 14, counted, size=11, anchor="end"),
        line("mid", _LEFT, middle, _WIDTH - _RIGHT, middle),
        *marks,
    ]


def _marks(calls: SimulatedCalls, scale: _TimeScale, middle: float) -> list[Svg]:
    """Draws one mark per call: a dot above the line for a success, a cross below for a failure."""
    width = scale.column
    stacked: Counter[tuple[int, bool]] = Counter()
    good: list[tuple[float, float]] = []
    bad: list[tuple[float, float]] = []
    for call in calls:
        x = scale(call.at)
        column = (int(call.at / width + 1e-9), call.ok)
        away = 7 + 6.5 * stacked[column]
        stacked[column] += 1
        (good if call.ok else bad).append((x, middle - away if call.ok else middle + away))
    return [dots(good), crosses(bad)]


def _bars_per_column(calls: SimulatedCalls, scale: _TimeScale, middle: float, tallest: int) -> list[Svg]:
    """Draws bars above and below the line, for too many calls to draw one by one."""
    good: list[tuple[float, float, float]] = []
    bad: list[tuple[float, float, float]] = []
    for (column, ok), count in sorted(_columns(calls, scale).items()):
        height = max(1.0, (_HALF - 1) * count / tallest)
        x = scale(column * scale.column)
        (good if ok else bad).append((x, middle - 1 - height if ok else middle + 1, height))
    width = scale(scale.column) - _LEFT - 1
    return [bars("ok", good, width), bars("bad", bad, width)]


def _legend(y: float, tallest: int, *, told: bool) -> list[Svg]:
    dense = tallest > _MAX_STACKED
    words = ("calls that succeeded", "calls that failed", "the outage", "a notice was sent")
    starts = (_LEFT, _LEFT + 170, _LEFT + 320, _LEFT + 430)
    shapes = [text(x + 16, y + 4, word, size=12) for x, word in list(zip(starts, words, strict=True))[: 3 + told]]
    shapes.append(bars("ok", [(starts[0], y - 5, 10)], 6) if dense else dots([(starts[0] + 4, y)]))
    shapes.append(bars("bad", [(starts[1], y - 5, 10)], 6) if dense else crosses([(starts[1] + 4, y)]))
    shapes.append(rect("band", starts[2] - 4, y - 6, 14, 12))
    return [*shapes, diamond("notice", starts[3] + 4, y, "a notice")] if told else shapes
