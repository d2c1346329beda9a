"""The few shapes that a picture is made of, as SVG text. No script, nothing from outside, both colour schemes."""

from __future__ import annotations

import re
from xml.sax.saxutils import escape, quoteattr

# Plain classes instead of variables: viewers outside of browsers know them too.
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
    """A whole picture; *title* and *description* are what is read aloud instead of it."""
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="title desc">',
        f'<title id="title">{escape(title)}</title>',
        f'<desc id="desc">{escape(description)}</desc>',
        f"<style>{_STYLE}</style>",
        f'<rect class="page" width="{width}" height="{height}" rx="8"/>',
        *shapes,
        "</svg>",
        "",
    ])  # fmt: skip


def part(width: int, top: int, bottom: int, label: str, shapes: list[str]) -> str:
    """The same between *top* and *bottom* as a part of a page, whose stylesheet has the colours.

    There a class has "o-" before it: the page has words such as band of its own.
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
    """Filled circles, as one path: a picture may have thousands."""
    arc = f"a{size} {size} 0 1 0 {2 * size:g} 0a{size} {size} 0 1 0 {-2 * size:g} 0z"
    return _path("ok", "".join(f"M{x - size:.1f} {y:.1f}{arc}" for x, y in places))


def crosses(places: list[tuple[float, float]], size: float = 2.4) -> str:
    mark = f"l{2 * size:g} {2 * size:g}m0 {-2 * size:g}l{-2 * size:g} {2 * size:g}"
    return _path("cross", "".join(f"M{x - size:.1f} {y - size:.1f}{mark}" for x, y in places))


def bars(kind: str, places: list[tuple[float, float, float]], width: float) -> str:
    """Bars from (x, y) downwards, each with its height, as one path."""
    return _path(kind, "".join(f"M{x:.1f} {y:.1f}h{width:g}v{height:.1f}h{-width:g}z" for x, y, height in places))


def diamond(kind: str, x: float, y: float, tip: str, size: float = 5) -> str:
    return (
        f'<path class="{kind}" d="M{x:.1f} {y - size:.1f}l{size} {size}l{-size} {size}l{-size} {-size}z">'
        f"<title>{escape(tip)}</title></path>"
    )


def _path(kind: str, moves: str) -> str:
    return f'<path class="{kind}" d="{moves}"/>' if moves else ""
