"""Conditions without an event: jobs that wait too long, queues without a worker, forgotten pauses.

Each condition is a notice while it lasts. Everything is read from the store, except since when a queue has no worker: a
worker that stops gracefully leaves no trace.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tidegate import outbox
from tidegate.guard.breaker_state import CLOSED
from tidegate.guard.hold import HoldReason
from tidegate.jobs import explain, reports
from tidegate.jobs.reports import JobSummary, QueueReport
from tidegate.notices import channels, deliveries, messages
from tidegate.notices.channels import QUEUE as DELIVERIES
from tidegate.notices.channels import TARGETS
from tidegate.notices.deliveries import OngoingNotice
from tidegate.notices.policy import (
    BREAKER,
    CHANNEL,
    FLAPPING,
    GAVE_UP,
    HOUR,
    NO_WORKER,
    PAUSED,
    STUCK,
    BreakerTransition,
    NoticePolicy,
    RaiseNotice,
    ResolveNotice,
    of_breaker,
)
from tidegate.outbox import QUEUE, TARGET, NewNotice, NoticeSubject
from tidegate.store.base import Tx
from tidegate.targets import table
from tidegate.targets.breaker import StoredBreaker
from tidegate.targets.table import TargetRow

QueuesWithoutWorker = dict[str, float]  # queue -> since when it has work and no worker
OWN_QUEUE = DELIVERIES
_MAX_ROWS = 1000
_MOVES = 2 * HOUR  # seconds of breaker transitions that are read
_GATES = frozenset(HoldReason)


@dataclass(frozen=True, slots=True)
class EndedCondition:
    """A notice whose condition has ended. *recovery* is the notice that replaces it, if any."""

    place: NoticeSubject
    kind: str
    recovery: NewNotice | None = None


@dataclass(frozen=True, slots=True)
class Now:
    """The conditions that have begun and ended."""

    begun: list[NewNotice]
    ended: list[EndedCondition]


def find_conditions(tx: Tx, policy: NoticePolicy, now: float, unmanned: QueuesWithoutWorker) -> Now:
    """Compares the current conditions with the open notices."""
    begun, ended = list[NewNotice](), list[EndedCondition]()
    current = [*_queues(tx, policy, now, unmanned), *_paused(tx, policy, now), *_gave_up(tx, now), *_channels(tx)]
    present = {(new.kind, new.place): new for new in current}
    for kind in (STUCK, NO_WORKER, PAUSED, GAVE_UP, CHANNEL):
        open_notices = deliveries.load_ongoing(tx, kind, _MAX_ROWS)
        reported = {(kind, notice.place) for notice in open_notices}
        begun += [new for key, new in present.items() if key[0] == kind and key not in reported]
        for notice in open_notices:
            if (kind, notice.place) in present or (kind == GAVE_UP and _still_failed(tx, notice, now)):
                continue
            ended.append(
                EndedCondition(notice.place, kind, messages.over(kind, notice, now) if kind in messages.ENDS else None)
            )
    raised, over = _breakers(tx, policy, now)
    since = {"since": now - 24 * HOUR, "until": now - policy.steady, "n": _MAX_ROWS}
    quiet = tx.query_as(OngoingNotice, "notices_dealt_with", since)
    begun += map(messages.dealt_with, quiet)
    return Now(begun + raised, ended + over)


# -- queues ------------------------------------------------------------------------------------------------------------


def _queues(tx: Tx, policy: NoticePolicy, now: float, unmanned: QueuesWithoutWorker) -> Iterator[NewNotice]:
    reported = {notice.name for notice in deliveries.load_ongoing(tx, NO_WORKER, _MAX_ROWS)}
    for queue in reports.queues(tx, ages=False):
        if queue.workers or not queue.jobs.get("ready"):
            unmanned.pop(queue.name, None)
        if queue.name == OWN_QUEUE or not queue.jobs.get("ready") or queue.paused_until is not None:
            continue
        oldest = next(iter(reports.first_ready(tx, queue.name)), None)
        if oldest is None or _waits_for_batch(tx, queue.name, policy, now):
            continue
        if not queue.workers:
            since = max(oldest.due_at, unmanned.setdefault(queue.name, now))
            # A process that has just started has not observed it for long. A reported condition continues anyway.
            if now - since >= policy.no_worker or queue.name in reported:
                yield messages.no_worker(queue.name, queue.jobs["ready"], since)
        elif now - oldest.due_at >= policy.stuck and (job := _stuck(tx, queue, policy, now)) is not None:
            yield messages.stuck(queue.name, job.id, job.due_at, now)


def _stuck(tx: Tx, queue: QueueReport, policy: NoticePolicy, now: float) -> JobSummary | None:
    """Returns a job that waits too long without a gate that holds it: gates have their own notices."""
    for line in reports.first_ready(tx, queue.name):
        if now - line.due_at < policy.stuck:
            return None
        if not any(hold.reason in _GATES for hold in explain.job(tx, line.id)):
            return line
    return None


def _waits_for_batch(tx: Tx, queue: str, policy: NoticePolicy, now: float) -> bool:
    """Whether its jobs wait for the next run of a batch-only queue, which is not overdue."""
    at = explain.next_cycle(tx, queue)
    return at is not None and now < at + policy.stuck


def _paused(tx: Tx, policy: NoticePolicy, now: float) -> Iterator[NewNotice]:
    rows = [(QUEUE, *row) for row in tx.query("queue_rows")]
    rows += [(TARGET, row.name, row.paused_at, row.paused_until, row.paused_by) for row in table.targets(tx)]
    for subject, name, since, until, by in rows:
        if since is not None and until is not None and now < until and now - since >= policy.paused:
            yield messages.paused(NoticeSubject(subject=subject, name=name), since, until, by, now)


# -- jobs that gave up -------------------------------------------------------------------------------------------------


def _gave_up(tx: Tx, now: float) -> Iterator[NewNotice]:
    cycled = {name.removeprefix(explain.CYCLE) for name in tx.scalars(str, "cycles")}
    for queue in reports.queues(tx, ages=False):
        # A batch-only queue reports its own failures.
        if not queue.jobs.get("failed") or queue.name == OWN_QUEUE or queue.name in cycled:
            continue
        for group in tx.query("gave_up_lately", {"queue": queue.name, "since": now - HOUR, "n": _MAX_ROWS}):
            yield messages.gave_up(queue.name, *group)


def _still_failed(tx: Tx, known: OngoingNotice, now: float) -> bool:
    """Whether jobs of that group have failed within a day, and some are not resolved."""
    rows = tx.query_many("failure_jobs", [{"failure": known.operation}], {"n": 1})
    return now - known.created_at < 24 * HOUR and any(int(failed) for _, failed, _ in rows)


# -- channels ----------------------------------------------------------------------------------------------------------


def _channels(tx: Tx) -> Iterator[NewNotice]:
    for row in channels.every(tx):
        at = row.disabled_at if row.disabled_at is not None else row.last_at
        if not row.there or at is None or (row.disabled_at is None and row.last_ok is not False):
            continue
        # A fatal fault was already reported.
        if all(notice.kind != "fatal" for notice in outbox.open_of(tx, f"{TARGETS}{row.name}")):
            yield messages.channel(f"{TARGETS}{row.name}", row.name, row.disabled_why or row.last_why or "", at)


# -- breakers ----------------------------------------------------------------------------------------------------------


def _breakers(tx: Tx, policy: NoticePolicy, now: float) -> tuple[list[NewNotice], list[EndedCondition]]:
    moves = _moves(tx, now)
    open_notices = {
        notice.name: (kind, notice)
        for kind in (BREAKER, FLAPPING)
        for notice in deliveries.load_ongoing(tx, kind, _MAX_ROWS)
    }
    rows = {row.name: row for row in table.targets(tx)}
    shut = {name for name, row in rows.items() if row.breaker.state != CLOSED}
    begun, ended = list[NewNotice](), list[EndedCondition]()
    for name in sorted({*moves, *open_notices, *shut}):
        if name.startswith(TARGETS):
            continue  # channels have their own notices
        of, row = open_notices.get(name), rows.get(name)
        transitions, closed = _state(moves.get(name, []), row)
        match of_breaker(transitions, None if of is None else of[0], policy, now, closed):
            case RaiseNotice(kind, since) if kind == FLAPPING:
                begun.append(messages.flapping(name, since, len(transitions), policy))
            case RaiseNotice(_, since):
                begun.append(messages.breaker(name, since, StoredBreaker() if row is None else row.breaker))
            case ResolveNotice(since) if of is not None:
                ended.append(EndedCondition(of[1].place, of[0], messages.over(of[0], of[1], now, since)))
    return begun, ended


def _moves(tx: Tx, now: float) -> dict[str, list[BreakerTransition]]:
    transitions: defaultdict[str, list[BreakerTransition]] = defaultdict(list)
    for name, at, text in tx.query("breaker_moves", {"since": now - _MOVES, "n": 10 * _MAX_ROWS}):
        fields = json.loads(text)
        if CLOSED in (fields.get("from"), fields.get("to")):
            transitions[name].append(BreakerTransition(float(at), fields.get("to") == CLOSED))
    return transitions


def _state(moves: Sequence[BreakerTransition], row: TargetRow | None) -> tuple[Sequence[BreakerTransition], bool]:
    """Returns the transitions, and whether the breaker is closed. Without recent ones, the row has the opening time."""
    if moves:
        return moves, moves[-1].closed
    if row is not None and row.breaker.state != CLOSED:
        return [BreakerTransition(row.breaker.since, closed=False)], False
    return moves, True
