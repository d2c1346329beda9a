"""Prints requirement -> tests -> result, and fails when the table of requirements promises more than the tests show.

``python -m tools.requirements RESULTS...`` reads the table in docs/reference/requirements.md and the results that
runs of ``pytest --requirements=RESULTS`` wrote, and takes them together. It exits 1 when

- a held requirement has no passing test, or a failing one,
- a test names an id that is not in the table,
- a row that was held is planned again, or a row is gone, against the committed table.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

TABLE = "docs/reference/requirements.md"
ROW = re.compile(r"^\| *(?P<id>[A-Z]+-\d+) *\|(?P<says>.*)\| *(?P<state>[^|]*?) *\|$")
STATES = ("planned", "held")

Table = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """How one test that names requirements ended."""

    test: str
    ids: tuple[str, ...]
    outcome: str


def read_table(text: str) -> dict[str, str]:
    """Id -> state of each row; raises ValueError for a row that says neither planned nor held, or stands twice."""
    table: dict[str, str] = {}
    for line in text.splitlines():
        row = ROW.match(line)
        if row is None:
            continue
        id_, state = row["id"], row["state"]
        if state not in STATES:
            raise ValueError(f"{id_}: the state is {state!r}, and must be one of {', '.join(STATES)}")
        if id_ in table:
            raise ValueError(f"{id_}: stands in the table twice")
        table[id_] = state
    return table


def read_results(text: str) -> list[Proof]:
    return [Proof(test=entry["test"], ids=tuple(entry["ids"]), outcome=entry["outcome"]) for entry in json.loads(text)]


def result(proofs: Iterable[Proof]) -> str:
    outcomes = {proof.outcome for proof in proofs}
    for outcome in ("failed", "passed", "skipped"):
        if outcome in outcomes:
            return outcome
    return "no test"


def problems(table: Table, proofs: Iterable[Proof], committed: Iterable[Table] = ()) -> Iterator[str]:
    by_id = group(proofs)
    for id_, state in table.items():
        shown = result(by_id.get(id_, ()))
        if state == "held" and shown != "passed":
            yield f"{id_} is held, but its result is: {shown}"
    for id_ in sorted(by_id.keys() - table.keys()):
        for proof in by_id[id_]:
            yield f"{proof.test} names {id_}, which is not in the table"
    # The same loss may show against more than one committed table.
    yield from dict.fromkeys(loss for before in committed for loss in losses(before, table))


def losses(before: Table, now: Table) -> Iterator[str]:
    for id_, state in before.items():
        if id_ not in now:
            yield f"{id_} is gone from the table"
        elif state == "held" and now[id_] == "planned":
            yield f"{id_} was held and is planned again"


def group(proofs: Iterable[Proof]) -> dict[str, list[Proof]]:
    by_id: dict[str, list[Proof]] = {}
    for proof in proofs:
        for id_ in proof.ids:
            by_id.setdefault(id_, []).append(proof)
    return by_id


def committed_tables(root: Path) -> list[Table]:
    """The table at HEAD and the one before its last change, as far as git has them.

    HEAD alone would not do: on a clean checkout it is the table itself, and a committed loss would pass.
    """
    commits = git(root, "log", "-2", "--format=%H", "--", TABLE)
    tables = [] if commits is None else [git(root, "show", f"{commit}:{TABLE}") for commit in commits.split()]
    return [read_table(text) for text in tables if text is not None]


def git(root: Path, *arguments: str) -> str | None:
    """What git printed, or None where there is no git, no repository or no commit yet."""
    try:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout if done.returncode == 0 else None


def render(table: Table, proofs: Iterable[Proof]) -> Iterator[str]:
    by_id = group(proofs)
    for id_, state in table.items():
        found = by_id.get(id_, [])
        yield f"{id_:<8} {state:<8} {len(found):>4} {'test ' if len(found) == 1 else 'tests'}  {result(found)}"
    held = sum(state == "held" for state in table.values())
    tested = sum(id_ in by_id for id_ in table)
    yield f"{len(table)} requirements: {held} held, {len(table) - held} planned, {tested} with a test"


def main(argv: list[str], root: Path | None = None) -> int:
    root = root or Path()
    try:
        table = read_table((root / TABLE).read_text())
        proofs = [proof for name in argv for proof in read_results((root / name).read_text())]
    except (OSError, ValueError) as exc:
        print(f"requirements: {exc}", file=sys.stderr)
        return 1
    print("\n".join(render(table, proofs)), flush=True)
    found = list(problems(table, proofs, committed_tables(root)))
    for problem in found:
        print(f"requirements: {problem}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or [".requirements.json"]))
