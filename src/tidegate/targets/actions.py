"""Operator actions on targets and keys, in the caller's transaction. Each writes an event with its actor."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from tidegate import audit, outbox
from tidegate.audit import AuditSubject as At
from tidegate.durations import Until, ahead
from tidegate.events import EventKind, NoticeKind
from tidegate.guard import cooldown as resting
from tidegate.guard.breaker_state import CLOSED, OPEN
from tidegate.guard.cooldown import FRESH
from tidegate.guard.hold import HoldReason
from tidegate.outbox import NoticeSubject
from tidegate.store.base import Tx, now_of
from tidegate.targets import breaker, table
from tidegate.targets.breaker import StoredBreaker
from tidegate.targets.table import StoredKeyHealth, TargetRow
from tidegate.validation import similar

RESET = "breaker_reset"


# -- targets ---------------------------------------------------------------------------------------------------------


def pause_target(tx: Tx, name: str, until: Until, by: str) -> float:
    """Stops claims of this target's jobs until *until*. Returns that time, UNIX time."""
    row, now = require_target(tx, name)
    end = ahead(until, now)
    tx.query("target_pause", {"name": name, "until": end, "actor": str(by)})
    place = At(subject="target", name=name)
    record_action(
        tx,
        by,
        EventKind.TARGET_PAUSED,
        place,
        {"until": end},
        pause_detail(row.paused_until, now),
        pause_detail(end, now),
    )
    return end


def resume_target(tx: Tx, name: str, by: str) -> bool:
    row, now = require_target(tx, name)
    if not tx.query("target_resume", {"name": name}):
        return False
    place = At(subject="target", name=name)
    record_action(
        tx, by, EventKind.TARGET_RESUMED, place, {}, pause_detail(row.paused_until, now), pause_detail(None, now)
    )
    return True


def force_breaker(tx: Tx, name: str, state: str, by: str, until: Until | None = None) -> str:
    """Opens a breaker until a time, or closes it now. Returns the previous state."""
    row, now = require_target(tx, name)
    before = row.breaker
    if state == OPEN:
        if until is None:
            raise ValueError("until: a breaker is forced open until a time; give one")
        after = breaker.force_open(before, now, ahead(until, now), by=str(by))
    elif state == CLOSED:
        after = breaker.close(before, now)
    else:
        raise ValueError(f"state: {state!r} is not allowed; give 'open' or 'closed'")
    move_breaker(tx, name, before, after, by, audit.HELD if state == OPEN else audit.CLOSED)
    return before.state


def reset_breaker(tx: Tx, name: str, by: str, *, noted: bool = True) -> str:
    """Closes a breaker and resets its counts, without a ramp. Returns the previous state."""
    row, now = require_target(tx, name)
    before = row.breaker
    after = replace(breaker.close(before, now), closed_at=None, adaptive_limit=None)
    move_breaker(tx, name, before, after, by, RESET if noted else "")
    return before.state


def move_breaker(tx: Tx, name: str, before: StoredBreaker, after: StoredBreaker, by: str, action: str) -> None:
    """Writes an operator's change of a breaker and its event. *action*: of the audit entry; empty for no entry."""
    table.put_breaker(tx, name, before, after)
    fields = {"name": name, "from": before.state, "to": after.state, "until": after.until}
    kind = str(EventKind.BREAKER_STATE_CHANGED) if before.state != after.state else RESET
    was, became = {"state": before.state}, {"state": after.state, "until": after.until}
    table.append_event(tx, "target", name, kind, str(by), fields=fields)
    if action:
        audit.append_entry(tx, by, action, At(subject="target", name=name), was=was, became=became)


def require_target(tx: Tx, name: str) -> tuple[TargetRow, float]:
    """Locks the row of a target. Returns it and the store's time. Raises NotFound with a suggestion."""
    if table.target(tx, name) is None:
        raise table.unknown_target(tx, name)
    rows, now = table.lock_targets(tx, [name])
    return rows[name], now_of(tx) if now is None else now


# -- keys ------------------------------------------------------------------------------------------------------------


