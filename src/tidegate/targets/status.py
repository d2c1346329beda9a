"""The status of a target: token, reason and next try. Pure functions of rows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tidegate.guard import capacity
from tidegate.guard.breaker_state import HALF_OPEN, OPEN
from tidegate.guard.capacity import CapacityLimits, FillLevel
from tidegate.guard.hold import HoldReason
from tidegate.labels import TARGETS, URGENCY, ahead, failed_so_often, format_duration, in_brackets, many, opened_because
from tidegate.targets import breaker as target_breaker
from tidegate.targets.table import TargetRow
from tidegate.validation import JsonObject

PROGRAM_GONE = 60.0  # seconds without a report after which a program counts as stopped

# The status token of a target, by the hold reason of a key.
_OF_REASON = {
    HoldReason.FATAL: "action",
    HoldReason.COOLDOWN: "disabled",
    HoldReason.RETRY_AFTER: "limited",
    HoldReason.BACKOFF: "degraded",
    HoldReason.PAUSED: "paused",
    HoldReason.BREAKER: "open",
}


@dataclass(frozen=True, slots=True)
class HeldKeys:
    """The keys of a target that are held for one reason, aggregated. The fields are the columns."""

    target: str
    reason: str
    n: int
    since: float
    until: float | None  # the earliest next try; None: an operator must act
    failures: int  # the maximum of one key
    code: str | None  # None if they differ
    message: str | None
    key: str  # one of them
    rest: str | None  # JSON, of one of them


@dataclass(frozen=True, slots=True)
class TargetStatus:
    """The status of a target. *next_try* is None when no time is set, or nothing holds it."""

    token: str
    reason: str
    since: float | None = None
    next_try: float | None = None


def standing(row: TargetRow, held: Sequence[HeldKeys], now: float, *, tried: bool) -> TargetStatus:
    """The most urgent status that applies. *tried*: whether a call is known to have been made."""
    candidates = [*_paused(row, now), *_breaker(row, now), *(_held(keys, now) for keys in held)]
    candidates += [*of_programs(row, now, tried=tried), _well(row, now, tried=tried)]
    return min(candidates, key=lambda status: URGENCY[status.token])


def _paused(row: TargetRow, now: float) -> Iterator[TargetStatus]:
    if row.paused_until is not None and now < row.paused_until:
        line = TARGETS["paused"].line(by=row.paused_by, when=ahead(row.paused_until, now))
        yield TargetStatus("paused", line, row.paused_at, row.paused_until)


def _breaker(row: TargetRow, now: float) -> Iterator[TargetStatus]:
    breaker = row.breaker
    failed = opened_because(breaker.opened, breaker.run)
    if breaker.state == HALF_OPEN:
        limit = 1 if (numbers := _rules(row).get("breaker")) is None else int(numbers["max_requests"])
        yield TargetStatus("probing", TARGETS["probing"].line(good=breaker.good, most=limit), breaker.since)
    elif breaker.state == OPEN and breaker.until is not None and breaker.until <= now:
        yield TargetStatus("probing", TARGETS["probing"].line("due", failed=failed), breaker.since, breaker.until)
    elif breaker.state == OPEN:
        every = _rules(row).get("probe_every")
        if breaker.by is not None:
            situation = "forced" if breaker.until is None else "forced_until"
        elif breaker.until is None:
            situation = "probed" if every else "endless"
        else:
            situation = ""
        line = TARGETS["open"].line(
            situation,
            failed=failed,
            age=format_duration(now - breaker.since),
            when=ahead(breaker.until, now),
            by=breaker.by,
            every=format_duration(every or 0),
        )
        yield TargetStatus("open", line, breaker.since, breaker.until)


def _held(keys: HeldKeys, now: float) -> TargetStatus:
    token, situation = _OF_REASON[HoldReason(keys.reason)], ""
    by = _ordered_by(keys)
    if keys.reason == HoldReason.FATAL and keys.until is not None:
        situation = "asked"
    elif keys.reason == HoldReason.COOLDOWN and by is not None:
        situation = "endless" if keys.until is None else "ordered"
    line = TARGETS[token].line(
        situation,
        who=_who(keys, situation),
        code=in_brackets(keys.code),
        by=by,
        when=ahead(keys.until, now),
        times=many(keys.failures, "time"),
        said=keys.message or f"{keys.code or 'several codes'}.",
    )
    return TargetStatus(token, line, keys.since, keys.until)


def _who(keys: HeldKeys, situation: str) -> str:
    who = many(keys.n, "key") if keys.n > 1 else f"key {keys.key}" if keys.key else "it"
    passive = keys.reason == HoldReason.FATAL or situation in ("ordered", "endless")
    return f"{who} {'were' if keys.n > 1 else 'was'}" if passive else who


def _ordered_by(keys: HeldKeys) -> str | None:
    """The operator who disabled a key; None when a policy did, or for several keys."""
    if keys.rest is None or keys.n > 1:
        return None
    by = json.loads(keys.rest).get("by")
    return None if by == "auto" else by


def of_programs(row: TargetRow, now: float, *, tried: bool) -> Iterator[TargetStatus]:
    """The status that each program reports which guards the target."""
    reports = list(json.loads(row.summary).values()) if row.summary else []
    running = [report for report in reports if now - report.get("at", 0.0) < PROGRAM_GONE]
    if reports and not running and not tried:
        last = max(report.get("at", 0.0) for report in reports)
        yield TargetStatus("silent", TARGETS["silent"].line(age=format_duration(now - last)), last)
    for report in running:
        token, failures = _of_program(report)
        codes, until = report.get("codes") or [], report.get("until")
        lines = TARGETS[token].lines
        situation = "program_until" if until is not None and "program_until" in lines else "program"
        line = TARGETS[token].line(
            situation if situation in lines else "",
            failed=failed_so_often(failures),
            when=ahead(until, now),
            code=in_brackets(codes[0] if len(codes) == 1 else None),
        )
        yield TargetStatus(token, line, report.get("since") or report.get("at"), until)


def _of_program(report: JsonObject) -> tuple[str, int]:
    """The status token for one program's report, and the consecutive failures of its breakers."""
    breakers: Sequence[JsonObject] = list(report.get("breakers", {}).values())
    states = {breaker.get("state") for breaker in breakers}
    failures = max((int(breaker.get("consecutive_failures", 0)) for breaker in breakers), default=0)
    tokens = {
        _OF_REASON[HoldReason(reason)] for reason in report.get("reasons", ()) if HoldReason(reason) in _OF_REASON
    }
    tokens |= {token for state, token in ((OPEN, "open"), (HALF_OPEN, "probing")) if state in states}
    if report.get("unhealthy") and not tokens:
        tokens.add("degraded")
    # Prefers `calls`, the total: `requests` restarts with every interval.
    called = not breakers or any(breaker.get("calls", breaker.get("requests", 1)) for breaker in breakers)
    return min(tokens or {"ok" if called else "new"}, key=URGENCY.__getitem__), failures


