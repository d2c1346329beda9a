"""Writes the first table of how-it-compares.md from the measured tables of that page.

``make peers WRITE=1`` calls ``write``. ``python -m tools.comparison`` repeats it without measuring.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.figures import BLOCKS, ROOT, blocks, replace, table
from tools.why_not import Rows, rows_of

NAME = "compared"
PAGE = "docs/explanation/how-it-compares.md"
TARGET = "peers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row: the cells of *column* in the block, for our rows and for those of others."""

    what: str
    block: str
    column: str
    ours: tuple[str, ...] = ("Tidegate",)
    others: tuple[str, ...]
    unit: str = ""


OURS = ("Tidegate SQLite", "Tidegate PostgreSQL")
ROWS = (
    Row(
        what="Jobs lost when workers are killed ten times",
        block="queue-kills",
        column="lost",
        ours=OURS,
        others=("Huey SQLite", "Huey Redis", "Celery Redis", "pgqueuer PostgreSQL"),
    ),
    Row(
        what="Jobs stuck afterwards",
        block="queue-kills",
        column="stuck",
        ours=OURS,
        others=("Celery Redis", "SAQ Redis", "Procrastinate PostgreSQL", "RQ Redis", "pgqueuer PostgreSQL"),
    ),
    Row(
        what="Jobs that ran twice",
        block="queue-kills",
        column="twice",
        ours=OURS,
        others=("Huey SQLite", "Celery Redis", "pgqueuer PostgreSQL"),
    ),
    Row(
        what="Empty jobs per second, one worker process",
        block="queues",
        column="drain, one process",
        ours=OURS,
        others=("pgqueuer PostgreSQL", "Huey Redis", "Huey SQLite", "Celery Redis"),
    ),
    Row(
        what="Jobs enqueued per second, one by one",
        block="queues",
        column="enqueue one",
        ours=OURS,
        others=("Huey Redis", "Huey SQLite", "Celery Redis", "pgqueuer PostgreSQL"),
    ),
    Row(
        what="From enqueue to start, median",
        block="queue-starts",
        column="start, median",
        ours=OURS,
        others=("Huey Redis", "Celery Redis", "pgqueuer PostgreSQL", "Huey SQLite"),
    ),
    Row(
        what="Retry decorator, time added to a call that succeeds",
        block="retries",
        column="sync",
        others=("resilient-circuit", "backoff", "stamina", "tenacity"),
        unit=" ns",
    ),
    Row(
        what="Closed breaker, time added to a call",
        block="breakers",
        column="closed, sync",
        others=("circuitbreaker", "purgatory", "pybreaker"),
        unit=" ns",
    ),
    Row(
        what="Open breaker, time of a rejected call",
        block="breakers",
        column="rejection",
        others=("lasier", "circuitbreaker", "pybreaker"),
        unit=" ns",
    ),
    Row(
        what="Speedup of 8 threads that share a breaker (ideal: 8)",
        block="breakers",
        column="8 threads, 4 ms",
        others=("circuitbreaker", "purgatory", "pybreaker"),
    ),
)


def comparison(measured: Mapping[str, str]) -> str:
    """The table, from the contents of the measured blocks by name."""
    rows = []
    for row in ROWS:
        found = rows_of(row.block, measured[row.block])
        ours = _shown(row, row.ours, found).replace("Tidegate on ", "").replace("Tidegate: ", "")
        command = f"`make {TARGET} PEERS={BLOCKS[row.block].command.split()[-1]}`"
        rows.append((row.what, ours, _shown(row, row.others, found), command))
    return table(["what", "Tidegate", "others", "measured by"], rows, left=4)


def _shown(row: Row, labels: tuple[str, ...], found: Rows) -> str:
    return "; ".join(f"{label.replace(' ', ' on ')}: {found[label][row.column]}{row.unit}" for label in labels)


def current(text: str) -> str:
    """The page with the table as its measured blocks have it."""
    measured = {name: text[block.start : block.end] for name, block in blocks(text).items()}
    return replace(text, NAME, TARGET, comparison(measured))


def write(root: Path = ROOT) -> None:
    page = root / PAGE
    page.write_text(current(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    write()
