"""Changes one thing in the code at a time and looks whether a unit test fails.

    make mutants
    python -m tools.mutants [--keep | --report] [--sample N] [FILE ...]

FILE is a pattern such as 'src/tidegate/guard/*.py'; without one, all that pyproject.toml names. A mutant that
survives shows a hole in the tests, or code that does nothing, or is no change at all: the last are listed in
tools/mutants/explained.toml, each with its reason. Ends with 1 if fewer are killed than pyproject.toml demands,
or if the list names a mutant that is gone or killed.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import os
import random
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from tools import figures
from tools.mutants.making import Mutant, mutants_of
from tools.mutants.report import Report, read_explained

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "mutants"
RESULTS = BUILD / "results.jsonl"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", nargs="*", metavar="FILE", help="a pattern of files, from the root of the repository")
    parser.add_argument("--keep", action="store_true", help="run only what no earlier run has killed")
    parser.add_argument("--report", action="store_true", help="run nothing: what the earlier runs have said")
    parser.add_argument("--sample", type=int, metavar="N", help="so many of each group by chance, the same each time")
    asked = parser.parse_args(arguments)
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mutants"]

    groups = [_mutants(group["files"], asked.files) for group in settings["groups"]]
    if asked.sample is not None:
        groups = [random.Random(1).sample(each, min(asked.sample, len(each))) for each in groups]
    explained = read_explained(ROOT / "tools" / "mutants" / "explained.toml")
    if not asked.report:
        if not asked.keep:
            RESULTS.unlink(missing_ok=True)
        before = _results()
        for group, some in zip(settings["groups"], groups, strict=True):
            left = [each for each in some if before.get(each.id) not in {"killed", "timeout"}]
            code = _run(left, group["tests"], explained, settings) if left else 0
            if code:
                return code
    mutants = [each for some in groups for each in some]
    whole = not asked.files and asked.sample is None
    report = Report(mutants, _results(), explained)
    print("\n".join(report.lines()))
    if figures.asked() and whole:
        figures.write("mutants", report.markdown())
    stale = report.stale if whole else []
    for name in stale:
        print(f"explained.toml explains what does not survive: {name}")
    return int(report.share < settings["least"] or bool(stale))


def _mutants(files: list[str], asked: list[str]) -> list[Mutant]:
    """Those of the files of a group that are asked for, in the order in which they are asked for."""
    ours = [file for pattern in files for file in sorted(ROOT.glob(pattern))]
    wanted = [file for pattern in asked for file in sorted(ROOT.glob(pattern)) if file in ours] if asked else ours
    return [each for file in dict.fromkeys(wanted) for each in _made(str(file.relative_to(ROOT)))]


def _made(file: str) -> list[Mutant]:
    """The mutants of a file; making them takes a while, so they are kept until the file changes."""
    sources = [(ROOT / file).read_bytes(), (ROOT / "tools" / "mutants" / "making.py").read_bytes()]
    kept = BUILD / "made" / f"{hashlib.sha256(b''.join([file.encode(), *sources])).hexdigest()}.json"
    if kept.exists():
        return [Mutant(**each) for each in json.loads(kept.read_text(encoding="utf-8"))]
    mutants = mutants_of(ROOT, file)
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps([dataclasses.asdict(each) for each in mutants]), encoding="utf-8")
    return mutants


def _run(mutants: list[Mutant], tests: list[str], explained: dict[str, str], settings: dict[str, Any]) -> int:
    BUILD.mkdir(parents=True, exist_ok=True)
    todo = BUILD / "todo.json"
    told = [{**dataclasses.asdict(each), "explained": each.name in explained} for each in mutants]
    todo.write_text(json.dumps(told), encoding="utf-8")
    paths = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])  # wherever it is installed from
    command = [
        sys.executable, "-m", "pytest", "-q", "-p", "tools.mutants.loop", "-p", "no:cacheprovider", "-p", "no:xdist",
        "-p", "no:schemathesis", f"--mutants={todo}", f"--results={RESULTS}", f"--budget={settings['budget']}",
        f"--children={settings['children']}", "-m", "not long and not alone", "-k", settings["choose"],
        *tests,
    ]  # fmt: skip
    return subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": paths}, check=False).returncode


def _results() -> dict[str, str]:
    """How the last run of each mutant ended, by its id."""
    if not RESULTS.exists():
        return {}
    lines = map(json.loads, RESULTS.read_text(encoding="utf-8").splitlines())
    return {each["id"]: each["result"] for each in lines}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
