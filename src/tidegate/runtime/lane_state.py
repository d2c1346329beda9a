"""The state of one lane (a key of a target) as a row, and the same machine that a guarded call has."""

from __future__ import annotations

import json
import math
from dataclasses import asdict

from tidegate.core.codes import CodeBook
from tidegate.core.fault import Fault, Reach
from tidegate.machine import cooldown as resting
from tidegate.machine.cooldown import FRESH, Change, Rest
from tidegate.machine.gate import HoldReason
from tidegate.machine.keystate import KeyState, Told, wait_after
from tidegate.runtime.job_target import TargetRules
from tidegate.store.tx import Row, Tx

PROBE_TIME = 60.0


def loaded(row: Row, book: CodeBook) -> KeyState:
    """The state that a row of `tg_hold` keeps."""
    _, _, _, _, since, until, failures, code, _, told, rest = row
    state = KeyState(since)
    state.failures = failures
    state.until = math.inf if until is None else until
    state.told = Told(told)
    state.fault = book[code].fault("kept") if code in book else None
    state.rest = FRESH if rest is None else Rest(**json.loads(rest))
    return state


def kept(tx: Tx, rules: TargetRules, lane: str, state: KeyState, now: float) -> None:
    """Writes the state back; a healthy one leaves no row."""
    if state.healthy:
        tx.all("hold_drop", {"target": rules.name, "lane": lane})
        return
    hold = state.hold(now)
    until = None if math.isinf(state.until) and state.until > 0 else max(state.until, 0.0)
    if hold is not None and hold.reason is HoldReason.COOLDOWN:
        until = hold.until
    tx.all("hold_put", {
        "target": rules.name, "lane": lane, "operation": "", "reason": str(hold.reason if hold else HoldReason.BACKOFF),
        "since": state.since, "until": until, "failures": state.failures,
        "code": None if state.fault is None else state.fault.code,
        "message": None if state.fault is None else state.fault.message, "told": int(state.told),
        "rest": None if state.rest is FRESH else json.dumps(asdict(state.rest)),
    })  # fmt: skip


def failed(tx: Tx, rules: TargetRules, book: CodeBook, lane: str, fault: Fault, now: float, roll: float) -> bool:
    """One more failure of a lane, as far as it reaches; True when it has just become fatal."""
    if fault.reach is Reach.SELF or (fault.reach.rank < Reach.CREDENTIAL.rank and not _governed(rules, fault)):
        return False
    if not fault.fatal and rules.backoff is None and rules.cooldown is None and not fault.retry_after:
        return False
    rows = [row for row in tx.all("hold", {"target": rules.name, "lane": lane}) if not row[2]]
    state = loaded(rows[0], book) if rows else KeyState(now)
    if rules.cooldown is not None:
        state.rest, _ = resting.failed(state.rest, rules.cooldown, fault, now)
    was_told = state.told & Told.FATAL
    state.failed(fault, now, _wait(rules, fault, state.failures, roll))
    new = state.fatal and not was_told and not _governed(rules, fault)
    if new:
        state.told |= Told.FATAL
    kept(tx, rules, lane, state, now)
    return bool(new)


def succeeded(tx: Tx, rules: TargetRules, book: CodeBook, lane: str, now: float) -> bool:
    """Ends the run of a lane; True when a rest has ended with it."""
    rows = [row for row in tx.all("hold", {"target": rules.name, "lane": lane}) if not row[2]]
    if not rows:
        return False
    state = loaded(rows[0], book)
    state.rest, change = resting.succeeded(state.rest)
    state.recovered()
    kept(tx, rules, lane, state, now)
    return change is Change.ENABLED


def probing(tx: Tx, rules_name: str, lane: str, until: float) -> None:
    """Reserves the one probe of a lane whose rest is over."""
    tx.all("hold_probe", {"target": rules_name, "lane": lane, "until": until})


def _governed(rules: TargetRules, fault: Fault) -> bool:
    return rules.cooldown is not None and fault.code in rules.cooldown.rests


def _wait(rules: TargetRules, fault: Fault, failures: int, roll: float) -> float:
    if rules.backoff is None:
        if fault.fatal and not _governed(rules, fault):
            return rules.reprobe if rules.reprobe and fault.reason in ("quota", "config") else math.inf
        return min(fault.retry_after or 0.0, rules.most_asked)
    if _governed(rules, fault):
        return rules.backoff.delay(failures, roll)
    return wait_after(fault, failures, rules.backoff, roll, most_asked=rules.most_asked, reprobe=rules.reprobe)
