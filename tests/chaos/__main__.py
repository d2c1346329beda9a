"""Runs the fire on one database or on both, and prints what came of it. Exit code 1: a promise was broken."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.chaos.campaign import Outcome, Plan, run
from tests.chaos.plants import PLANTS
from tests.chaos.report import again, markdown, table
from tests.chaos.schedule import KINDS
from tools import figures

DATABASES = ("sqlite", "postgres")


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--database", choices=(*DATABASES, "both"), default="both")
    parser.add_argument("--seconds", type=float, default=300.0, help="of fire, on each database")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 10**6)
    parser.add_argument("--often", type=float, default=1.0, help="times as many blows")
    parser.add_argument("--only", choices=sorted(KINDS), default="", help="one kind of blow")
    parser.add_argument("--plant", choices=sorted(PLANTS), default="", help="a bug that must be caught")
    parser.add_argument("--no-mount", action="store_true", help="limit the size of files instead of filling a disk")
    parser.add_argument("--keep", action="store_true", help="keep the folder with logs and files")
    asked = parser.parse_args(given)
    folder = Path(tempfile.mkdtemp(prefix="tidegate-chaos-"))
    say(f"seed {asked.seed}, logs in {folder}")
    names = DATABASES if asked.database == "both" else (asked.database,)
    outcomes: list[Outcome] = []
    for name in names:
        plan = Plan(
            name, asked.seconds, asked.seed, folder, plant=asked.plant, often=asked.often, mount=not asked.no_mount,
            only=asked.only,
        )  # fmt: skip
        outcomes.append(run(plan, say))
    say(table(outcomes))
    if figures.asked():
        figures.write("chaos", markdown(outcomes))
    broken = any(outcome.wrong for outcome in outcomes)
    say(f"\n{'BROKEN' if broken else 'Every promise held'}. Run it again: {again(asked.database, outcomes[0].plan)}")
    if not (broken or asked.keep):
        shutil.rmtree(folder, ignore_errors=True)
    return int(broken)


def say(line: str) -> None:
    print(line, flush=True)  # noqa: T201


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # through every `finally`: there are mounts and processes
    sys.exit(main())
