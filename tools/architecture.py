"""Draws the packages of Tidegate and their imports: ``make pictures`` or ``python -m tools.architecture``.

The rows are the layers of the import contract in ``pyproject.toml``, the columns are the four steps. A box is a folder
of ``src/tidegate``. A line leads from a folder to one that it imports, directly or through a module beside the folders.
Lines that follow from others are left out, and so are the imports that the contract ignores.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from tools.house import import_graph, read_modules

ROOT = Path(__file__).resolve().parents[1]
PICTURE = "docs/pictures/architecture.svg"
# Column by column, the folders of each step. A new folder needs a place here.
COLUMNS = {
    "Base": ("serialization", "store", "clock"),
    "1 Classify": ("rules", "faults"),
    "2 Guard": ("guard",),
    "3 Queue": ("jobs", "targets", "children"),
    "4 Serve": ("web", "admin", "notices"),
    "4 Serve (more)": ("cli", "settings", "accounts"),
    "Other": ("testing", "simulation", "net"),
}
WIDTH, HEIGHT = 118, 30  # of a box
STEP_X, STEP_Y, TOP, LEFT = 134, 52, 58, 14
_LIGHT = """.page{fill:#fff} .head{fill:#566070} .name{fill:#1b2130} .box{fill:#eef2f8;stroke:#8290a6}
.step1{fill:#fbe9d0} .step2{fill:#e6dcf5} .step3{fill:#d5e6f7} .step4{fill:#d6efe1} .line{stroke:#8290a6}"""
_DARK = """.page{fill:#12161d} .head{fill:#a3adbb} .name{fill:#eef1f6} .box{fill:#232a35;stroke:#6b788c}
.step1{fill:#4a3718} .step2{fill:#382a4f} .step3{fill:#1d3650} .step4{fill:#1c4230} .line{stroke:#6b788c}"""
_STYLE = f"""text{{font-family:system-ui,-apple-system,"Segoe UI",Roboto,Arial,sans-serif;text-anchor:middle}}
.line{{fill:none;stroke-width:1.2;opacity:.75}} .name{{font-size:14px}} .head{{font-size:13px}}
{_LIGHT}
@media (prefers-color-scheme:dark){{
{_DARK}
}}"""
TITLE = "Packages of Tidegate and their imports"
DESCRIPTION = (
    "From bottom to top: faults and rules classify a failure, guard uses them for each call, jobs and targets use "
    "guard for durable work, and web, cli and notices serve all of it. Every line leads down."
)


def contract(root: Path) -> dict[str, Any]:
    """The contract that orders the packages in layers, the highest first."""
    contracts = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    return next(each for each in contracts if each["type"] == "layers" and each["containers"] == ["tidegate"])


def rows(layers: list[str], folders: set[str]) -> list[list[str]]:
    """The folders of each layer that has one, the highest layer first."""
    named = [[name.strip() for name in layer.replace(":", "|").split("|")] for layer in layers]
    return [row for names in named if (row := [name for name in names if name in folders])]


def imports_of_folders(root: Path) -> dict[str, set[str]]:
    """The folders that each folder imports, without what follows from other imports."""
    graph = import_graph(read_modules(root / "src"))
    ignored = [tuple(line.split(" -> ")) for line in contract(root)["ignore_imports"]]
    edges: dict[str, set[str]] = {}
    for module, imported in graph.items():
        if module.startswith("tidegate."):
            targets = {to for to in imported if to.startswith("tidegate.") and not _is_ignored(module, to, ignored)}
            edges.setdefault(_top(module), set()).update(_top(to) for to in targets)
    folders = {path.parent.name for path in (root / "src" / "tidegate").glob("*/__init__.py")}
    direct = {name: _folders_below(name, edges, folders) - {name} for name in sorted(folders)}
    return {name: {to for to in direct[name] if not _follows(name, to, direct)} for name in direct}


def _is_ignored(module: str, to: str, ignored: list[tuple[str, ...]]) -> bool:
    return any(fnmatchcase(module, source) and fnmatchcase(to, target) for source, target in ignored)


def _top(module: str) -> str:
    return module.split(".")[1]


def _folders_below(name: str, edges: Mapping[str, set[str]], folders: set[str]) -> set[str]:
    """The folders that *name* reaches without passing through another folder."""
    found: set[str] = set()
    seen = {name}
    waiting = list(edges.get(name, ()))
    while waiting:
        each = waiting.pop()
        if each in seen:
            continue
        seen.add(each)
        if each in folders:
            found.add(each)
        else:
            waiting += edges.get(each, ())
    return found


def _follows(name: str, to: str, direct: Mapping[str, set[str]]) -> bool:
    """Whether *name* also reaches *to* through another folder that it imports."""
    waiting, seen = [each for each in direct[name] if each != to], {name}
    while waiting:
        each = waiting.pop()
        if each == to:
            return True
        if each not in seen:
            seen.add(each)
            waiting += direct[each]
    return False


def draw(root: Path = ROOT) -> str:
    """The picture as SVG."""
    edges = imports_of_folders(root)
    layers = rows(contract(root)["layers"], set(edges))
    row_of = {name: number for number, names in enumerate(layers) for name in names}
    column_of = {name: (number, step) for number, (step, names) in enumerate(COLUMNS.items()) for name in names}
    place = {name: (LEFT + column_of[name][0] * STEP_X, TOP + row_of[name] * STEP_Y) for name in edges}
    width = LEFT + len(COLUMNS) * STEP_X
    height = TOP + len(layers) * STEP_Y
    heads = [_head(LEFT + number * STEP_X, step) for number, step in enumerate(COLUMNS)]
    lines = [_line(place[name], place[to]) for name in sorted(edges) for to in sorted(edges[name])]
    boxes = [_box(name, place[name], column_of[name][1]) for name in sorted(edges)]
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    top = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="title desc">',
        f'<title id="title">{escape(TITLE)}</title>',
        f'<desc id="desc">{escape(DESCRIPTION)}</desc>',
        f"<style>{_STYLE}</style>",
        f'<rect class="page" width="{width}" height="{height}" rx="8"/>',
    ]
    return "\n".join([*top, *heads, *lines, *boxes, "</svg>", ""])


def _head(x: int, step: str) -> str:
    return f'<text class="head" x="{x + WIDTH // 2}" y="30">{escape(step)}</text>'


def _box(name: str, place: tuple[int, int], step: str) -> str:
    x, y = place
    colour = f" step{step[0]}" if step[0].isdigit() else ""
    return (
        f'<rect class="box{colour}" x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="5"/>'
        f'<text class="name" x="{x + WIDTH // 2}" y="{y + 20}">{name}</text>'
    )


def _line(start: tuple[int, int], end: tuple[int, int]) -> str:
    """From the lower edge of a box to the upper edge of another one; around the boxes between in the same column."""
    x1, y1 = start[0] + WIDTH // 2, start[1] + HEIGHT
    x2, y2 = end[0] + WIDTH // 2, end[1]
    bend = 90 if start[0] == end[0] and y2 - y1 > STEP_Y else 0
    middle = (y2 - y1) // 2
    return f'<path class="line" d="M{x1} {y1} C{x1 + bend} {y1 + middle} {x2 + bend} {y2 - middle} {x2} {y2}"/>'


def main(root: Path = ROOT) -> int:
    (root / PICTURE).write_text(draw(root), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
