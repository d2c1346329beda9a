"""An hour of mixed load with faults: `python -m tests.soak --minutes 60`. Exit 1 when something grows."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.soak import inside
from tests.soak.processes import Running, running
from tests.soak.sampling import HISTORY, Values, kind_of, sampled
from tests.soak.slope import Judged, Kind, judged
from tools import figures

EVERY = 10.0  # seconds between two samples
LEAST = 3.0  # minutes
BLOCKS = {"sqlite": "soak-sqlite", "postgres": "soak-postgres"}  # of docs/explanation/how-it-is-tested.md


def watched(there: Running, minutes: float, log: Path) -> list[tuple[float, Values]]:
    """Samples until the time is over; each is also written to *log*, so that a run that is broken off is not lost."""
    began, found = time.monotonic(), list[tuple[float, Values]]()
    with log.open("w") as lines:
        while (at := time.monotonic() - began) < minutes * 60:
            found.append((at, sampled(there.sampled, there.url)))
            lines.write(json.dumps(found[-1]) + "\n")
            lines.flush()
            if dead := there.dead():
                raise SystemExit(f"ended by itself: {', '.join(dead)}; see {there.folder}")
            time.sleep(max(0.0, EVERY - (time.monotonic() - began - at)))
    return found


def verdicts(samples: list[tuple[float, Values]]) -> dict[str, tuple[Kind, Judged]]:
    """What each series says. One that began late counts as nothing before."""
    names = sorted({name for _, values in samples for name in values})
    found = {}
    for name in names:
        kind, share = kind_of(name)
        found[name] = kind, judged([(at, values.get(name, 0.0)) for at, values in samples], kind, share)
    return found


def judged_lines(found: dict[str, tuple[Kind, Judged]]) -> list[tuple[str, str, str, str]]:
    """What was sampled, its level, its growth an hour and the verdict; series that were always zero are left out."""
    lines = []
    for name, (kind, said) in found.items():
        if said.level or said.per_hour:
            why = HISTORY.get(name.removeprefix("rows "), "grows with what is kept")
            verdict = "GROWS" if said.grows else f"kept: {why}" if kind is Kind.KEPT else "flat"
            lines.append((name, f"{said.level:.1f}", f"{said.per_hour:+.2f}", verdict))
    return lines


def table(found: dict[str, tuple[Kind, Judged]]) -> str:
    head = ("what", "level", "an hour", "verdict")
    return "\n".join(f"{line[0]:<32} {line[1]:>10} {line[2]:>10}  {line[3]}" for line in (head, *judged_lines(found)))


def markdown(found: dict[str, tuple[Kind, Judged]], load: str) -> str:
    """The second half of the run as a table of the documentation; rows of tables that are not kept are one line."""
    lines = judged_lines(found)
    tables = [line for line in lines if line[0].startswith("rows ") and not line[3].startswith("kept")]
    grown = [line[0].removeprefix("rows ") for line in tables if line[3] == "GROWS"]
    rows = [line for line in lines if not line[0].startswith("rows ")]
    rows.append(
        (
            f"rows of {len(tables)} tables that are not kept for days",
            "",
            "",
            f"GROWS: {', '.join(grown)}" if grown else "flat",
        )
    )
    return figures.table(["what", "level", "an hour", "verdict"], [*rows, ("load", "", "", load)])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="how long; 20 or more, to judge memory fairly")
    parser.add_argument("--database", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--plant", choices=["leak"], help="a bug that must be found")
    parser.add_argument("--keep", type=Path, help="a new folder for the database, the logs and the samples")
    parser.add_argument(
        "--inside", choices=["types", "lines"], help="let each process say what it is made of; see inside.py"
    )
    parser.add_argument("--again", type=Path, help="judge the samples.jsonl of a run that was kept, and run nothing")
    said = parser.parse_args()
    if said.again is not None:
        return told(verdicts([(at, values) for at, values in map(json.loads, said.again.read_text().splitlines())]))
    if said.inside is not None and said.keep is None:
        parser.error("--inside: what they write would be removed at the end; give --keep FOLDER, too")
    if said.keep is not None and said.keep.exists() and any(said.keep.iterdir()):
        parser.error(f"--keep: {said.keep} is not empty; give a new folder")
    if said.minutes < LEAST:
        parser.error(f"--minutes: {said.minutes:g} give too few samples to judge; give {LEAST:g} or more")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started is stopped then, too
    with tempfile.TemporaryDirectory(prefix="tidegate-soak-") as made:
        folder = Path(made) if said.keep is None else said.keep.absolute()
        folder.mkdir(exist_ok=True)
        if said.inside is not None:
            inside.ask(folder, said.inside)
        with running(folder, said.database, leaks=said.plant == "leak") as there:
            print(f"server, two workers and a third that is killed, on {said.database}, for {said.minutes:g} min")  # noqa: T201
            samples = watched(there, said.minutes, folder / "samples.jsonl")
        load = f"{len(samples)} samples, {there.kills} kills, {there.stops} stops; {there.told}"
        print(load)  # noqa: T201
    found = verdicts(samples)
    if figures.asked():
        figures.write(BLOCKS[said.database], markdown(found, f"{said.minutes:g} min, {load}"))
    return told(found)


def told(found: dict[str, tuple[Kind, Judged]]) -> int:
    """Prints the verdict; the exit code."""
    grown = [name for name, (_, each) in found.items() if each.grows]
    print(table(found))  # noqa: T201
    print(f"grows: {', '.join(grown)}" if grown else "Nothing grows.")  # noqa: T201
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
