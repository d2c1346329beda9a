"""Why is this not running, and when will it? Everything is read from the store, so that any process can answer."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tidegate.core.job import Job, Stage
from tidegate.core.rate import Rate
from tidegate.errors import NotThere
from tidegate.machine import filling, shared_breaker
from tidegate.machine.filling import Filling, Limits
from tidegate.machine.gate import EndedBy, HoldReason
from tidegate.machine.ramp import UNLIMITED
from tidegate.machine.states import CLOSED, HALF_OPEN, OPEN
from tidegate.ops.standing import of_programs
from tidegate.ops.words import opened_because, spelled
from tidegate.store import gate_rows, people
from tidegate.store.gate_rows import HoldRow, TargetRow
from tidegate.store.tx import Tx

CYCLE = "cycle "  # before the name of a queue, in the store: when its next cycle begins
# A worker that has not been heard of for so long is not there.
WORKER_GONE = 35.0
_MOST_COUNTED = 1000


class WaitsFor(StrEnum):
    """Reasons that no gate has: those of the job itself."""

    DEPENDENCY = "dependency"
    SCHEDULED = "scheduled"
    NO_WORKER = "no_worker"
    NEXT = "next_in_line"


# Every reason there is, in the order in which they are told.
REASONS: tuple[HoldReason | WaitsFor, ...] = (*HoldReason, *WaitsFor)
_ORDER = {reason: rank for rank, reason in enumerate(REASONS)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """One reason. Times are UNIX time; *until* is None when no time ends it."""

    reason: HoldReason | WaitsFor
    subject: str  # what it is about: "queue mail", "target spotify", "key 7 of spotify", "job 12"
    since: float | None
    until: float | None
    ended_by: EndedBy
    message: str  # for people

    def as_json(self) -> dict[str, Any]:
        return {
            "reason": str(self.reason), "subject": self.subject, "since": self.since, "until": self.until,
            "ended_by": str(self.ended_by), "message": self.message,
        }  # fmt: skip


def job(tx: Tx, id_: int) -> list[Why]:
    """Why a job is not running, the first reason first; empty when it runs or has ended."""
    found = people.get(tx, id_)
    if found is None:
        raise NotThere(f"there is no job {id_}")
    stage = Stage(found.stage)
    if stage is Stage.RUNNING or stage.state.final:
        return []
    now = float(tx.all("clock")[0][0])
    whys = [*_queue(tx, found.queue, now), *_gates(tx, found.target, found.lane, now), *_itself(tx, found, now)]
    whys += [*_cycle(tx, found.queue, now), *_no_worker(tx, found.queue, now)]
    return sorted(whys, key=_rank) or [_next(tx, found)]


def target(tx: Tx, name: str, key: str | None = None) -> list[Why]:
    """What stands before the jobs of a target, or of one key of it, and before the calls of programs that guard it."""
    row = gate_rows.target(tx, name)
    if row is None:
        raise NotThere(f"there is no target {name!r}")
    now = float(tx.all("clock")[0][0])
    whys = [*_gates(tx, name, key, now), *(() if key else _programs(row, now))]
    return sorted(whys, key=_rank)


def _rank(why: Why) -> int:
    return _ORDER[why.reason]


# How a target stands for a program, what holds its calls then, and who ends that if no time is set.
_OF_PROGRAM: Mapping[str, tuple[HoldReason, EndedBy]] = {
    "action": (HoldReason.FATAL, EndedBy.PERSON), "paused": (HoldReason.PAUSED, EndedBy.PERSON),
    "disabled": (HoldReason.COOLDOWN, EndedBy.PERSON), "limited": (HoldReason.RETRY_AFTER, EndedBy.TIME),
    "degraded": (HoldReason.BACKOFF, EndedBy.TIME), "open": (HoldReason.BREAKER, EndedBy.TIME),
    "probing": (HoldReason.BREAKER, EndedBy.PROBE),
}  # fmt: skip


def _programs(row: TargetRow, now: float) -> Iterator[Why]:
    for each in of_programs(row, now, tried=True):
        if each.token in _OF_PROGRAM:
            reason, ends = _OF_PROGRAM[each.token]
            yield Why(
                reason=reason, subject=f"target {row.name}", since=each.since, until=each.next_try,
                ended_by=ends if each.next_try is None else EndedBy.TIME, message=each.reason,
            )  # fmt: skip


# -- the gates ---------------------------------------------------------------------------------------------------------


def _queue(tx: Tx, name: str, now: float) -> Iterator[Why]:
    for _, since, until, by in tx.all("queue_row", {"name": name}):
        if until is not None and now < until:
            yield Why(
                reason=HoldReason.PAUSED, subject=f"queue {name}", since=since, until=until, ended_by=EndedBy.PERSON,
                message=f"The queue {name} was paused by {by}; it goes on {_in(until - now)}, or when it is resumed.",
            )  # fmt: skip


def _gates(tx: Tx, name: str, key: str | None, now: float) -> Iterator[Why]:
    row = gate_rows.target(tx, name) if name else None
    if row is not None and row.paused_until is not None and now < row.paused_until:
        left = _in(row.paused_until - now)
        yield Why(
            reason=HoldReason.PAUSED, subject=f"target {name}", since=row.paused_at, until=row.paused_until,
            ended_by=EndedBy.PERSON,
            message=f"{name} was paused by {row.paused_by}; it goes on {left}, or when it is resumed.",
        )  # fmt: skip
    hold = gate_rows.hold(tx, name, key) if key is not None else None
    if hold is not None:
        yield from _held(hold, now)
    if row is None:
        return
    rules = json.loads(row.rules) if row.rules else {}
    running = tx.all("running_of", {"target": name, "since": row.breaker.since})[0]
    yield from _breaker(row, rules, int(running[1]), now)
    if rules.get("capacity"):
        yield from _capacity(row, Limits(**rules["capacity"]), now)
    if rules.get("rate"):
        yield from _rate(row, Rate(**rules["rate"]), now)
    yield from _concurrency(row, rules.get("concurrency"), int(running[0]), now)


def _held(hold: HoldRow, now: float) -> Iterator[Why]:
    if hold.reason == gate_rows.OPEN or (hold.until is not None and now >= hold.until):
        return
    who = f"key {hold.lane} of {hold.target}" if hold.lane else f"target {hold.target}"
    said = hold.message or (f"It failed with {hold.code}." if hold.code else "")
    if hold.probe:
        message, ends = f"{said} Job {hold.probe} is trying whether it is well again.", EndedBy.PROBE
    elif hold.until is None:
        act = "clear it" if hold.reason == HoldReason.FATAL else "enable it"
        by = f" by {hold.rest.by}" if hold.rest.by else ""
        message, ends = f"{said or f'Disabled{by}.'} A person must act, and then {act}.", EndedBy.PERSON
    else:
        one = (
            "one job tries it again" if hold.reason in (HoldReason.FATAL, HoldReason.COOLDOWN) else "it is tried again"
        )
        message, ends = f"{said} {_times(hold.failures)} in a row; {one} {_in(hold.until - now)}.", EndedBy.TIME
        if not hold.failures:
            message = f"Disabled by {hold.rest.by} ({hold.rest.reason}); {one} {_in(hold.until - now)}."
    yield Why(
        reason=HoldReason(hold.reason), subject=who, since=hold.since, until=hold.until, ended_by=ends,
        message=message.strip(),
    )  # fmt: skip


def _breaker(row: TargetRow, rules: dict[str, Any], probing: int, now: float) -> Iterator[Why]:
    breaker, numbers = row.breaker, rules.get("breaker")
    if breaker.state == CLOSED or (breaker.state == OPEN and breaker.until is not None and now >= breaker.until):
        return
    until, ends, because = breaker.until, EndedBy.TIME, opened_because(breaker.opened, breaker.run)
    if breaker.state == HALF_OPEN:
        most = 1 if numbers is None else int(numbers["max_requests"])
        if breaker.good + probing < most:
            return
        ends, said = EndedBy.CALL, f"{most} jobs are trying whether {row.name} is well again; the others wait for them."
    elif breaker.by is not None:
        ends, said = EndedBy.PERSON, f"The breaker of {row.name} was opened by {breaker.by}{_until_words(until, now)}."
    elif until is None:
        ends = EndedBy.PROBE if "probe_every" in rules else EndedBy.PERSON
        every = f" every {spelled(rules['probe_every'])}" if "probe_every" in rules else ""
        said = f"The breaker of {row.name} is open: {because}; it is asked{every} whether it is well again."
    else:
        said = f"The breaker of {row.name} is open: {because}; a few jobs try it {_in(until - now)}."
    yield Why(
        reason=HoldReason.BREAKER, subject=f"target {row.name}", since=breaker.since, until=until, ended_by=ends,
        message=said,
    )  # fmt: skip


def _capacity(row: TargetRow, limits: Limits, now: float) -> Iterator[Why]:
    known = Filling.loaded(row.capacity)
    room = filling.room(known, limits, now)
    if room.n or room.ask:
        return
    own = len(filling.own_sends(known, limits, now))
    if known.asking is not None and now < known.asking_until:
        since, until, said = None, known.asking_until, f"{row.name} is being asked how full it is."
    elif known.failures and now < known.retry_at:
        since, until = known.failed_at, known.retry_at
        said = f"{row.name} did not say how full it is; it is asked again {_in(until - now)}."
    else:
        since, until = known.at, known.at + limits.every
        sent = f", {own} more were sent" if own else ""
        said = f"{row.name} is full: {known.depth} of {limits.cap}{sent}; it is asked again {_in(until - now)}."
    yield Why(
        reason=HoldReason.CAPACITY, subject=f"target {row.name}", since=since, until=until, ended_by=EndedBy.TIME,
        message=said,
    )  # fmt: skip


def _rate(row: TargetRow, rate: Rate, now: float) -> Iterator[Why]:
    wait = rate.wait(-math.inf if row.paid_until is None else row.paid_until, now)
    if wait > 0:
        yield Why(
            reason=HoldReason.RATE, subject=f"target {row.name}", since=None, until=now + wait, ended_by=EndedBy.TIME,
            message=f"{row.name} gets at most {rate.count:g} calls in {_per(rate.spacing * rate.count)}; "
            f"the next one {_in(wait)}.",
        )  # fmt: skip


def _concurrency(row: TargetRow, limit: int | None, running: int, now: float) -> Iterator[Why]:
    allowed = shared_breaker.most(row.breaker, limit, now)
    if row.breaker.state != CLOSED or allowed >= UNLIMITED or running < allowed:
        return
    slowly = ", and grows slowly after an outage" if shared_breaker.opening(row.breaker, limit, now) else ""
    yield Why(
        reason=HoldReason.CONCURRENCY, subject=f"target {row.name}", since=None, until=None, ended_by=EndedBy.CALL,
        message=f"{running} jobs of {row.name} are under way; the limit is {allowed}{slowly}.",
    )  # fmt: skip


# -- the job itself ----------------------------------------------------------------------------------------------------


def _itself(tx: Tx, found: Job, now: float) -> Iterator[Why]:
    if found.stage == Stage.BLOCKED:
        open_parents = tx.all("open_parents", {"child": found.id})
        dead = [id_ for id_, state in open_parents if state in ("failed", "cancelled")]
        names = ", ".join(str(id_) for id_, _ in open_parents[:5]) + (", ..." if len(open_parents) > 5 else "")
        said = f"It waits for job {names} to be done."
        if dead:
            said = f"It waits for job {dead[0]}, which has {'failed' if open_parents else 'ended'}; retry that one."
        yield Why(
            reason=WaitsFor.DEPENDENCY, subject=f"job {open_parents[0][0]}" if open_parents else f"job {found.id}",
            since=found.created_at, until=None, ended_by=EndedBy.PERSON if dead else EndedBy.JOB, message=said,
        )  # fmt: skip
    if found.stage == Stage.WAITING and now < found.due_at:
        tried = f"Attempt {found.attempt} of {found.most_attempts} ended" if found.attempt else "It was put off"
        code = f" ({found.last_code})" if found.last_code else ""
        said = f"It is due {_in(found.due_at - now)}."
        yield Why(
            reason=WaitsFor.SCHEDULED, subject=f"job {found.id}", since=found.last_at or found.created_at,
            until=found.due_at, ended_by=EndedBy.TIME,
            message=said if not found.last_at else f"{tried}{code}. {said}",
        )  # fmt: skip


def _cycle(tx: Tx, queue: str, now: float) -> Iterator[Why]:
    for (value,) in tx.all("store_value", {"name": CYCLE + queue}):
        if now < float(value):
            yield Why(
                reason=WaitsFor.SCHEDULED, subject=f"queue {queue}", since=None, until=float(value),
                ended_by=EndedBy.TIME,
                message=f"The queue {queue} is worked on in cycles; the next one begins {_in(float(value) - now)}.",
            )  # fmt: skip


def _no_worker(tx: Tx, queue: str, now: float) -> Iterator[Why]:
    seen: float | None = None
    for _, _, _, _, seen_at, queues, stopping in tx.all("workers"):
        if queue not in json.loads(queues):
            continue
        if not stopping and now - seen_at <= WORKER_GONE:
            return
        seen = seen_at if seen is None else max(seen, seen_at)
    yield Why(
        reason=WaitsFor.NO_WORKER, subject=f"queue {queue}", since=seen, until=None, ended_by=EndedBy.WORKER,
        message=f"No worker is there for the queue {queue}; start one.",
    )  # fmt: skip


def _next(tx: Tx, found: Job) -> Why:
    before = int(tx.all("ready_before", {
        "queue": found.queue, "target": found.target, "lane": found.lane, "priority": found.priority,
        "id": found.id, "n": _MOST_COUNTED + 1,
    })[0][0])  # fmt: skip
    count = f"more than {_MOST_COUNTED}" if before > _MOST_COUNTED else str(before)
    said = "It is next in line." if not before else f"It is in line; {count} others go first."
    return Why(
        reason=WaitsFor.NEXT, subject=f"job {found.id}", since=max(found.due_at, found.created_at), until=None,
        ended_by=EndedBy.WORKER, message=said,
    )  # fmt: skip


def _in(left: float) -> str:
    return f"in {spelled(left)}"


def _per(seconds: float) -> str:
    return spelled(seconds) if seconds >= 60 else f"{seconds:g} s"


def _until_words(until: float | None, now: float) -> str:
    return "" if until is None else f" and stays so for {spelled(until - now)}"


def _times(failures: int) -> str:
    return "1 failure" if failures == 1 else f"{failures} failures"
