"""Writes the README's table that compares Tidegate with other libraries.

Every figure comes from a block that ``make peers WRITE=1`` wrote into docs/explanation, so the README cannot differ
from those pages. The same command calls ``write``. ``python -m tools.why_not`` repeats it without measuring.
"""

from __future__ import annotations

import re
import sys
from collections import UserDict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tools.figures import BLOCKS, blocks, replace, table

ROOT = Path(__file__).resolve().parents[1]
README = "README.md"
BLOCK, TARGET = "why-not", "peers"
SOURCES = ("retries", "breakers", "queues", "queue-kills")

_STAMP = re.compile(r"Measured (\S+) \S+ UTC by `[^`]+` at commit (\S+(?: \+ changes)?) on (.+)\.$", re.MULTILINE)
_LOAD = re.compile(r" load [\d.]+,")
Row = dict[str, str]


class Rows(UserDict[str, Row]):
    """The rows of a block; a library that was not measured is named."""

    def __init__(self, block: str, rows: dict[str, Row]) -> None:
        super().__init__(rows)
        self.block = block

    def __missing__(self, key: str) -> Row:
        raise LookupError(f"the block {self.block!r} has no row {key!r}; measure it with make {TARGET} WRITE=1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One row of the table."""

    other: str
    gain: str
    measured: str
    measured_other: str = ""
    loss: str

    @property
    def cells(self) -> tuple[str, ...]:
        measured = f"{self.measured}; {self.measured_other}" if self.measured_other else self.measured
        return self.other, self.gain, measured, self.loss


def content(root: Path = ROOT) -> str:
    """The table, its notes and the stamp."""
    sources = {name: _block(root, name) for name in SOURCES}
    retries, breakers, rates, kills = (rows_of(name, sources[name]) for name in SOURCES)
    ours = [row for key, row in kills.items() if key.startswith("Tidegate")]
    lost, stuck, twice = (max(_number(row[column]) for row in ours) for column in ("lost", "stuck", "twice"))
    celery, huey = kills["Celery Redis"], kills["Huey SQLite"]
    landed, _, killed_times = min((row["kills amid jobs"] for row in (*ours, celery, huey)), key=_first_number).split()
    killed = f"{killed_times} times `kill -9`: {lost} jobs lost, {stuck} stuck"
    added = [rates[key]["enqueue one"] for key in ("Huey SQLite", "Tidegate SQLite")]
    rows = [
        Comparison(
            other=f"tenacity {retries['tenacity']['version']}",
            gain="retries only temporary failures, and stops during an outage",
            measured=f"cost of a successful call: {_added(retries, 'Tidegate')} ns",
            measured_other=f"tenacity {_added(retries, 'tenacity')} ns",
            loss="hooks and stop conditions for every case",
        ),
        Comparison(
            other=f"pybreaker {breakers['pybreaker']['version']}",
            gain="ignores a 404 and your own bugs, and separates users",
            measured=f"work of 8 threads: {_thread_gain(breakers, 'Tidegate')} times that of one",
            measured_other=f"pybreaker {_thread_gain(breakers, 'pybreaker')} times",
            loss="breaker state shared through Redis",
        ),
        Comparison(
            other=celery["queue"],
            gain="needs no broker, and holds jobs while their service is down",
            measured=killed,
            measured_other=f"Celery {celery['lost']} lost, {celery['stuck']} stuck",
            loss="many brokers, and a large community",
        ),
        Comparison(
            other=huey["queue"],
            gain="takes over the jobs of a killed worker",
            measured=killed,
            measured_other=f"Huey {huey['lost']} lost, {huey['stuck']} stuck",
            loss=f"{added[0]} single jobs added per second; Tidegate {added[1]}",
        ),
        Comparison(
            other="Temporal",
            gain="runs in your process, without a separate server",
            measured="not measured",
            loss="workflows of many steps that run for months",
        ),
    ]
    notes = (
        f"Kill test: {celery['jobs']} jobs and default settings; at least {landed} of {killed_times} kills hit running "
        f"jobs. Lost jobs never ran and are gone. Stuck jobs never ran and are still stored. Tidegate runs interrupted "
        f"jobs again: up to {twice} ran twice. [How Tidegate compares]({BLOCKS['queue-kills'].path}) has every figure."
    )
    head = ["instead of", "Tidegate also", "measured", "you give up"]
    return f"{table(head, [row.cells for row in rows], left=4)}\n\n{notes}\n{_stamp(sources.values())}"


def updated(text: str, root: Path = ROOT) -> str:
    """The README with the current table."""
    return replace(text, BLOCK, TARGET, content(root))


def write(root: Path = ROOT) -> None:
    readme = root / README
    readme.write_text(updated(readme.read_text(encoding="utf-8"), root), encoding="utf-8")


def _block(root: Path, name: str) -> str:
    text = (root / BLOCKS[name].path).read_text(encoding="utf-8")
    block = blocks(text)[name]
    return text[block.start : block.end]


def rows_of(name: str, text: str) -> Rows:
    """The rows of the first table in *text*, by their first cell without emphasis and version."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    head, _, *body = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return Rows(name, {_key(line[0]): dict(zip(head, line, strict=True)) for line in body})


def _key(cell: str) -> str:
    return " ".join(re.sub(r"\*\*|,| \d[\d.]*", "", cell).split())


def _added(rows: Rows, name: str) -> str:
    return rows[name]["sync"].removeprefix("+")


def _thread_gain(rows: Rows, name: str) -> str:
    (column,) = [column for column in rows[name] if "threads" in column]
    return rows[name][column]


def _number(cell: str) -> int:
    return int(cell.replace(",", ""))


def _first_number(cell: str) -> int:
    return _number(cell.split(maxsplit=1)[0])


def _stamp(sources: Iterable[str]) -> str:
    """One line for all sources; a run at another date, commit or machine is added to it."""
    runs: dict[str, None] = {}
    for text in sources:
        (stamp,) = _STAMP.findall(text)
        date, commit, machine = stamp
        runs[f"{date} by `make {TARGET}` at commit {commit} on {_LOAD.sub('', machine)}"] = None
    return f"Measured {'; '.join(runs)}."


if __name__ == "__main__":
    write()
    sys.exit(0)