def _well(row: TargetRow, now: float, *, tried: bool) -> TargetStatus:
    if (taken := full(row, now)) is not None:
        return TargetStatus("full", TARGETS["full"].line(taken=taken, cap=_rules(row)["capacity"]["cap"]))
    counts = target_breaker.counts(row.breaker)
    closed_at = row.breaker.closed_at
    if counts.requests:
        how = "counted" if counts.failures else "counted_well"
        if counts.requests == 1:
            how = "once_failed" if counts.failures else "once_well"
        return TargetStatus("ok", TARGETS["ok"].line(how, bad=counts.failures, requests=counts.requests))
    if closed_at is not None:
        return TargetStatus("ok", TARGETS["ok"].line("again", age=format_duration(now - closed_at)), closed_at)
    return TargetStatus("ok", TARGETS["ok"].line()) if tried else TargetStatus("new", TARGETS["new"].line())


def full(row: TargetRow, now: float) -> int | None:
    """How many of its slots are taken, if a recent depth shows that it is full; None otherwise."""
    numbers = _rules(row).get("capacity") if row.capacity is not None else None
    if numbers is None:
        return None
    known, limits = FillLevel.load(row.capacity), CapacityLimits(**numbers)
    # The depth is only read while jobs are ready, so an old value may be wrong.
    if known.depth is None or now - known.at > 2 * limits.every:
        return None
    taken = known.depth + len(capacity.own_sends(known, limits, now))
    return taken if taken >= limits.cap else None


def _rules(row: TargetRow) -> JsonObject:
    rules: JsonObject = json.loads(row.rules) if row.rules else {}
    return rules
