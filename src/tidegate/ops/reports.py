"""What people see: queues, targets, jobs and workers, as values. Nothing here counts a big table."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import asdict, dataclass, field
from typing import Any

from tidegate.core.job import Job, JobEvent, Stage
from tidegate.errors import NotThere
from tidegate.machine.states import CLOSED
from tidegate.ops import explain
from tidegate.ops.explain import WORKER_GONE, Why
from tidegate.store import gate_rows, people, tallies
from tidegate.store.gate_rows import GateEvent, HoldRow, TargetRow
from tidegate.store.tx import Tx

STAGES = tuple(str(stage) for stage in Stage)
_FINAL = ("done", "failed", "cancelled")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueReport:
    """One queue: how many jobs in which state, and whether it is paused."""

    name: str
    jobs: dict[str, int]
    paused_until: float | None = None
    paused_by: str | None = None
    workers: int = 0

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class JobLine:
    """One job in a list. The fields are the columns."""

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
        return str(Stage(self.stage).state)

    def as_json(self) -> dict[str, Any]:
        return {"state": self.state, **asdict(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which jobs; an empty text stands for any. *state* may also be blocked, waiting or ready."""

    queue: str = ""
    state: str = ""
    kind: str = ""
    target: str = ""
    code: str = ""
    most: int = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetReport:
    """One target: its breaker, who paused it, how many keys are held, and what programs of their own say of it."""

    name: str
    state: str  # "open" and "half-open" are the breaker's; "paused", "held" (some keys are), "well"
    breaker: str
    since: float
    until: float | None
    paused_until: float | None
    paused_by: str | None
    held_keys: int
    running: int
    rules: dict[str, Any] = field(default_factory=dict)
    programs: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerReport:
    id: str
    host: str
    pid: int
    started_at: float
    seen_at: float
    queues: list[str]
    stopping: bool
    there: bool

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def queues(tx: Tx) -> list[QueueReport]:
    """Every queue that has or had jobs, or was paused."""
    now = float(tx.all("clock")[0][0])
    counts: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for (queue, what), n in tallies.read(tx).items():
        if what in STAGES:
            counts[queue][what] = n
    paused = {name: (until, by) for name, _, until, by in tx.all("queue_rows") if until is not None and now < until}
    there = [worker for worker in workers(tx) if worker.there]
    found = []
    for name in sorted({*counts, *paused}):
        until, by = paused.get(name, (None, None))
        at_work = sum(name in worker.queues for worker in there)
        found.append(QueueReport(name=name, jobs=counts[name], paused_until=until, paused_by=by, workers=at_work))
    return found


def workers(tx: Tx) -> list[WorkerReport]:
    now = float(tx.all("clock")[0][0])
    return [
        WorkerReport(
            id=id_, host=host, pid=pid, started_at=started, seen_at=seen, queues=json.loads(names),
            stopping=bool(stopping), there=now - seen <= WORKER_GONE,
        )
        for id_, host, pid, started, seen, names, stopping in tx.all("workers")
    ]  # fmt: skip


def jobs(tx: Tx, wanted: Wanted) -> list[JobLine]:
    """A list of jobs, as short as was asked."""
    if wanted.state and wanted.state not in (*STAGES, "queued"):
        raise ValueError(f"state: {wanted.state!r} is not allowed; give one of: queued, {', '.join(STAGES)}")
    given = {"queue": wanted.queue, "kind": wanted.kind, "target": wanted.target, "code": wanted.code}
    match wanted.state:
        case "queued":
            rows = [
                row for state in ("ready", "waiting", "blocked") for row in _in_state(tx, given, state, wanted.most)
            ]
        case "":
            rows = tx.all("jobs_newest", {**given, "state": "", "n": wanted.most})
        case state:
            rows = _in_state(tx, given, state, wanted.most)
    return [JobLine(*row) for row in rows[: wanted.most]]


