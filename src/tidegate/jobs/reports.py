"""Reports of queues, jobs and workers."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Protocol

from tidegate import labels
from tidegate.errors import NotFound
from tidegate.faults.redaction import shown_json
from tidegate.guard.breaker_state import OPEN
from tidegate.jobs import actions, explain, settle
from tidegate.jobs.explain import WORKER_GONE
from tidegate.jobs.job import Job, JobEvent, StoredState
from tidegate.labels import JOBS, ahead, format_duration, in_brackets
from tidegate.store.base import Tx, now_of
from tidegate.targets import table
from tidegate.targets.explain import WaitReason
from tidegate.targets.status import full


class JobLabelInput(Protocol):
    """The fields of a job that its label needs."""

    @property
    def stage(self) -> str: ...
    @property
    def target(self) -> str: ...
    @property
    def attempt(self) -> int: ...
    @property
    def most_attempts(self) -> int: ...
    @property
    def code(self) -> str | None: ...
    @property
    def due_at(self) -> float: ...
    @property
    def finished_at(self) -> float | None: ...


def job_token(job: JobLabelInput) -> str:
    """The token of a job's label in `JOBS`."""
    if job.stage == StoredState.WAITING:
        return "retrying" if job.attempt or job.code else "scheduled"
    if job.stage == StoredState.READY:
        return "queued"
    return "expired" if job.stage == StoredState.FAILED and job.code == "expired" else job.stage


def job_reason(job: JobLabelInput, now: float, held: str = "") -> str:
    """The reason for a job's state in one line. *held*: the result of `holding` for its target."""
    token, situation = job_token(job), ""
    if job.stage == StoredState.READY and job.target:
        situation = held or "target"
    elif "refused" in JOBS[token].lines and not job.attempt:
        situation = "refused"
    since = job.due_at if job.finished_at is None else job.finished_at
    return JOBS[token].line(
        situation,
        attempt=job.attempt,
        most=job.most_attempts,
        target=job.target,
        code=in_brackets(job.code),
        age=format_duration(now - since),
        when=ahead(job.due_at, now),
    )


STAGES = tuple(str(stage) for stage in StoredState)
_QUEUED = ("blocked", "waiting", "ready")
_LATELY, _MAX_LATELY = 300.0, 500  # the window of a queue's rate, in seconds and in jobs


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueReport:
    """One queue: job counts by state, pause, workers and rate."""

    name: str
    jobs: dict[str, int]
    paused_until: float | None = None
    paused_by: str | None = None
    workers: int = 0
    oldest: float | None = None  # wait time in seconds of the oldest ready job
    oldest_job: int | None = None
    rate: float | None = None  # recently done jobs per minute

    @property
    def waiting(self) -> int:
        return sum(self.jobs.get(stage, 0) for stage in _QUEUED)

    @property
    def drained_in(self) -> float | None:
        """Seconds until the queue is empty at the recent rate; None when no job was done recently."""
        return self.waiting / self.rate * 60 if self.rate else None

    def as_json(self) -> dict[str, object]:
        return {**asdict(self), "waiting": self.waiting, "drained_in": self.drained_in}


class JobSummary(NamedTuple):
    """One job in a list."""

    id: int
    queue: str
    kind: str
    target: str
    key: str
    stage: str
    priority: int
    created_at: float
    due_at: float
    attempt: int
    most_attempts: int
    code: str | None
    finished_at: float | None

    @property
    def state(self) -> str:
        return str(StoredState(self.stage).state)

    @property
    def token(self) -> str:
        """The token of its label in `labels.JOBS`."""
        return job_token(self)

    @property
    def word(self) -> str:
        return labels.JOBS[self.token].word

    def reason(self, now: float, held: Mapping[str, str] | None = None) -> str:
        """The reason for its state in one line. *held*: the result of `holding`."""
        return job_reason(self, now, (held or {}).get(self.target, ""))

    def as_json(self) -> dict[str, Any]:
        return {"state": self.state, "token": self.token, "word": self.word, **self._asdict()}


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerReport:
    id: str
    host: str
    pid: int
    started_at: float
    seen_at: float
    queues: list[str]
    stopping: bool
    outdated: bool  # older than the schema: it claims nothing
    there: bool

    def as_json(self) -> dict[str, object]:
        return asdict(self)


