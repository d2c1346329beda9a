"""Plays a seed again: python -m tests.simulation SEED [HOURS] [--calm] [--plant NAME]."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.simulation.judging import wrong
from tests.simulation.planted import PLANTED
from tests.simulation.world import World, unchanged


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description="Plays a seed again.")
    parser.add_argument("seed", type=int)
    parser.add_argument("hours", type=float, nargs="?", default=1.0)
    parser.add_argument("--calm", action="store_true", help="services fall ill, and nothing else breaks")
    parser.add_argument("--plant", choices=sorted(PLANTED), help="a bug that the run should show")
    asked = parser.parse_args()
    change = PLANTED[asked.plant][0] if asked.plant else unchanged
    with tempfile.TemporaryDirectory() as folder:
        world = World(asked.seed, Path(folder), hours=asked.hours, calm=asked.calm, changed=change)
        began = time.process_time()
        world.play()
        found = wrong(world)
        took = time.process_time() - began
    told = f"{asked.hours:g} h, {len(world.put)} jobs, {world.events} events, digest {world.digest}, {took:.1f} s"
    sys.stdout.write("\n".join([f"seed {asked.seed}: {told}", *found[:20], ""]))
    return bool(found)


sys.exit(main())
