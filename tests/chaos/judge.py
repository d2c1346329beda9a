"""The verdict on a run, from raw SQL and raw files. Beside the rules for jobs: what was said yes to, files, leases."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.acceptance.checker import ORPHANED, Verdict, check, integrity, rows

_JOBS = "select id, kind, state, fence, result from tg_job order by id"
_NUMBERS = "select id, args from tg_job where kind <> 'sweeps'"
_LEASES = "select id, state, lease_by from tg_job where lease_by is not null or lease_until is not null order by id"
_TWINS = """select kind, args, count(*) from tg_job where kind not in ('sweeps', 'gives')
    group by kind, args having count(*) > 1 order by kind, args"""

_LOST_BY = "select job, fence, actor from tg_event where kind = 'lost' order by job, fence"
_ENDS = "select id, kind, state, error_code from tg_job order by id"
POISON, PARENT, CHILD = "kills", "gives", "joins"

GUILTY = "a job fails for a dead worker only if it killed it"
LOST = "nothing is lost"
DOUBLE = "one recorded outcome per job"
STALE = "only the newest lease's result counts"
FILES = "a recorded file is there, whole and its own"
ORPHANS = "no file is left that no job stands for"
LEASES = "no lease is left"
PARENTS = "a job has the results of the jobs that it needs"
OUTDATED = "a worker that is older than the schema claims nothing"
SOUND = "the database is sound"
# The four figures that decide, and which broken promises count for each; all others are "other".
FIGURES = {"lost": (LOST,), "double": (DOUBLE,), "stale": (STALE,), "orphans": (ORPHANS, LEASES), "bad files": (FILES,)}


def judge(
    url: str,
    *,
    acknowledged: Path,
    begun: Path,
    made: Path,
    drafts: Path,
    killed: Path,
    paused: Path,
    outdated: Path,
    restored: Path,
    outlived: Collection[tuple[int, int]] = (),
) -> Verdict:
    """What is true after the last sweep. *outlived*: jobs and fences whose worker heard that it had lost them."""
    said = _acknowledged(acknowledged)
    restores = [int(line) for line in restored.read_text().split()]
    verdict = check(url, begun, put={job for _, job in said}, restored=restores)
    _said_once(verdict, said)
    _put_in(verdict, said, rows(url, _NUMBERS))
    _named(verdict, rows(url, _JOBS), made)
    for file in sorted(drafts.iterdir()):
        verdict.wrong[ORPHANS].append(f"the draft {file.name}")
    for id_, state, by in rows(url, _LEASES):
        verdict.wrong[LEASES].append(f"job {id_} is {state}, and {by} has it")
    for kind, args, times in rows(url, _TWINS):
        verdict.wrong[DOUBLE].append(f"there are {times} jobs {kind} {args}")
    _outdated(verdict, begun, outdated)
    kills = _Kills(_pids(killed), _pids(paused), outlived)
    _poison(verdict, url, kills, {int(line.split()[0]) for line in begun.read_text().splitlines()})
    for each in integrity(url):
        verdict.wrong[SOUND].append(each)
    return verdict


def figures(verdict: Verdict) -> dict[str, int]:
    """How often each promise was broken."""
    found = {name: sum(len(verdict.wrong.get(each, ())) for each in rules) for name, rules in FIGURES.items()}
    known = {each for rules in FIGURES.values() for each in rules}
    found["other"] = sum(len(cases) for rule, cases in verdict.wrong.items() if rule not in known)
    return found


@dataclass(frozen=True)
class _Kills:
    """Who was hit from outside, by process."""

    killed: Collection[int]
    paused: Collection[int]
    outlived: Collection[tuple[int, int]]  # jobs and fences

    def alone(self, lost: Sequence[tuple[int, int, int]]) -> int:
        """How many of the losses of a job, as (job, fence, process), were kills while it may have run alone.

        Before its first loss it ran among others. A process that lived on was not killed then. One that is stopped
        when it should come back is as good as killed, but only until it goes on: so that may be the last loss alone.
        """
        found = sum(pid in self.killed and (job, fence) not in self.outlived for job, fence, pid in lost[1:])
        return found + any(pid in self.paused and pid not in self.killed for _, _, pid in lost[1:][-1:])


def _pids(file: Path) -> set[int]:
    return {int(line) for line in file.read_text().split()}


def _poison(verdict: Verdict, url: str, kills: _Kills, begun: Collection[int]) -> None:
    """Jobs that kill their worker fail for that; others fail only after three kills from outside."""
    lost: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for job, fence, actor in rows(url, _LOST_BY):
        lost[job].append((job, fence, int(actor.rsplit("-", 2)[1])))
    orphaned = {id_ for (id_,) in rows(url, ORPHANED)}
    for id_, kind, state, code in rows(url, _ENDS):
        if kind == POISON and (state, code) != ("failed", "worker_lost"):
            verdict.wrong[GUILTY].append(f"job {id_}, which kills its worker, is {state} with {code}")
        if kind == CHILD and code == "parent_failed":
            if id_ not in orphaned:
                verdict.wrong[GUILTY].append(f"job {id_} failed for its parents, and none of them did")
            if id_ in begun:
                verdict.wrong[GUILTY].append(f"job {id_} failed for its parents, and was begun before they ended")
        elif kind != POISON and state == "failed":
            verdict.innocent += 1
            if (times := kills.alone(lost[id_])) < 3:
                verdict.wrong[GUILTY].append(f"job {id_} failed with {code} after {times} kills from outside")


def _outdated(verdict: Verdict, begun: Path, outdated: Path) -> None:
    """Jobs that came after a migration are not begun by workers that were there before it."""
    newest = {int(pid): int(id_) for pid, id_ in (line.split() for line in outdated.read_text().splitlines())}
    for line in begun.read_text().splitlines():
        job, fence, _, pid = (int(part) for part in line.split())
        if pid in newest and newest[pid] < job:
            verdict.wrong[OUTDATED].append(f"job {job}, fence {fence} was begun by process {pid}")


def _acknowledged(file: Path) -> set[tuple[int, int]]:
    """Number and job. A line that was cut short by a kill says nothing."""
    *whole, _ = file.read_text().split("\n")
    return {(int(n), int(job)) for n, job in (line.split() for line in whole)}


def _said_once(verdict: Verdict, said: set[tuple[int, int]]) -> None:
    for n, times in Counter(n for n, _ in said).items():
        if times > 1:
            verdict.wrong[DOUBLE].append(f"number {n} was said to be {times} jobs")


def _put_in(verdict: Verdict, said: set[tuple[int, int]], jobs: Iterable[tuple[Any, ...]]) -> None:
    """An id that was said yes to is that very job: one that was taken back may be given out again."""
    numbers = {id_: json.loads(args)["a"]["n"] for id_, args in jobs}
    for n, job in sorted(said):
        if numbers.get(job, n) != n:
            verdict.wrong[LOST].append(f"job {job} was said to be number {n}, and is {numbers[job]}")


def _named(verdict: Verdict, jobs: Iterable[tuple[Any, ...]], made: Path) -> None:
    """Each done job has its file, and each file its done job."""
    there = {file.name for file in made.iterdir()}
    for id_, kind, state, fence, result in jobs:
        if kind in ("sweeps", POISON, PARENT) or state != "done":
            continue
        said = json.loads(result or "{}")
        if kind == CHILD and said.get("parents") != [said.get("n")] * 2:
            verdict.wrong[PARENTS].append(f"job {id_} got {said.get('parents')} of its parents")
        name = str(said.get("file"))
        if name not in there:
            verdict.wrong[FILES].append(f"job {id_}: {name} is not there")
            continue
        there.discard(name)
        data = (made / name).read_bytes()
        if (len(data), hashlib.sha256(data).hexdigest()) != (said.get("bytes"), said.get("sha256")):
            verdict.wrong[FILES].append(f"job {id_}: {name} is not what was recorded")
        elif not data.startswith(f"job {id_} fence {said.get('fence')} ".encode()):
            verdict.wrong[STALE].append(f"job {id_}: {name} was made under another lease than {fence}")
    for name in sorted(there):
        verdict.wrong[ORPHANS].append(f"the file {name}")