def clear_key(tx: Tx, target: str, key: str, by: str, *, noted: bool = True) -> bool:
    """Removes all state of a key, for example after new credentials, so that its jobs can run now.

    Running jobs still use the old credentials, so their failures do not count. *noted*: whether the audit log gets an
    entry; False as part of another action. Returns False when there was no state.
    """
    require_target(tx, target)
    row = table.lock_holds(tx, [(target, key)]).get((target, key))
    now = now_of(tx)
    running = tx.scalar(bool, "running_in", {"target": target, "lane": key})
    table.put_hold(tx, StoredKeyHealth(target=target, lane=key, since=now, failed_at=now if running else 0.0))
    told = outbox.acknowledge_recovered(tx, target, key)
    if noted:
        record_action(tx, by, EventKind.TARGET_CLEARED, _key(target, key), {}, _held(row), {"state": "cleared"})
    else:
        table.append_event(tx, "target", target, str(EventKind.TARGET_CLEARED), str(by), key_text=key, fields={})
    # A program that guards the target has no row here. An open notice shows that the key was unhealthy.
    return bool(told) or (row is not None and not row.empty)


def disable_key(tx: Tx, target: str, key: str, by: str, until: Until | None = None, reason: str = "manual") -> None:
    """Stops claims of jobs with this key until *until*, or until `enable_key`."""
    require_target(tx, target)
    now = now_of(tx)
    end = None if until is None else ahead(until, now)
    row = table.lock_holds(tx, [(target, key)]).get((target, key)) or StoredKeyHealth(
        target=target, lane=key, since=now
    )
    was = _held(row)
    rest = resting.disable(row.rest, until=end, by=str(by), reason=reason, now=now)
    if row.reason != HoldReason.FATAL:
        row = replace(row, reason=str(HoldReason.COOLDOWN), since=now, until=end)
    table.put_hold(tx, replace(row, rest=rest, probe=None))
    fields = {"reason": reason, "by": str(by), "until": end}
    record_action(
        tx, by, EventKind.TARGET_DISABLED, _key(target, key), fields, was, {"state": "disabled", "until": end}
    )


def enable_key(tx: Tx, target: str, key: str, by: str) -> bool:
    """Ends a cooldown, automatic or manual. Returns False when there was none. A fatal fault needs `clear_key`."""
    require_target(tx, target)
    row = table.lock_holds(tx, [(target, key)]).get((target, key))
    if row is None or not row.rest.disabled:
        return False
    was = _held(row)
    row = replace(row, rest=FRESH, probe=None)
    if row.reason != HoldReason.FATAL:
        row = replace(row, reason=table.NOT_HELD, until=0.0)
    table.put_hold(tx, row)
    outbox.resolve_notices(tx, NoticeSubject(subject=outbox.TARGET, name=target, lane=key), (NoticeKind.DISABLED,))
    record_action(tx, by, EventKind.TARGET_ENABLED, _key(target, key), {"by": str(by)}, was, {"state": "enabled"})
    return True


# -- events and audit entries ----------------------------------------------------------------------------------------


def record_action(
    tx: Tx,
    by: str,
    kind: str,
    place: At,
    fields: Mapping[str, object],
    was: Mapping[str, object],
    became: Mapping[str, object],
) -> None:
    """Writes the event of a queue or a target, and the audit entry."""
    table.append_event(tx, place.subject, place.name, str(kind), str(by), key_text=place.lane, fields=fields)
    audit.append_entry(tx, by, str(kind), place, was=was, became=became)


def _key(target: str, key: str) -> At:
    return At(subject="target", name=target, lane=key)


def pause_detail(until: float | None, now: float) -> dict[str, object]:
    return {"state": "on"} if until is None or until <= now else {"state": "paused", "until": until}


def _held(row: StoredKeyHealth | None) -> dict[str, object]:
    """The state of a key before a change, for the audit entry."""
    if row is None or row.reason == table.NOT_HELD:
        return {"state": "free"}
    state = "disabled" if row.rest.disabled else row.reason
    return {"state": state, "until": row.until, "code": row.code, "by": row.rest.by}


def meant_name(given: str, known: Collection[str]) -> str:
    close = similar(given, known)
    return f"; did you mean {close!r}?" if close else ""
