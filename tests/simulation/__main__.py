"""Plays a seed again: python -m tests.simulation SEED [HOURS] [--calm] [--plant NAME]."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.simulation.judging import wrong
from tests.simulation.planted import PLANTED
from tests.simulation.world import Planted, World


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description="Plays a seed again.")
    parser.add_argument("seed", type=int)
    parser.add_argument("hours", type=float, nargs="?", default=1.0)
    parser.add_argument("--calm", action="store_true", help="services fall ill, and nothing else breaks")
    parser.add_argument("--plant", choices=sorted(PLANTED), metavar="NAME", help="a bug that the run should show")
    asked = parser.parse_args()
    planted = PLANTED[asked.plant].planted if asked.plant else Planted()
    with tempfile.TemporaryDirectory() as folder:
        world = World(asked.seed, Path(folder), hours=asked.hours, calm=asked.calm, planted=planted)
        began = time.process_time()
        world.play()
        found = wrong(world)
        took = time.process_time() - began
        world.close()
    jobs = f"{len(world.put)} plain jobs, {world.events} events"
    told = f"{asked.hours:g} h, {jobs}, digest {world.digest}, {took:.1f} s; after the faults {world.settled_at}"
    sys.stdout.write("\n".join([f"seed {asked.seed}: {told}", *found[:20], ""]))
    return bool(found)


sys.exit(main())
