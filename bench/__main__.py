"""Prints floors, own cost, targets and whether they are reached; exits 1 when one is not.

`python -m bench` measures everything, `python -m bench jobs convert` those two. With `WRITE=1` in the environment the
tables of docs/explanation/performance.md that were measured whole are written.
"""

from __future__ import annotations

import platform
import re
import sys
import time
from collections.abc import Callable

from bench import (
    breaker,
    classify,
    convert,
    convert_flow,
    failures,
    feed_polling,
    feeds,
    guard,
    jobs,
    lidarr,
    music,
    rollups,
    tautulli,
)
from bench.row import Row, table
from tools import figures

VERDICTS, LONGEST = 100_000, 50


def verdicts() -> list[Row]:
    """What the classifier says of itself, with its targets: those for typed failures, and for the longest message."""
    rows = []
    for what, value, unit in classify.run():
        typed = what.removeprefix("classify: ") in classify.TYPED
        if unit == "ms":
            rows.append(Row(what, f"{value:.1f} ms", f"<= {LONGEST} ms", value <= LONGEST))
        else:
            target = f">= {VERDICTS:,}" if typed else ""
            rows.append(Row(what, f"{value:,.0f} {unit}", target, value >= VERDICTS if typed else None))
    return rows


PARTS: dict[str, Callable[[], list[Row]]] = {
    "breaker": breaker.run,
    "guard": guard.run,
    "classify": verdicts,
    "jobs": jobs.run,
    "rollups": rollups.run,
    "failures": failures.run,
    "convert": convert.run,
    "convert_flow": convert_flow.run,
    "feeds": feeds.run,
    "polling": feed_polling.run,
    "lidarr": lidarr.run,
    "music": music.run,
    "tautulli": tautulli.run,
}

# The tables of the page, and the parts that each of them shows.
TABLES: dict[str, tuple[str, ...]] = {
    "guards": ("breaker", "guard", "classify"),
    "jobs": ("jobs", "rollups", "failures"),
    "convert": ("convert", "convert_flow"),
    "feeds": ("feeds", "polling"),
    "lidarr": ("lidarr",),
    "music": ("music",),
    "tautulli": ("tautulli",),
}
LOG = "PostgreSQL, log written per job of the raw loop"
LOG_RATIO = "PostgreSQL, log written per job against the raw loop"


def main() -> int:
    wanted = sys.argv[1:] or list(PARTS)
    unknown = [name for name in wanted if name not in PARTS]
    if unknown:
        print(f"there is no {unknown[0]!r} to measure; give some of: {', '.join(PARTS)}")
        return 2
    print(f"Tidegate on {platform.python_implementation()} {platform.python_version()}")
    print("Small calls in CPU time, the best of many rounds; jobs, pages and networks by the clock on the wall\n")
    began = time.monotonic()
    found = {name: PARTS[name]() for name in wanted}
    rows = [row for name in wanted for row in found[name]]
    print(table(rows))
    if figures.asked():
        write(found, time.monotonic() - began)
    return 1 if any(row.ok is False for row in rows) else 0


def write(found: dict[str, list[Row]], seconds: float) -> None:
    """Writes each table whose parts were all measured; the summary only of a whole run."""
    for name, parts in TABLES.items():
        if all(part in found for part in parts):
            figures.write(name, shown(name, [row for part in parts for row in found[part]]))
    jobs_found = found.get("jobs", [])
    if any(row.what == LOG for row in jobs_found):  # without a PostgreSQL there is none
        figures.write("write-ahead-log", log_rows(jobs_found))
    if set(found) == set(PARTS):
        figures.write("limits", summary([row for rows in found.values() for row in rows], seconds))


def shown(name: str, rows: list[Row]) -> str:
    """A table of the page; that a row is about *name* is said by the heading."""
    heading = re.compile(rf"^{name}[:,] ")
    return figures.table(
        ["what", "found", "limit", ""],
        [(heading.sub("", row.what), row.found, row.target, row.word) for row in rows],
    )


def summary(rows: list[Row], seconds: float) -> str:
    """How many limits were kept, which were not, and how long it all took."""
    limited = [row for row in rows if row.ok is not None]
    missed = [row.what for row in limited if not row.ok]
    return figures.table(
        ["the whole run", "found"],
        [
            ("rows with a limit", len(limited)),
            ("beyond their limit", f"{len(missed)}{': ' if missed else ''}{'; '.join(missed)}"),
            ("time", f"{seconds // 60:.0f} min {seconds % 60:.0f} s"),
        ],
    )


def log_rows(rows: list[Row]) -> str:
    """What PostgreSQL writes to its log per job, and what that means at two rates."""
    values = {row.what: float(re.sub(r"[^0-9.]", "", row.found)) for row in rows if row.what in {LOG, LOG_RATIO}}
    size = values[LOG] * values[LOG_RATIO]
    return figures.table(
        ["write-ahead log of PostgreSQL", "found"],
        [
            ("per job", f"{size:,.0f} bytes"),
            ("at 10,000 jobs/s", f"{size * 10_000 / 1e6:.0f} MB/s, {size * 10_000 * 86_400 / 1e12:.1f} TB a day"),
            ("at 100 jobs/s, 8.6 million a day", f"{size * 100 / 1e3:.0f} kB/s"),
        ],
    )


if __name__ == "__main__":
    sys.exit(main())
