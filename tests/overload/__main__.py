"""Plays an outage with a backlog and shows the recovery.

python -m tests.overload                       every course of docs/explanation/overload.md; WRITE=1 writes them
python -m tests.overload 0.9 --held 20000      one course, second by second
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.overload.course import Course
from tests.overload.measuring import Measured, measured, table
from tests.overload.test_overload import NO_CLIMB
from tools import figures

# Seconds of the course that the page shows: dense around the outage, sparse while the backlog drains.
SHOWN = (50, 60, 70, 90, 120, 150, 180, 190, 200, 210, 220, 230, 240, 300, 400, 500, 600, 700, 800, 890, 900, 910)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.overload", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("load", type=float, nargs="?", help="jobs a second, as a share of the capacity")
    parser.add_argument("--held", type=int, default=20_000, help="jobs that are put in during the dip")
    parser.add_argument("--capacity", type=float, default=100.0, help="answers a second")
    parser.add_argument("--workers", type=int, default=10, help="each with its usual 20 jobs at the same time")
    parser.add_argument("--dip", type=float, default=30.0, help="seconds")
    parser.add_argument("--most", type=float, default=20_000.0, help="seconds; then it is given up")
    parser.add_argument("--at-once", action="store_true", help="without the climb after the breaker has closed")
    said = vars(parser.parse_args())
    logging.getLogger("tidegate").setLevel(logging.CRITICAL)
    if said["load"] is None:
        every_course()
        return
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


def every_course() -> None:
    """The tables of the page."""
    large_courses()
    small_courses()


def large_courses() -> None:
    at_60, at_90 = played(load=0.6, held=20_000), played(load=0.9, held=20_000)
    show("recovery", compared({"load of 60 %": at_60, "load of 90 %": at_90}))
    show("recovery-course", second_by_second(at_60))


def small_courses() -> None:
    """A fifth of the size, with and without the climb, and a dip that does not open the breaker."""
    fifth: dict[str, Any] = {"load": 0.6, "held": 300, "capacity": 20.0, "workers": 2, "most": 900.0}
    dip: dict[str, Any] = {**fifth, "held": 0, "calm": 75.0, "dip": 4.0}
    courses = {
        "gradual": played(**fifth),
        "everything at once": played(**fifth, changed=NO_CLIMB),
        "gradual, a dip of 4 s": played(**dip),
    }
    show("recovery-compared", compared(courses))


def show(name: str, markdown: str) -> None:
    sys.stdout.write(f"{markdown}\n\n")
    if figures.asked():
        figures.write(name, markdown)


def played(**said: Any) -> Course:
    with tempfile.TemporaryDirectory() as folder:
        course = Course(Path(folder), **said)
        course.play()
    return course


def compared(courses: dict[str, Course]) -> str:
    """One column for each course, counted from the moment when the service is back."""
    found = [measured(course) for course in courses.values()]
    rows = [
        ("goodput as before, after the breaker closed", *(recovered(each) for each in found)),
        ("most calls in a second, of the capacity", *(f"{each.most_offered:.2f}" for each in found)),
        ("calls that failed", *(each.failed for each in found)),
        ("times that the breaker opened", *(each.trips for each in found)),
        ("backlog drained, after the breaker closed", *(drained(each) for each in found)),
    ]
    return figures.table(["", *courses], rows)


def recovered(found: Measured) -> str:
    return "never" if found.took is None else f"{found.well_after:.0f} s"


def drained(found: Measured) -> str:
    return "never" if found.took is None else f"{found.took:.0f} s (ideal {found.ideal:.0f} s)"


def second_by_second(course: Course) -> str:
    rows = [
        (at, f"{asked:.0f}", f"{good:.0f}", f"{depth:,}") for at, asked, good, depth in table(course) if at in SHOWN
    ]
    return figures.table(["second", "calls a second", "good responses a second", "jobs waiting"], rows, left=0)


if __name__ == "__main__":
    main()
