"""Draws the outage that the README and the first page of the documentation show: ``make pictures``.

The calls of one outage on the virtual clock, made by a default target, by a plain loop and by a loop with retries.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tidegate.cli.simulate_play import PROFILES, play
from tidegate.simulation.chart import picture

ROOT = Path(__file__).resolve().parents[1]
PICTURE = "docs/pictures/outage.svg"
TITLE = "A service is down for 20 minutes"


def draw() -> str:
    """The picture as SVG; the same at every run, because the seed is fixed."""
    played = play(PROFILES["requests"], outage="20m down at 10m", every=1, lasts=45 * 60)
    return picture(played.result, TITLE)


def main(root: Path = ROOT) -> int:
    (root / PICTURE).write_text(draw(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
