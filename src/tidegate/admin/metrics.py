"""Metrics that are read from the store: the same in every process, and after any restart.

All values come from counters. Nothing here counts jobs. Queues, codes and targets are labels, so their number is
limited.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from tidegate.guard.breaker_state import CLOSED, HALF_OPEN, OPEN
from tidegate.jobs import reports as job_reports
from tidegate.jobs import settle
from tidegate.jobs.settle import BUCKETS
from tidegate.labels import TARGETS
from tidegate.notices import deliveries, inbox
from tidegate.store.base import Tx, now_of
from tidegate.targets import breaker as target_breaker
from tidegate.targets import reports
from tidegate.targets.status import PROGRAM_GONE
from tidegate.targets.table import TargetRow

MAX_TARGETS = 200
MAX_QUEUES = 200
MAX_CODES = 100  # of one queue
MAX_CHANNELS = 50
OTHERS = "others"  # the code of all codes beyond the limit

STATE = {CLOSED: 0, HALF_OPEN: 1, OPEN: 2}
MOVES = ((CLOSED, OPEN), (HALF_OPEN, CLOSED), (HALF_OPEN, OPEN), (OPEN, CLOSED), (OPEN, HALF_OPEN))
_QUEUED = ("blocked", "waiting", "ready")


@dataclass(frozen=True, slots=True)
class Durations:
    """A histogram of attempt durations: (upper bound in seconds, count). The last bound is infinite."""

    buckets: tuple[tuple[float, int], ...]
    sum: float  # seconds

    @property
    def count(self) -> int:
        return self.buckets[-1][1]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFigures:
    """The figures of one queue."""

    name: str
    depth: int  # queue_depth: jobs that are blocked, waiting or ready
    active: int  # jobs_active: those that run
    failed: Mapping[str, int]  # jobs_failed_total by error_code
    durations: Durations  # job_processing_duration_seconds
    manual_retries: int  # manual_retry_total
    lease_expired: int  # tidegate_lease_expired_total
    oldest_age: float  # tidegate_queue_oldest_age_seconds: of the oldest ready job; 0 without one


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerFigures:
    """The stored breaker of a target with jobs. A local breaker of the same name is not counted."""

    name: str
    state: int  # circuit_breaker_state
    consecutive_failures: int
    requests: Mapping[str, int]  # circuit_breaker_requests_total by result
    transitions: Mapping[tuple[str, str], int]  # circuit_breaker_state_transitions_total by (from_state, to_state)


@dataclass(frozen=True, slots=True)
class ReportedBreaker:
    """The breaker of another program, as it last reported."""

    name: str
    state: int
    consecutive_failures: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """All figures. *target_state* has the first 200 targets by name. *targets* counts all of them."""

    queues: list[QueueFigures]
    breakers: list[BreakerFigures]
    target_state: Mapping[str, str]  # tidegate_target_state, one-hot over TOKENS
    targets: Mapping[str, int]  # tidegate_targets by state, with every token
    workers: int  # tidegate_workers: those with a recent heartbeat
    last_tick: float | None  # tidegate_engine_last_tick_timestamp_seconds
    unread_notices: int = 0
    failing: Mapping[str, bool] = field(default_factory=dict)  # tidegate_channel_failing by channel
    deliveries: Mapping[tuple[str, str], int] = field(default_factory=dict)  # tidegate_deliveries_total, per outcome
    tokens: tuple[str, ...] = field(default=tuple(TARGETS))
    programs: Mapping[str, list[ReportedBreaker]] = field(default_factory=dict)  # by program: its own breakers


def figures(tx: Tx) -> Figures:
    """Returns the figures as of now."""
    now = now_of(tx)
    standings = reports.standings(tx)
    shown = standings[:MAX_TARGETS]
    workers = job_reports.workers(tx)
    counted = Counter(standing.token for standing in standings)
    rows = [status.row for status in shown]
    channels = deliveries.channels(tx)
    return Figures(
        queues=_queues(tx, now),
        breakers=[_breaker(row, now) for row in rows if _has_breaker(row)],
        target_state={status.name: status.token for status in shown},
        targets={token: counted[token] for token in TARGETS},
        workers=sum(worker.there for worker in workers),
        last_tick=max((worker.seen_at for worker in workers), default=None),
        unread_notices=inbox.unread(tx),
        failing={channel.name: channel.fails for channel in channels[:MAX_CHANNELS]},
        deliveries=_deliveries(tx, [channel.name for channel in channels]),
        programs=_programs(rows, now),
    )


def _deliveries(tx: Tx, channel_names: Sequence[str]) -> dict[tuple[str, str], int]:
    """Returns delivery counts, with zeros, so that the first failure is an increase."""
    counted = deliveries.counts(tx)
    names = list(dict.fromkeys([*channel_names, *sorted(name for name, _ in counted)]))[:MAX_CHANNELS]
    return {(name, outcome): counted.get((name, outcome), 0) for name in names for outcome in deliveries.OUTCOMES}


def _queues(tx: Tx, now: float) -> list[QueueFigures]:
    by_queue: dict[str, dict[str, int]] = {}
    for (queue, what), n in settle.read(tx).items():
        by_queue.setdefault(queue, {})[what] = n
    return [_queue(tx, name, by_queue[name], now) for name in sorted(by_queue)[:MAX_QUEUES]]


def _queue(tx: Tx, name: str, tally: Mapping[str, int], now: float) -> QueueFigures:
    oldest = tx.scalar_or_none(float, "oldest_ready", {"queue": name}) if tally.get("ready", 0) > 0 else None
    return QueueFigures(
        name=name,
        depth=max(0, sum(tally.get(stage, 0) for stage in _QUEUED)),
        active=max(0, tally.get("running", 0)),
        failed=_failed(tally),
        durations=_durations(tally),
        manual_retries=tally.get(settle.RETRIED, 0),
        lease_expired=tally.get(settle.EXPIRED, 0),
        oldest_age=0.0 if oldest is None else max(0.0, now - oldest),
    )


def _failed(tally: Mapping[str, int]) -> dict[str, int]:
    start = settle.FAILED
    codes = {what.removeprefix(start): n for what, n in sorted(tally.items()) if what.startswith(start)}
    shown = dict(list(codes.items())[:MAX_CODES])
    rest = sum(codes.values()) - sum(shown.values())
    return {**shown, OTHERS: rest} if rest else shown


def _durations(tally: Mapping[str, int]) -> Durations:
    counts = accumulate(tally.get(f"{settle.TOOK}{n}", 0) for n in range(len(BUCKETS) + 1))
    bounds = (*BUCKETS, float("inf"))
    return Durations(tuple(zip(bounds, counts, strict=True)), tally.get(settle.TOOK_ALL, 0) / 1_000_000)


def _has_breaker(row: TargetRow) -> bool:
    """Whether workers have reported a breaker for the row."""
    return row.rules is not None and "breaker" in json.loads(row.rules)


def _programs(rows: Sequence[TargetRow], now: float) -> dict[str, list[ReportedBreaker]]:
    by_program: dict[str, list[ReportedBreaker]] = {}
    for row in rows:
        for program, report in (json.loads(row.summary) if row.summary else {}).items():
            if now - report.get("at", 0.0) < PROGRAM_GONE:
                by_program.setdefault(program, []).extend(
                    ReportedBreaker(name, STATE.get(one.get("state"), 0), int(one.get("consecutive_failures", 0)))
                    for name, one in report.get("breakers", {}).items()
                )
    return by_program


def _breaker(row: TargetRow, now: float) -> BreakerFigures:
    breaker = target_breaker.advance(row.breaker, now)
    good, bad, rejected = breaker.totals
    moves = {(old, new): n for old, new, n in row.breaker.transitions}
    return BreakerFigures(
        name=row.name,
        state=STATE[breaker.state],
        consecutive_failures=breaker.run,
        requests={"success": good, "failure": bad, "rejected": rejected},
        transitions={move: moves.get(move, 0) for move in MOVES},
    )
