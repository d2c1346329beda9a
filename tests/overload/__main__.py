"""Plays a course and shows it: `python -m tests.overload 0.9 --held 20000`."""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from pathlib import Path

from tests.overload.course import Course
from tests.overload.measuring import measured, table
from tests.overload.test_overload import NO_CLIMB


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.overload", description=__doc__)
    parser.add_argument("load", type=float, help="jobs a second, as a share of the capacity")
    parser.add_argument("--held", type=int, default=20_000, help="jobs that are put in during the dip")
    parser.add_argument("--capacity", type=float, default=100.0, help="answers a second")
    parser.add_argument("--workers", type=int, default=10, help="each with its usual 20 jobs at the same time")
    parser.add_argument("--dip", type=float, default=30.0, help="seconds")
    parser.add_argument("--most", type=float, default=20_000.0, help="seconds; then it is given up")
    parser.add_argument("--at-once", action="store_true", help="without the climb after the breaker has closed")
    said = vars(parser.parse_args())
    logging.getLogger("tidegate").setLevel(logging.CRITICAL)
    if said.pop("at_once"):
        said["changed"] = NO_CLIMB
    with tempfile.TemporaryDirectory() as folder:
        course, began = Course(Path(folder), **said), time.process_time()
        course.play()
    lines = [f"{at:7d} {asked:9.1f} {good:9.1f} {depth:9d}" for at, asked, good, depth in table(course)]
    head = f"{'second':>7} {'calls/s':>9} {'good/s':>9} {'waiting':>9}"
    moves = ", ".join(f"{state} at {at:.0f} s" for at, state in course.moves)
    sys.stdout.write("\n".join([head, *lines, f"breaker: {moves}", str(measured(course)), ""]))
    sys.stdout.write(f"{len(course.gateway.calls)} calls, {time.process_time() - began:.0f} s of processor time\n")


main()
