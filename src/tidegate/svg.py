"""SVG as text: elements, scales and axes. Text is escaped, and templates insert the result as it is.

Sizes are attributes and colours are classes, because the content security policy allows no inline style.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape

__all__ = [
    "TIME_STEPS",
    "LinearScale",
    "Svg",
    "element",
    "group",
    "join",
    "line",
    "number",
    "path",
    "rect",
    "stretched",
    "text",
    "tip",
    "x_axis",
    "y_grid",
]

TIME_STEPS = (
    *(1, 5, 10, 30),
    *(60, 300, 600, 900, 1800),
    *(3600, 7200, 10800, 14400, 21600, 43200),
    *(86400, 172800, 604800, 2592000),
)  # seconds between two ticks of a time axis


class Svg(str):
    """Markup that needs no escaping."""

    __slots__ = ()

    def __html__(self) -> str:
        return self


# -- elements ----------------------------------------------------------------------------------------------------------


def element(name: str, *children: str, **attributes: str | float | None) -> Svg:
    """Return an element. `class_` is the attribute class, `font_size` is font-size. An attribute of None is left out.

    element("text", "a < b", class_="quiet", x=10)  # <text class="quiet" x="10">a &lt; b</text>
    """
    head = name
    for key, value in attributes.items():
        if value is not None:
            shown = escape(value) if isinstance(value, str) else number(value)
            head += f' {key.rstrip("_").replace("_", "-")}="{shown}"'
    return Svg(f"<{head}>{join(children)}</{name}>" if children else f"<{head}/>")


def join(children: Iterable[str]) -> Svg:
    return Svg("".join([child if isinstance(child, Svg) else escape(child, quote=False) for child in children]))


def number(value: float) -> str:
    """Format a coordinate with one decimal place. Finer ones cannot be seen."""
    return f"{value:.1f}".removesuffix(".0")


def tip(content: str) -> tuple[Svg, ...]:
    """Return the text that shows while the pointer is on the parent. Nothing for an empty text."""
    return (element("title", content),) if content else ()


def rect(
    class_: str, x: float, y: float, width: float, height: float, *, title: str = "", rx: float | None = None
) -> Svg:
    width, height = max(0.0, width), max(0.0, height)
    return element("rect", *tip(title), class_=class_, x=x, y=y, width=width, height=height, rx=rx)


def path(class_: str, moves: str, *, title: str = "", vector_effect: str | None = None) -> Svg:
    return element("path", *tip(title), class_=class_, vector_effect=vector_effect, d=moves) if moves else Svg()


def line(class_: str, x1: float, y1: float, x2: float, y2: float) -> Svg:
    return path(class_, f"M{number(x1)} {number(y1)}L{number(x2)} {number(y2)}")


def text(class_: str, x: float, y: float, content: str, *, size: int, anchor: str = "start", bold: bool = False) -> Svg:
    weight = 600 if bold else None
    return element("text", content, class_=class_, x=x, y=y, font_size=size, text_anchor=anchor, font_weight=weight)


def group(*children: str, title: str = "") -> Svg:
    return element("g", *tip(title), *children)


def stretched(class_: str, width: float, height: float, children: Iterable[str], label: str | None) -> Svg:
    """Return a picture that fills its box in both directions. Without a *label*, screen readers skip it."""
    return element(
        "svg",
        *children,
        class_=class_,
        role=None if label is None else "img",
        aria_label=label,
        aria_hidden="true" if label is None else None,
        viewBox=f"0 0 {number(width)} {number(height)}",
        preserveAspectRatio="none",
    )


# -- scales and axes ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LinearScale:
    """Maps values from *low* to *high* to coordinates from *start* to *end*. It clamps values outside.

    y = LinearScale(0, 250, 100, 0)  # the highest value is at the top
    """

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        share = (value - self.low) / ((self.high - self.low) or 1.0)
        return self.start + (self.end - self.start) * min(1.0, max(0.0, share))

    def length(self, size: float) -> float:
        """Return the length of a difference of two values."""
        return abs(self(self.low + size) - self.start)

    def ticks(self, steps: Sequence[float], max_count: int = 12) -> list[float]:
        """Return the values of the ticks, with the first of *steps* that needs up to *max_count* intervals."""
        span = self.high - self.low
        step = next((step for step in steps if span / step <= max_count), steps[-1])
        return [self.low + step * index for index in range(int(span / step) + 1)]


def x_axis(
    scale: LinearScale,
    ticks: Iterable[float],
    label: Callable[[float], str],
    *,
    top: float,
    bottom: float,
    size: int = 12,
) -> list[Svg]:
    """Return a horizontal axis at *bottom*, and a grid line with a label for each tick."""
    shapes = [line("mid", scale.start, bottom, scale.end, bottom)]
    for tick in ticks:
        x = scale(tick)
        shapes.append(line("line", x, top, x, bottom + 5))
        shapes.append(text("soft", x, bottom + 20, label(tick), size=size, anchor="middle"))
    return shapes


def y_grid(class_: str, scale: LinearScale, ticks: Iterable[float], width: float) -> Svg:
    """Return horizontal grid lines as one path."""
    return path(class_, "".join(f"M0 {number(scale(tick))}H{number(width)}" for tick in ticks))
