"""What people do to queues, targets and jobs: each checked first, each an event with its actor.

All of it happens in the caller's transaction. NotThere and Refused say why nothing was done.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from difflib import get_close_matches

from tidegate.core.events import EventKind, NoticeKind
from tidegate.core.job import Job
from tidegate.core.until import Until, ahead
from tidegate.errors import NotThere, Refused
from tidegate.machine import cooldown as resting
from tidegate.machine import shared_breaker
from tidegate.machine.cooldown import FRESH
from tidegate.machine.gate import HoldReason
from tidegate.machine.shared_breaker import BreakerRow
from tidegate.machine.states import CLOSED, OPEN
from tidegate.store import gate_rows, notice_rows, people, tallies
from tidegate.store.gate_rows import HoldRow, TargetRow
from tidegate.store.notice_rows import Place
from tidegate.store.tx import Tx


def now_of(tx: Tx) -> float:
    """The store's clock."""
    return float(tx.all("clock")[0][0])


# -- queues ----------------------------------------------------------------------------------------------------------


def pause_queue(tx: Tx, name: str, until: Until, by: str, known: Collection[str] = ()) -> float:
    """No job of this queue is claimed until then; returns when that is. *known*: queues that may have no job yet."""
    _require_queue(tx, name, known)
    end = ahead(until, now_of(tx))
    tx.all("queue_pause", {"name": name, "until": end, "actor": by})
    gate_rows.happened(tx, "queue", name, "queue_paused", by, fields={"until": end})
    return end


def resume_queue(tx: Tx, name: str, by: str, known: Collection[str] = ()) -> bool:
    """Ends a pause; False when there was none."""
    _require_queue(tx, name, known)
    if not tx.all("queue_resume", {"name": name}):
        return False
    gate_rows.happened(tx, "queue", name, "queue_resumed", by)
    return True


def _require_queue(tx: Tx, name: str, known: Collection[str]) -> None:
    there = {queue for queue, _ in tallies.read(tx)} | set(known)
    if name not in there:
        raise NotThere(f"there is no queue {name!r}{_meant(name, there)}")


# -- targets ---------------------------------------------------------------------------------------------------------


def pause_target(tx: Tx, name: str, until: Until, by: str) -> float:
    """No job of this target is claimed until then; returns when that is."""
    require_target(tx, name)
    end = ahead(until, now_of(tx))
    tx.all("target_pause", {"name": name, "until": end, "actor": by})
    gate_rows.happened(tx, "target", name, EventKind.TARGET_PAUSED, by, fields={"until": end})
    return end


def resume_target(tx: Tx, name: str, by: str) -> bool:
    require_target(tx, name)
    if not tx.all("target_resume", {"name": name}):
        return False
    gate_rows.happened(tx, "target", name, EventKind.TARGET_RESUMED, by)
    return True


def force_breaker(tx: Tx, name: str, state: str, by: str, until: Until | None = None) -> str:
    """Opens a breaker until a time, or closes it now; returns the state that it had."""
    row, now = require_target(tx, name)
    before = row.breaker
    if state == OPEN:
        if until is None:
            raise ValueError("until: a breaker is forced open until a time; give one")
        after = shared_breaker.opened(before, now, ahead(until, now), by)
    elif state == CLOSED:
        after = shared_breaker.closed(before, now)
    else:
        raise ValueError(f"state: {state!r} is not allowed; give 'open' or 'closed'")
    move_breaker(tx, name, before, after, by)
    return before.state


def reset_breaker(tx: Tx, name: str, by: str) -> str:
    """Closes a breaker and forgets its counts, with no ramp: everything may go at once; returns the state it had."""
    row, now = require_target(tx, name)
    before = row.breaker
    move_breaker(tx, name, before, replace(shared_breaker.closed(before, now), closed_at=None), by)
    return before.state


def move_breaker(tx: Tx, name: str, before: BreakerRow, after: BreakerRow, by: str) -> None:
    """Writes what a person made of a breaker, with its event."""
    gate_rows.put_breaker(tx, name, before, after)
    fields = {"name": name, "from": before.state, "to": after.state, "until": after.until}
    kind = str(EventKind.BREAKER_STATE_CHANGED) if before.state != after.state else "breaker_reset"
    gate_rows.happened(tx, "target", name, kind, by, fields=fields)


def require_target(tx: Tx, name: str) -> tuple[TargetRow, float]:
    """Its row, kept still until the end, and the store's clock; NotThere with a suggestion."""
    if gate_rows.target(tx, name) is None:
        there = [row.name for row in gate_rows.targets(tx)]
        raise NotThere(f"there is no target {name!r}{_meant(name, there)}")
    rows, now = gate_rows.locked(tx, [name])
    return rows[name], now_of(tx) if now is None else now


