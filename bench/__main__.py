"""Prints floors, own cost, targets and whether they are reached; exits 1 when one is not.

`python -m bench` measures everything, `python -m bench jobs convert` those two.
"""

from __future__ import annotations

import platform
import sys
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


def main() -> int:
    wanted = sys.argv[1:] or list(PARTS)
    unknown = [name for name in wanted if name not in PARTS]
    if unknown:
        print(f"there is no {unknown[0]!r} to measure; give some of: {', '.join(PARTS)}")
        return 2
    print(f"Tidegate on {platform.python_implementation()} {platform.python_version()}")
    print("Small calls in CPU time, the best of many rounds; jobs, pages and networks by the clock on the wall\n")
    rows = [row for name in wanted for row in PARTS[name]()]
    print(table(rows))
    return 1 if any(row.ok is False for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
