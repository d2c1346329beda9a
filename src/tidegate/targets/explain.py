"""Reasons why the jobs of a target wait."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from tidegate.guard import capacity
from tidegate.guard.breaker_state import CLOSED, HALF_OPEN, OPEN
from tidegate.guard.capacity import CapacityLimits, FillLevel
from tidegate.guard.hold import EndedBy, HoldReason
from tidegate.guard.limits import UNLIMITED, Rate
from tidegate.labels import opened_because, spell_duration
from tidegate.store.base import Tx, now_of
from tidegate.targets import breaker as target_breaker
from tidegate.targets import status, table
from tidegate.targets.table import StoredKeyHealth, TargetRow
from tidegate.validation import JsonObject


class WaitsFor(StrEnum):
    """Reasons that are not gates: those of the job itself."""

    DEPENDENCY = "dependency"
    SCHEDULED = "scheduled"
    NO_WORKER = "no_worker"
    RUNS_ALONE = "runs_alone"
    NEXT = "next_in_line"


# All reasons, in the order in which they are shown.
REASONS: tuple[HoldReason | WaitsFor, ...] = (*HoldReason, *WaitsFor)
_ORDER = {reason: rank for rank, reason in enumerate(REASONS)}


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitReason:
    """One reason why jobs wait. Times are UNIX time; *until* is None when no time ends it."""

    reason: HoldReason | WaitsFor
    subject: str  # what it is about: "queue mail", "target spotify", "key 7 of spotify", "job 12"
    since: float | None
    until: float | None
    ended_by: EndedBy
    message: str  # for users

    def as_json(self) -> JsonObject:
        return {
            "reason": str(self.reason),
            "subject": self.subject,
            "since": self.since,
            "until": self.until,
            "ended_by": str(self.ended_by),
            "message": self.message,
        }


def in_order(reasons: list[WaitReason]) -> list[WaitReason]:
    """The reasons, most important first."""
    return sorted(reasons, key=lambda why: _ORDER[why.reason])


def soon(left: float) -> str:
    """The remaining time as text: in 5 min."""
    return f"in {spell_duration(left)}"


# -- gates -----------------------------------------------------------------------------------------------------------


def of_queue(tx: Tx, name: str, now: float) -> Iterator[WaitReason]:
    """Why all jobs of a queue wait."""
    for _, since, until, by in tx.query("queue_row", {"name": name}):
        if until is not None and now < until:
            yield WaitReason(
                reason=HoldReason.PAUSED,
                subject=f"queue {name}",
                since=since,
                until=until,
                ended_by=EndedBy.PERSON,
                message=f"The queue {name} was paused by {by}; it goes on {soon(until - now)}, or when it is resumed.",
            )


def of_target(tx: Tx, name: str, key: str | None, now: float) -> Iterator[WaitReason]:
    """Why the jobs of a target and a key wait; empty for a job without a target."""
    row = table.target(tx, name) if name else None
    if row is not None and row.paused_until is not None and now < row.paused_until:
        left = soon(row.paused_until - now)
        yield WaitReason(
            reason=HoldReason.PAUSED,
            subject=f"target {name}",
            since=row.paused_at,
            until=row.paused_until,
            ended_by=EndedBy.PERSON,
            message=f"{name} was paused by {row.paused_by}; it goes on {left}, or when it is resumed.",
        )
    hold = table.hold(tx, name, key) if key is not None else None
    if hold is not None:
        yield from _held(hold, now)
    if row is None:
        return
    rules = json.loads(row.rules) if row.rules else {}
    running = tx.query("running_of", {"target": name, "since": row.breaker.since})[0]
    yield from _breaker(row, rules, int(running[1]), now)
    if rules.get("capacity"):
        yield from _capacity(row, CapacityLimits(**rules["capacity"]), now)
    if rules.get("rate"):
        yield from _rate(row, Rate(**rules["rate"]), now)
    yield from _concurrency(row, rules.get("concurrency"), int(running[0]), now)


def _held(hold: StoredKeyHealth, now: float) -> Iterator[WaitReason]:
    if hold.reason == table.NOT_HELD or (hold.until is not None and now >= hold.until):
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
        message, ends = f"{said} {_times(hold.failures)} in a row; {one} {soon(hold.until - now)}.", EndedBy.TIME
        if not hold.failures:
            message = f"Disabled by {hold.rest.by} ({hold.rest.reason}); {one} {soon(hold.until - now)}."
    yield WaitReason(
        reason=HoldReason(hold.reason),
        subject=who,
        since=hold.since,
        until=hold.until,
        ended_by=ends,
        message=message.strip(),
    )


def _breaker(row: TargetRow, rules: JsonObject, probing: int, now: float) -> Iterator[WaitReason]:
    breaker, numbers = row.breaker, rules.get("breaker")
    if breaker.state == CLOSED or (breaker.state == OPEN and breaker.until is not None and now >= breaker.until):
        return
    until, ends, because = breaker.until, EndedBy.TIME, opened_because(breaker.opened, breaker.run)
    if breaker.state == HALF_OPEN:
        limit = 1 if numbers is None else int(numbers["max_requests"])
        if breaker.good + probing < limit:
            return
        ends, said = (
            EndedBy.CALL,
            f"{limit} jobs are trying whether {row.name} is well again; the others wait for them.",
        )
    elif breaker.by is not None:
        ends, said = EndedBy.PERSON, f"The breaker of {row.name} was opened by {breaker.by}{_until_words(until, now)}."
    elif until is None and "probe_every" in rules:
        every = spell_duration(rules["probe_every"])
        said = f"The breaker of {row.name} is open: {because}; it is asked every {every} whether it is well again."
        ends = EndedBy.PROBE
    elif until is None:
        ends, said = EndedBy.PERSON, f"The breaker of {row.name} is open: {because}; a person must close it."
    else:
        said = f"The breaker of {row.name} is open: {because}; a few jobs try it {soon(until - now)}."
    yield WaitReason(
        reason=HoldReason.BREAKER,
        subject=f"target {row.name}",
        since=breaker.since,
        until=until,
        ended_by=ends,
        message=said,
    )


def _capacity(row: TargetRow, limits: CapacityLimits, now: float) -> Iterator[WaitReason]:
    known = FillLevel.load(row.capacity)
    room = capacity.send_allowance(known, limits, now)
    if room.n or room.ask:
        return
    own = len(capacity.own_sends(known, limits, now))
    if known.asking is not None and now < known.asking_until:
        since, until, said = None, known.asking_until, f"{row.name} is being asked how full it is."
    elif known.failures and now < known.retry_at:
        since, until = known.failed_at, known.retry_at
        said = f"{row.name} did not say how full it is; it is asked again {soon(until - now)}."
    else:
        since, until = known.at, known.at + limits.every
        sent = f", {own} more {'was' if own == 1 else 'were'} sent" if own else ""
        said = f"{row.name} is full: {known.depth} of {limits.cap}{sent}; it is asked again {soon(until - now)}."
    yield WaitReason(
        reason=HoldReason.CAPACITY,
        subject=f"target {row.name}",
        since=since,
        until=until,
        ended_by=EndedBy.TIME,
        message=said,
    )


def _rate(row: TargetRow, rate: Rate, now: float) -> Iterator[WaitReason]:
    wait = rate.wait(rate.used(row.paid_until, now), now)
    if wait > 0:
        yield WaitReason(
            reason=HoldReason.RATE,
            subject=f"target {row.name}",
            since=None,
            until=now + wait,
            ended_by=EndedBy.TIME,
            message=f"{row.name} gets at most {rate.count:g} calls in {_per(rate.spacing * rate.count)}; "
            f"the next one {soon(wait)}.",
        )


def _concurrency(row: TargetRow, limit: int | None, running: int, now: float) -> Iterator[WaitReason]:
    allowed = target_breaker.concurrency_limit(row.breaker, limit, now)
    if row.breaker.state != CLOSED or allowed >= UNLIMITED or running < allowed:
        return
    slowly = ", and grows slowly after an outage" if target_breaker.is_ramping(row.breaker, limit, now) else ""
    yield WaitReason(
        reason=HoldReason.CONCURRENCY,
        subject=f"target {row.name}",
        since=None,
        until=None,
        ended_by=EndedBy.CALL,
        message=f"{running} jobs of {row.name} are under way; the limit is {allowed}{slowly}.",
    )


# By the status that a program reports: the hold reason, and what ends the hold if no time is set.
_OF_PROGRAM: Mapping[str, tuple[HoldReason, EndedBy]] = {
    "action": (HoldReason.FATAL, EndedBy.PERSON),
    "paused": (HoldReason.PAUSED, EndedBy.PERSON),
    "disabled": (HoldReason.COOLDOWN, EndedBy.PERSON),
    "limited": (HoldReason.RETRY_AFTER, EndedBy.TIME),
    "degraded": (HoldReason.BACKOFF, EndedBy.TIME),
    "open": (HoldReason.BREAKER, EndedBy.TIME),
    "probing": (HoldReason.BREAKER, EndedBy.PROBE),
}


def of_programs(row: TargetRow, now: float) -> Iterator[WaitReason]:
    """Why the calls of programs that guard the target wait."""
    for program in status.of_programs(row, now, tried=True):
        if program.token in _OF_PROGRAM:
            reason, ends = _OF_PROGRAM[program.token]
            yield WaitReason(
                reason=reason,
                subject=f"target {row.name}",
                since=program.since,
                until=program.next_try,
                ended_by=ends if program.next_try is None else EndedBy.TIME,
                message=program.reason,
            )


def _per(seconds: float) -> str:
    return spell_duration(seconds) if seconds >= 60 else f"{seconds:g} s"


def _until_words(until: float | None, now: float) -> str:
    return "" if until is None else f" and stays so for {spell_duration(until - now)}"


def _times(failures: int) -> str:
    return "1 failure" if failures == 1 else f"{failures} failures"


def target(tx: Tx, name: str, key: str | None = None) -> list[WaitReason]:
    """Why the jobs of a target or a key wait, and the calls of programs that guard it. Raises NotFound."""
    row = table.target(tx, name)
    if row is None:
        raise table.unknown_target(tx, name)
    now = now_of(tx)
    reasons = [*of_target(tx, name, key, now), *(() if key else of_programs(row, now))]
    return in_order(reasons)