def queues(tx: Tx, *, ages: bool = True) -> list[QueueReport]:
    """Every queue that has or had jobs, or is paused. *ages*: whether to compute wait times and rates."""
    now = now_of(tx)
    counts: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for (queue, what), n in settle.read(tx).items():
        if what in STAGES:
            counts[queue] |= {what: n} if n else {}  # omits zeros, whether or not they are summed up
    paused = {name: (until, by) for name, _, until, by in tx.query("queue_rows") if until is not None and now < until}
    active = [worker for worker in workers(tx) if worker.there and not worker.outdated]
    reports = []
    for name in sorted({*counts, *paused}):
        until, by = paused.get(name, (None, None))
        at_work = sum(name in worker.queues for worker in active)
        first = first_ready(tx, name) if ages and counts[name].get("ready") else []
        eldest = next(iter(first), None)
        held = holding(tx, first)
        # While all jobs are held, the rate says nothing about the time to drain.
        goes_on = not first or any(held.get(job.target) in (None, "full") for job in first)
        reports.append(
            QueueReport(
                name=name,
                jobs=counts[name],
                paused_until=until,
                paused_by=by,
                workers=at_work,
                oldest=None if eldest is None else max(0.0, now - eldest.due_at),
                oldest_job=None if eldest is None else eldest.id,
                rate=_rate(tx, name, now) if ages and goes_on else None,
            )
        )
    return reports


def holding(tx: Tx, jobs: Iterable[JobSummary]) -> dict[str, str]:
    """Why ready jobs wait, by target: "shut", "paused" or "full"."""
    now = now_of(tx)
    names = sorted({job.target for job in jobs if job.stage == StoredState.READY and job.target})
    rows = {name: row for name in names if (row := table.target(tx, name)) is not None}
    paused = {name for name, row in rows.items() if row.paused_until is not None and now < row.paused_until}
    shut = {name for name, row in rows.items() if row.breaker.state == OPEN}
    taken = {name for name, row in rows.items() if full(row, now) is not None}
    return {**dict.fromkeys(taken, "full"), **dict.fromkeys(shut, "shut"), **dict.fromkeys(paused, "paused")}


def first_ready(tx: Tx, queue: str) -> list[JobSummary]:
    """The first ready jobs by id, sorted by due time, because each may have been delayed."""
    ids = [{"id": id_} for id_ in tx.scalars(int, "ready_oldest", {"queue": queue, "n": 20})]
    return sorted(tx.query_many_as(JobSummary, "list_rows", ids), key=lambda line: line.due_at)


def _rate(tx: Tx, queue: str, now: float) -> float | None:
    n, first = tx.query("lately_done", {"queue": queue, "since": now - _LATELY, "n": _MAX_LATELY})[0]
    span = _LATELY if n < _MAX_LATELY else max(1.0, now - first)
    return n / span * 60 if n else None


def workers(tx: Tx) -> list[WorkerReport]:
    now = now_of(tx)
    return [
        WorkerReport(
            id=id_,
            host=host,
            pid=pid,
            started_at=started,
            seen_at=seen,
            queues=json.loads(names),
            stopping=bool(stopping),
            outdated=bool(outdated),
            there=now - seen <= WORKER_GONE,
        )
        for id_, host, pid, started, seen, names, stopping, outdated in tx.query("workers")
    ]


@dataclass(frozen=True, slots=True)
class JobReport:
    """One job with its history and its wait reasons."""

    job: Job
    events: list[JobEvent]
    reasons: list[WaitReason]

    def as_json(self) -> dict[str, object]:
        about = asdict(self.job)
        for name in ("args", "saved", "result"):
            about[name] = shown_json(about[name])
        return {
            **about,
            "state": str(self.job.state),
            "events": [event.as_json() for event in self.events],
            "waits_for": [why.as_json() for why in self.reasons],
        }


def job(tx: Tx, id_: int) -> JobReport:
    current = actions.get(tx, id_)
    if current is None:
        raise NotFound(f"there is no job {id_}")
    return JobReport(current, actions.events(tx, id_), explain.job(tx, id_))
