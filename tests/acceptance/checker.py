"""The verdict on a run, from raw SQL and from the lines that handlers left. It shares no code with what it judges."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

JOBS = "select id, state, attempt, deaths_alone, fence, result, error_code from tg_job order by id"
EVENTS = "select job, fence, seq, kind, at, attempt, actor from tg_event order by job, fence, seq"
TALLIES = "select what, sum(delta) from tg_tally group by what"
ORPHANED = (
    "select link.child from tg_link as link join tg_job as job on job.id = link.parent where job.state = 'failed'"
)
FINAL = ("done", "failed", "cancelled")
JUMP = 1_000_000_000  # that a restore adds to every fence


def rows(url: str, sql: str) -> list[tuple[Any, ...]]:
    """The rows of a statement, past all of our own code."""
    if url.startswith("sqlite"):
        import apsw  # the library that the workers use: two on one file would corrupt it

        # A file that is missing must not be made again by the checker.
        connection = apsw.Connection(url.removeprefix("sqlite:///"), apsw.SQLITE_OPEN_READWRITE)
        connection.set_busy_timeout(10_000)
        try:
            return [tuple(row) for row in connection.execute(sql)]
        finally:
            connection.close()
    import psycopg

    with psycopg.connect(url, autocommit=True) as server:
        return server.execute(sql).fetchall()


@dataclass
class Verdict:
    """What was found. Everything in *wrong* breaks a promise."""

    jobs: int = 0
    done: int = 0
    poisoned: int = 0
    innocent: int = 0  # of these, where a run has jobs that kill their worker: those that did not
    lost_attempts: int = 0
    late_results: int = 0
    repeats: int = 0
    wrong: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    @property
    def ok(self) -> bool:
        return not self.wrong

    def __str__(self) -> str:
        ends = f"{self.jobs} jobs, {self.done} done, {self.poisoned} failed as poison"
        lost = f"{self.lost_attempts} attempts lost, {self.repeats} begun again after that"
        told = [f"{ends}, {lost}, {self.late_results} late results refused"]
        for promise, cases in self.wrong.items():
            told.append(f"BROKEN {promise}: {len(cases)}, such as {'; '.join(cases[:3])}")
        return "\n".join(told)


def check(
    url: str, effects: Path, *, put: Collection[int], gone: Collection[int] | None = None, restored: Sequence[int] = ()
) -> Verdict:
    """*put*: the ids that were enqueued; *gone*: the processes that were killed, where only they may lose attempts.

    *restored*: for each restore, how many attempts had begun when its copy was made. It forgets what came later.
    """
    verdict = Verdict()
    jobs = {row[0]: row for row in rows(url, JOBS)}
    events: defaultdict[int, list[tuple[Any, ...]]] = defaultdict(list)
    for event in rows(url, EVENTS):
        events[event[0]].append(event)
    cut_short = Counter(job for job, found in events.items() for event in found if event[3] == "restored")
    begun = _begun(effects, {(job, event[1]) for job, found in events.items() for event in found}, cut_short, restored)
    verdict.jobs = len(jobs)
    orphaned = {id_ for (id_,) in rows(url, ORPHANED)}
    wrong = verdict.wrong
    for id_ in put:
        if id_ not in jobs:
            wrong["nothing is lost"].append(f"job {id_} is gone")
    for id_, (_, state, attempt, alone, fence, result, code) in jobs.items():
        ends = {event[1]: event[3] for event in events[id_] if event[2] == 0}
        _outcome(verdict, id_, state, fence, result, ends, restores=len(restored))
        if state == "failed":
            if code == "worker_lost" and alone == 3:
                verdict.poisoned += 1
            elif code != "parent_failed" or id_ not in orphaned:
                wrong["every job succeeds"].append(f"job {id_} failed with {code} after {alone} deaths alone")
        _attempts(verdict, id_, attempt - cut_short[id_], fence, ends, begun[id_])
        for event in events[id_]:
            verdict.late_results += event[3] == "stale_result"
            if event[3] == "lost":
                verdict.lost_attempts += 1
                if gone is not None and _process(event[6]) not in gone:
                    wrong["only the killed lose attempts"].append(f"job {id_}, fence {event[1]}, by {event[6]}")
    _numbers(verdict, url, jobs.values())
    return verdict


def _outcome(
    verdict: Verdict, id_: int, state: str, fence: int, result: str | None, ends: dict[int, str], *, restores: int
) -> None:
    wrong = verdict.wrong
    if state not in FINAL:
        wrong["nothing is lost"].append(f"job {id_} is {state}")
        return
    verdict.done += state == "done"
    finals = [at for at, kind in ends.items() if kind in FINAL]
    # One that died of three workers has no attempt that failed: its last one was lost.
    if len(finals) != (state == "done") and not (state == "failed" and len(finals) <= 1):
        wrong["one recorded outcome per job"].append(f"job {id_} ended at the fences {finals}")
    if state == "done":
        said = json.loads(result or "{}").get("fence")
        if said not in [fence - JUMP * jumps for jumps in range(restores + 1)]:
            wrong["only the newest lease's result counts"].append(f"job {id_}: fence {fence}, result of fence {said}")
            said = fence
        if ends.get(said) != "done":
            wrong["one recorded outcome per job"].append(f"job {id_}: fence {said} ended as {ends.get(said)}")


def _attempts(verdict: Verdict, id_: int, attempt: int, fence: int, ends: dict[int, str], begun: Counter[int]) -> None:
    wrong = verdict.wrong
    for at, times in begun.items():
        if times > 1:
            wrong["a lease is begun once"].append(f"job {id_}, fence {at}: {times} times")
        if at not in ends:
            wrong["every attempt has an end"].append(f"job {id_}, fence {at} was begun")
    if any(not 1 <= at <= fence for at in ends):
        wrong["fences only grow"].append(f"job {id_}: fence {fence}, ends {sorted(ends)}")
    earlier = [at for at in begun if at != max(begun)]
    verdict.repeats += sum(ends.get(at) == "lost" for at in earlier)
    for at in earlier:
        if ends.get(at) not in ("lost", "again", "trial", "given_back"):
            wrong["work is repeated only after a lost attempt"].append(f"job {id_}, fence {at} ended {ends.get(at)}")
    # What was begun or died counts, what was given back unbegun or failed as a trial does not.
    counted = sum(kind != "trial" and (at in begun or kind != "given_back") for at, kind in ends.items())
    if attempt != counted:
        wrong["attempts are counted exactly"].append(f"job {id_}: {attempt}, not {counted}; {ends}, {dict(begun)}")


def _numbers(verdict: Verdict, url: str, jobs: Collection[tuple[Any, ...]]) -> None:
    counted = Counter(job[1] for job in jobs)
    kept = {what: int(n) for what, n in rows(url, TALLIES) if n and ":" not in what and not what.endswith("_total")}
    if kept != dict(counted):
        verdict.wrong["the numbers are right"].append(f"kept {kept}, counted {dict(counted)}")


def _begun(
    effects: Path, known: Collection[tuple[int, int]], cut_short: Counter[int], restored: Sequence[int]
) -> defaultdict[int, Counter[int]]:
    """How often each lease was begun, without those that a restore has forgotten."""
    found: defaultdict[int, Counter[int]] = defaultdict(Counter)
    for i, line in enumerate(effects.read_text().splitlines()):
        id_, fence, _, _ = (int(part) for part in line.split())
        epoch = fence // JUMP
        forgotten = epoch < len(restored) and (i >= restored[epoch] or cut_short[id_] > 0)
        if not forgotten or (id_, fence) in known:
            found[id_][fence] += 1
    return found


def _process(actor: str) -> int:
    return int(actor.rsplit("-", 2)[1])


def integrity(url: str) -> Sequence[str]:
    """What SQLite itself finds wrong with the file."""
    if not url.startswith("sqlite"):
        return []
    return [text for (text,) in rows(url, "pragma integrity_check") if text != "ok"]
