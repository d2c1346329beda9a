"""The breaker of a target as a row that all workers share. Pure functions from row to row.

The policy is that of `Breaker`. Results are counted when a batch of attempts is settled. Calls in flight are counted
from the running jobs, because a crash could leave a stored counter wrong.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tidegate.guard import limits
from tidegate.guard.breaker_counts import Counts
from tidegate.guard.breaker_policy import BreakerPolicy, OpenedBy, TripReason
from tidegate.guard.breaker_state import CLOSED, HALF_OPEN, OPEN
from tidegate.guard.limits import UNLIMITED, AdaptiveLimit, ramp_limit, ramps_at


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBreaker:
    """The stored breaker of one target."""

    state: str = CLOSED
    generation: int = 0
    since: float = 0.0
    until: float | None = None  # None while open: only a probe or an operator ends it
    closed_at: float | None = None
    buckets: tuple[tuple[float, int, int], ...] = ()  # began, requests, failures
    run: int = 0  # consecutive failures
    good: int = 0  # successes while half-open
    by: str | None = None  # the operator who forced it open; only time or an operator ends that
    totals: tuple[int, int, int] = (0, 0, 0)  # successes, failures and rejected calls since the first call
    transitions: tuple[tuple[str, str, int], ...] = ()  # from, to, count since the first call
    adaptive_limit: AdaptiveLimit | None = None  # limits concurrency after an outage until full load is proven
    opened: TripReason | None = None  # why it is open; None if it is not open, or the reason was not recorded
    tripped_at: float | None = None  # while it is not closed: when it left the closed state
    good_generation: int | None = None  # while it is not closed: the last half-open generation with a successful trial
    trial_key: str = ""  # while it is not closed: the key of the last trial

    def dump(self) -> str:
        fields: dict[str, object] = {"buckets": self.buckets, "run": self.run, "good": self.good, "totals": self.totals}
        if self.transitions:
            fields["moves"] = self.transitions
        if self.adaptive_limit is not None:
            fields["climb"] = self.adaptive_limit.dump()
        if self.opened is not None:
            fields["opened"] = self.opened.dump()
        if self.tripped_at is not None:
            fields["tripped_at"] = self.tripped_at
        if self.good_generation is not None:
            fields["good_generation"] = self.good_generation
        if self.trial_key:
            fields["trial_key"] = self.trial_key
        return json.dumps(fields if self.by is None else {**fields, "by": self.by})

    @classmethod
    def load(
        cls, state: str, generation: int, since: float, until: float | None, closed_at: float | None, counts: str
    ) -> StoredBreaker:
        fields = json.loads(counts)
        buckets = tuple((float(began), int(n), int(bad)) for began, n, bad in fields.get("buckets", ()))
        good, bad, rejected = fields.get("totals", (0, 0, 0))
        moves = tuple((str(old), str(new), int(n)) for old, new, n in fields.get("moves", ()))
        return cls(
            state=state,
            generation=generation,
            since=since,
            until=until,
            closed_at=closed_at,
            buckets=buckets,
            run=int(fields.get("run", 0)),
            good=int(fields.get("good", 0)),
            by=fields.get("by"),
            totals=(int(good), int(bad), int(rejected)),
            transitions=moves,
            adaptive_limit=AdaptiveLimit.load(fields["climb"]) if "climb" in fields else None,
            opened=TripReason.load(fields.get("opened")),
            tripped_at=fields.get("tripped_at"),
            good_generation=fields.get("good_generation"),
            trial_key=fields.get("trial_key", ""),
        )


def advance(row: StoredBreaker, now: float) -> StoredBreaker:
    """Applies transitions that depend only on time."""
    if row.state == OPEN and row.until is not None and now >= row.until:
        return half_open(row, now)
    if row.closed_at is not None and row.closed_at > now:
        row = replace(row, closed_at=now)  # after a clock step backwards, the ramp would stay at its minimum
    if row.adaptive_limit is not None and (step := limits.advance(row.adaptive_limit, now)) != row.adaptive_limit:
        return replace(row, adaptive_limit=step)
    return row


def concurrency_limit(row: StoredBreaker, limit: int | None, now: float) -> int:
    """How many jobs may run. *limit*: the configured concurrency, if any."""
    if limit is not None:
        return ramp_limit(limit, row.closed_at, now)
    return UNLIMITED if row.adaptive_limit is None else row.adaptive_limit.allowed(now)


def is_ramping(row: StoredBreaker, limit: int | None, now: float) -> bool:
    """Whether the limit is still reduced because the breaker was open recently."""
    return row.adaptive_limit is not None if limit is None else ramps_at(row.closed_at, now)


def restart_limit(row: StoredBreaker, now: float) -> StoredBreaker:
    """Restarts the adaptive limit after another gate has held all jobs for a while."""
    return (
        replace(row, adaptive_limit=AdaptiveLimit(since=now))
        if row.state == CLOSED and row.adaptive_limit is None
        else row
    )


def mark_limited(row: StoredBreaker) -> StoredBreaker:
    """Records that more jobs were ready than the adaptive limit allowed."""
    if row.adaptive_limit is None or row.adaptive_limit.bound:
        return row
    return replace(row, adaptive_limit=limits.mark_limited(row.adaptive_limit))


def endless(row: StoredBreaker) -> bool:
    """Whether it is open until a probe succeeds."""
    return row.state == OPEN and row.until is None and row.by is None


def half_open_slots(row: StoredBreaker, policy: BreakerPolicy, under_way: int) -> int:
    """How many calls the breaker admits now. *under_way*: running calls of this half-open state only."""
    if row.state == OPEN:
        return 0
    if row.state == HALF_OPEN:
        return max(0, policy.max_requests - row.good - under_way)
    return UNLIMITED


def outage_at_trial(row: StoredBreaker, now: float) -> float | None:
    """Seconds since the breaker opened, if a job claimed now is a trial of a service that has not responded since.

    None if it is not a trial, or if a trial in this half-open state or the one before succeeded. Then the service
    works, and a trial that fails is the fault of its job.
    """
    if row.state != HALF_OPEN or (row.good_generation is not None and row.good_generation >= row.generation - 2):
        return None
    return now - _tripped_at(row, now)


def record_results(
    row: StoredBreaker, policy: BreakerPolicy, results: Sequence[tuple[bool, int]], now: float
) -> StoredBreaker:
    """Applies results, each with the generation that admitted its call. Older generations only add to the totals."""
    if not results:
        return row
    good, bad, rejected = row.totals
    n = sum(ok for ok, _ in results)
    trials = _trial_generation(row)
    good_generation = trials if any(ok and generation == trials for ok, generation in results) else row.good_generation
    row = replace(row, totals=(good + n, bad + len(results) - n, rejected), good_generation=good_generation)
    for ok, generation in results:
        if generation == row.generation:
            row = _one(row, policy, now, ok=ok)
    if row.adaptive_limit is not None:
        n = sum(ok and generation == row.generation for ok, generation in results)
        row = replace(row, adaptive_limit=limits.record_success(row.adaptive_limit, n))
    return row


def record_rejected(row: StoredBreaker, n: int) -> StoredBreaker:
    """Counts *n* calls that were rejected because the breaker is open."""
    good, bad, before = row.totals
    return replace(row, totals=(good, bad, before + n)) if n else row


def force_open(
    row: StoredBreaker, now: float, until: float | None, by: str | None = None, *, rule: OpenedBy = OpenedBy.PERSON
) -> StoredBreaker:
    """Opens the breaker because of *rule*. *by*: the operator who ordered it."""
    seen = counts(row)
    why = TripReason(rule=rule, run=row.run, requests=seen.requests, failures=seen.failures)
    fresh = StoredBreaker(
        state=OPEN,
        since=now,
        until=until,
        closed_at=row.closed_at,
        run=row.run,
        by=by,
        opened=why,
        tripped_at=_tripped_at(row, now),
        good_generation=row.good_generation,
        trial_key=row.trial_key,
    )
    return _following(row, fresh)


def half_open(row: StoredBreaker, now: float) -> StoredBreaker:
    fresh = StoredBreaker(
        state=HALF_OPEN,
        since=now,
        closed_at=row.closed_at,
        run=row.run,
        tripped_at=_tripped_at(row, now),
        good_generation=row.good_generation,
        trial_key=row.trial_key,
    )
    return _following(row, fresh)


def close(row: StoredBreaker, now: float) -> StoredBreaker:
    return _following(
        row, StoredBreaker(state=CLOSED, since=now, closed_at=now, adaptive_limit=AdaptiveLimit(since=now))
    )


def _following(row: StoredBreaker, fresh: StoredBreaker) -> StoredBreaker:
    """The next generation after *row*. It keeps the totals and transition counts."""
    moves = {(old, new): n for old, new, n in row.transitions}
    if fresh.state != row.state:
        moves[row.state, fresh.state] = moves.get((row.state, fresh.state), 0) + 1
    kept = tuple((old, new, n) for (old, new), n in sorted(moves.items()))
    return replace(fresh, generation=row.generation + 1, totals=row.totals, transitions=kept)


def record_probe(row: StoredBreaker, now: float) -> StoredBreaker:
    """Half-opens an open breaker after a successful probe, unless an operator forced it open."""
    return half_open(row, now) if row.state == OPEN and row.by is None else row


def counts(row: StoredBreaker) -> Counts:
    requests, failures = sum(n for _, n, _ in row.buckets), sum(bad for _, _, bad in row.buckets)
    return Counts(requests, requests - failures, failures, 0, row.run)


def _one(row: StoredBreaker, policy: BreakerPolicy, now: float, *, ok: bool) -> StoredBreaker:
    if row.state == HALF_OPEN:
        if not ok:
            return trip(replace(row, run=row.run + 1), policy, now, OpenedBy.HALF_OPEN)
        row = replace(row, good=row.good + 1)
        return close(row, now) if row.good >= policy.max_requests else row
    if row.state == OPEN:
        return row
    row = replace(row, buckets=_counted(row.buckets, policy, now, ok=ok), run=0 if ok else row.run + 1)
    rule = None if ok else _broken(row, policy)
    return row if rule is None else trip(row, policy, now, rule)


def _broken(row: StoredBreaker, policy: BreakerPolicy) -> OpenedBy | None:
    """The rule that trips the breaker now, if any."""
    if policy.too_long(row.run):
        return OpenedBy.CONSECUTIVE
    if policy.trip is not None:
        return OpenedBy.RULE if policy.custom_ready_to_trip(counts(row)) else None
    return OpenedBy.RATIO if policy.ready_to_trip(counts(row)) else None


def trip(row: StoredBreaker, policy: BreakerPolicy, now: float, rule: OpenedBy) -> StoredBreaker:
    """Opens the breaker because of *rule*, for the duration of the policy."""
    lasts = policy.open_after(now - _tripped_at(row, now))
    return force_open(row, now, None if policy.timeout is None else now + lasts, rule=rule)


def _trial_generation(row: StoredBreaker) -> int | None:
    """The generation of the current half-open state, or of the one before the breaker opened again."""
    if row.state == HALF_OPEN:
        return row.generation
    reopened = row.state == OPEN and row.tripped_at is not None and row.tripped_at < row.since
    return row.generation - 1 if reopened else None


def _tripped_at(row: StoredBreaker, now: float) -> float:
    """When the current outage began, but not after *now*, in case the clock was set back."""
    return now if row.state == CLOSED or row.tripped_at is None else min(row.tripped_at, now)


def _counted(
    buckets: tuple[tuple[float, int, int], ...], policy: BreakerPolicy, now: float, *, ok: bool
) -> tuple[tuple[float, int, int], ...]:
    """One more result in the newest bucket; those that have left the window, or the interval, are dropped."""
    span = policy.slice if policy.window is None else policy.slice * 10
    # One that began later than now is from before the clock was set back.
    kept = [(min(began, now), n, bad) for began, n, bad in buckets if now - began < span]
    if not kept or now - kept[-1][0] >= policy.slice:
        kept.append((now, 0, 0))
    began, requests, failures = kept[-1]
    kept[-1] = (began, requests + 1, failures + (not ok))
    return tuple(kept)