def _in_state(tx: Tx, given: dict[str, str], state: str, most: int) -> list[tuple[Any, ...]]:
    if state == "blocked":
        return tx.all("jobs_newest", {**given, "state": state, "n": most})
    if state in ("waiting", "running"):
        return tx.all(f"jobs_{state}", {**given, "n": most})
    names = [given["queue"]] if given["queue"] else sorted({queue for queue, _ in tallies.read(tx)})
    found: list[tuple[Any, ...]] = []
    for name in names:
        place = {**given, "queue": name, "n": most}
        found += tx.all("jobs_final", {**place, "state": state}) if state in _FINAL else tx.all("jobs_ready", place)
    return sorted(found, key=lambda row: row[-1] or 0, reverse=True) if state in _FINAL else found


@dataclass(frozen=True, slots=True)
class JobReport:
    """One job with its history, and why it waits if it does."""

    job: Job
    events: list[JobEvent]
    whys: list[Why]

    def as_json(self) -> dict[str, Any]:
        about = asdict(self.job)
        for name in ("args", "saved", "result"):
            about[name] = _parsed(about[name])
        return {
            **about, "state": str(self.job.state), "events": [event.as_json() for event in self.events],
            "waits_for": [why.as_json() for why in self.whys],
        }  # fmt: skip


def job(tx: Tx, id_: int) -> JobReport:
    found = people.get(tx, id_)
    if found is None:
        raise NotThere(f"there is no job {id_}")
    return JobReport(found, people.events(tx, id_), explain.job(tx, id_))


def targets(tx: Tx) -> list[TargetReport]:
    """Every target that has ever been met."""
    now = float(tx.all("clock")[0][0])
    held = {name: int(n) for name, n in tx.all("holds_counted")}
    return [_target(tx, row, held.get(row.name, 0), now) for row in gate_rows.targets(tx)]


@dataclass(frozen=True, slots=True)
class TargetDetail:
    """One target, what holds it, which of its keys are not well, and what happened to it."""

    report: TargetReport
    whys: list[Why]
    keys: list[HoldRow]
    events: list[GateEvent]

    def as_json(self) -> dict[str, Any]:
        keys = [
            {"key": row.lane, "reason": row.reason, "since": row.since, "until": row.until, "failures": row.failures,
             "code": row.code, "message": row.message}
            for row in self.keys
        ]  # fmt: skip
        return {
            **self.report.as_json(), "waits_for": [why.as_json() for why in self.whys], "keys": keys,
            "events": [event.as_json() for event in self.events],
        }  # fmt: skip


def target(tx: Tx, name: str, most: int = 50) -> TargetDetail:
    row = gate_rows.target(tx, name)
    if row is None:
        raise NotThere(f"there is no target {name!r}")
    keys = [hold for hold in gate_rows.holds_of(tx, name, most) if hold.reason != gate_rows.OPEN]
    report = _target(tx, row, len(keys), float(tx.all("clock")[0][0]))
    return TargetDetail(report, explain.target(tx, name, ""), keys, gate_rows.events(tx, "target", name, most))


def _target(tx: Tx, row: TargetRow, held: int, now: float) -> TargetReport:
    paused = row.paused_until is not None and now < row.paused_until
    breaker = row.breaker
    state = breaker.state if breaker.state != CLOSED else "paused" if paused else "held" if held else "well"
    return TargetReport(
        name=row.name, state=state, breaker=breaker.state, since=breaker.since, until=breaker.until,
        paused_until=row.paused_until if paused else None, paused_by=row.paused_by if paused else None, held_keys=held,
        running=int(tx.all("running_of", {"target": row.name, "since": 0.0})[0][0]),
        rules=json.loads(row.rules) if row.rules else {}, programs=json.loads(row.summary) if row.summary else {},
    )  # fmt: skip


def _parsed(text: str | None) -> Any:
    try:
        return None if text is None else json.loads(text)
    except ValueError:
        return text