# -- keys ------------------------------------------------------------------------------------------------------------


def clear_key(tx: Tx, target: str, key: str, by: str) -> bool:
    """Forgets all state of a key, as after new credentials: its jobs go at once. False when there was none.

    What is under way still uses the old ones, so its failures count no more.
    """
    require_target(tx, target)
    row = gate_rows.holds_locked(tx, [(target, key)]).get((target, key))
    now = now_of(tx)
    running = bool(tx.all("running_in", {"target": target, "lane": key})[0][0])
    gate_rows.put_hold(tx, HoldRow(target=target, lane=key, since=now, failed_at=now if running else 0.0))
    told = notice_rows.dealt_with(tx, target, key)
    gate_rows.happened(tx, "target", target, EventKind.TARGET_CLEARED, by, lane=key)
    # A program that guards it by itself has no row; that people were told of trouble shows that there was some.
    return bool(told) or (row is not None and not row.empty)


def disable_key(tx: Tx, target: str, key: str, by: str, until: Until | None = None, reason: str = "manual") -> None:
    """No job of this key until then, or until `enable_key`."""
    require_target(tx, target)
    now = now_of(tx)
    end = None if until is None else ahead(until, now)
    row = gate_rows.holds_locked(tx, [(target, key)]).get((target, key)) or HoldRow(target=target, lane=key, since=now)
    rest = resting.disabled(row.rest, until=end, by=by, reason=reason, now=now)
    if row.reason != HoldReason.FATAL:
        row = replace(row, reason=str(HoldReason.COOLDOWN), since=now, until=end)
    gate_rows.put_hold(tx, replace(row, rest=rest, probe=None))
    fields = {"reason": reason, "by": by, "until": end}
    gate_rows.happened(tx, "target", target, EventKind.TARGET_DISABLED, by, lane=key, fields=fields)


def enable_key(tx: Tx, target: str, key: str, by: str) -> bool:
    """Ends a rest, whoever ordered it; False when there was none. A fatal fault needs `clear_key`."""
    require_target(tx, target)
    row = gate_rows.holds_locked(tx, [(target, key)]).get((target, key))
    if row is None or not row.rest.disabled:
        return False
    row = replace(row, rest=FRESH, probe=None)
    if row.reason != HoldReason.FATAL:
        row = replace(row, reason=gate_rows.OPEN, until=0.0)
    gate_rows.put_hold(tx, row)
    notice_rows.ended(tx, Place(subject=notice_rows.TARGET, name=target, lane=key), (NoticeKind.DISABLED,))
    gate_rows.happened(tx, "target", target, EventKind.TARGET_ENABLED, by, lane=key, fields={"by": by})
    return True


# -- jobs ------------------------------------------------------------------------------------------------------------


def retry(tx: Tx, job: int, by: str) -> None:
    """Queues a failed or cancelled job again: attempts restart, history stays."""
    found = _require_job(tx, job)
    if people.retry(tx, job, by):
        return
    kinds = {event.kind for event in people.events(tx, job)}
    if "refused" in kinds:
        raise Refused(f"job {job} was refused before it was queued, and cannot be retried; put it in anew")
    if "barred" in kinds:
        raise Refused(f"what job {job} would need is gone, and it cannot be retried; put it in anew")
    raise Refused(f"job {job} is {found.state}; only a failed or cancelled job can be retried")


def cancel(tx: Tx, job: int, by: str) -> str:
    """'cancelled', or 'asked' when it runs and its handler was told."""
    found = _require_job(tx, job)
    done = people.cancel(tx, job, by)
    if done is None:
        raise Refused(why_not_cancelled(found))
    return done


def why_not_cancelled(job: Job) -> str:
    if job.state.final:
        return f"job {job.id} is {job.state}; there is nothing to cancel"
    return f"job {job.id} is of the kind {job.kind!r}, whose jobs cannot be cancelled"


def forget(tx: Tx, job: int, by: str) -> None:
    """Removes a final job with its history, and frees its unique."""
    found = _require_job(tx, job)
    if not people.forget(tx, job):
        raise Refused(f"job {job} is {found.state}; only a job that has ended can be forgotten")
    # Its own history is gone with it, so its queue's tells of it.
    gate_rows.happened(tx, "queue", found.queue, "job_forgotten", by, fields={"job": job, "kind": found.kind})


def _require_job(tx: Tx, job: int) -> Job:
    found = people.get(tx, job)
    if found is None:
        raise NotThere(f"there is no job {job}")
    return found


def _meant(given: str, known: Collection[str]) -> str:
    close = get_close_matches(given, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
