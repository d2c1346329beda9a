"""A breaker whose state is a row, so that all workers of all hosts agree. Pure: a row and what happened in, a row out.

The numbers and the meaning are those of `Breaker`; counting happens when a batch of attempts is settled. How many calls
are under way is read off the running jobs, never kept in a counter that a crash could leave wrong.
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
    """The breaker of one target, as the store keeps it."""

    state: str = CLOSED
    generation: int = 0
    since: float = 0.0
    until: float | None = None  # open without an end: a probe ends it
    closed_at: float | None = None
    buckets: tuple[tuple[float, int, int], ...] = ()  # began, requests, failures
    run: int = 0  # failures in a row
    good: int = 0  # successes while half-open
    by: str | None = None  # who forced it open; only time or a person ends that
    totals: tuple[int, int, int] = (0, 0, 0)  # successes, failures and rejected calls since it was first met
    transitions: tuple[tuple[str, str, int], ...] = ()  # from, to, how often since then
    adaptive_limit: AdaptiveLimit | None = None  # closed again, and not yet known to bear everything
    opened: TripReason | None = None  # why it is open; None when it is not, or was opened by an older program
    tripped_at: float | None = None  # while it is not closed: when it was closed for the last time

    def dump(self) -> str:
        kept: dict[str, object] = {"buckets": self.buckets, "run": self.run, "good": self.good, "totals": self.totals}
        if self.transitions:
            kept["moves"] = self.transitions
        if self.adaptive_limit is not None:
            kept["climb"] = self.adaptive_limit.dump()
        if self.opened is not None:
            kept["opened"] = self.opened.dump()
        if self.tripped_at is not None:
            kept["tripped_at"] = self.tripped_at
        return json.dumps(kept if self.by is None else {**kept, "by": self.by})

    @classmethod
    def load(
        cls, state: str, generation: int, since: float, until: float | None, closed_at: float | None, counts: str
    ) -> StoredBreaker:
        kept = json.loads(counts)
        buckets = tuple((float(began), int(n), int(bad)) for began, n, bad in kept.get("buckets", ()))
        good, bad, rejected = kept.get("totals", (0, 0, 0))
        moves = tuple((str(old), str(new), int(n)) for old, new, n in kept.get("moves", ()))
        return cls(
            state=state,
            generation=generation,
            since=since,
            until=until,
            closed_at=closed_at,
            buckets=buckets,
            run=int(kept.get("run", 0)),
            good=int(kept.get("good", 0)),
            by=kept.get("by"),
            totals=(int(good), int(bad), int(rejected)),
            transitions=moves,
            adaptive_limit=AdaptiveLimit.load(kept["climb"]) if "climb" in kept else None,
            opened=TripReason.load(kept.get("opened")),
            tripped_at=kept.get("tripped_at"),
        )


def advance(row: StoredBreaker, now: float) -> StoredBreaker:
    """The row after what time alone has decided."""
    if row.state == OPEN and row.until is not None and now >= row.until:
        return half_open(row, now)
    if row.closed_at is not None and row.closed_at > now:
        row = replace(row, closed_at=now)  # the clock was set back: else one at a time until it is there again
    if row.adaptive_limit is not None and (step := limits.advance(row.adaptive_limit, now)) != row.adaptive_limit:
        return replace(row, adaptive_limit=step)
    return row


def concurrency_limit(row: StoredBreaker, limit: int | None, now: float) -> int:
    """How many jobs may be under way; *limit* is what somebody has named."""
    if limit is not None:
        return ramp_limit(limit, row.closed_at, now)
    return UNLIMITED if row.adaptive_limit is None else row.adaptive_limit.allowed(now)


def is_ramping(row: StoredBreaker, limit: int | None, now: float) -> bool:
    """Whether that is less than it will be, because the breaker was open not long ago."""
    return row.adaptive_limit is not None if limit is None else ramps_at(row.closed_at, now)


def restart_limit(row: StoredBreaker, now: float) -> StoredBreaker:
    """The row after everything was held for a while by something else, and is not any more."""
    return (
        replace(row, adaptive_limit=AdaptiveLimit(since=now))
        if row.state == CLOSED and row.adaptive_limit is None
        else row
    )


def mark_limited(row: StoredBreaker) -> StoredBreaker:
    """The row after a turn in which there were more jobs than may be under way."""
    if row.adaptive_limit is None or row.adaptive_limit.bound:
        return row
    return replace(row, adaptive_limit=limits.mark_limited(row.adaptive_limit))


def endless(row: StoredBreaker) -> bool:
    """Whether it is open until a probe ends that."""
    return row.state == OPEN and row.until is None and row.by is None


def half_open_slots(row: StoredBreaker, policy: BreakerPolicy, under_way: int) -> int:
    """How many calls may be let through at this moment; *under_way* counts those of this half-open state alone."""
    if row.state == OPEN:
        return 0
    if row.state == HALF_OPEN:
        return max(0, policy.max_requests - row.good - under_way)
    return UNLIMITED


def record_results(
    row: StoredBreaker, policy: BreakerPolicy, results: Sequence[tuple[bool, int]], now: float
) -> StoredBreaker:
    """The row after results, each with the generation that let its call through; an older one is only counted."""
    if not results:
        return row
    good, bad, rejected = row.totals
    n = sum(ok for ok, _ in results)
    row = replace(row, totals=(good + n, bad + len(results) - n, rejected))
    for ok, generation in results:
        if generation == row.generation:
            row = _one(row, policy, now, ok=ok)
    if row.adaptive_limit is not None:
        n = sum(ok and generation == row.generation for ok, generation in results)
        row = replace(row, adaptive_limit=limits.record_success(row.adaptive_limit, n))
    return row


def record_rejected(row: StoredBreaker, n: int) -> StoredBreaker:
    """The row after *n* calls that were not made because it is open."""
    good, bad, before = row.totals
    return replace(row, totals=(good, bad, before + n)) if n else row


def force_open(
    row: StoredBreaker, now: float, until: float | None, by: str | None = None, *, rule: OpenedBy = OpenedBy.PERSON
) -> StoredBreaker:
    """Open because of *rule*; *by* is the person who ordered it."""
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
    )
    return _following(row, fresh)


def half_open(row: StoredBreaker, now: float) -> StoredBreaker:
    fresh = StoredBreaker(
        state=HALF_OPEN, since=now, closed_at=row.closed_at, run=row.run, tripped_at=_tripped_at(row, now)
    )
    return _following(row, fresh)


def close(row: StoredBreaker, now: float) -> StoredBreaker:
    return _following(
        row, StoredBreaker(state=CLOSED, since=now, closed_at=now, adaptive_limit=AdaptiveLimit(since=now))
    )


def _following(row: StoredBreaker, fresh: StoredBreaker) -> StoredBreaker:
    """The next generation after *row*, which keeps what is counted for ever."""
    moves = {(old, new): n for old, new, n in row.transitions}
    if fresh.state != row.state:
        moves[row.state, fresh.state] = moves.get((row.state, fresh.state), 0) + 1
    kept = tuple((old, new, n) for (old, new), n in sorted(moves.items()))
    return replace(fresh, generation=row.generation + 1, totals=row.totals, transitions=kept)


def record_probe(row: StoredBreaker, now: float) -> StoredBreaker:
    """A health probe answered: open becomes half-open, unless a person forced it; never more than that."""
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
    """The rule that opens it now, if one does."""
    if policy.too_long(row.run):
        return OpenedBy.CONSECUTIVE
    if policy.trip is not None:
        return OpenedBy.RULE if policy.custom_ready_to_trip(counts(row)) else None
    return OpenedBy.RATIO if policy.ready_to_trip(counts(row)) else None


def trip(row: StoredBreaker, policy: BreakerPolicy, now: float, rule: OpenedBy) -> StoredBreaker:
    """Open for as long as the policy says, because of *rule*."""
    lasts = policy.open_after(now - _tripped_at(row, now))
    return force_open(row, now, None if policy.timeout is None else now + lasts, rule=rule)


def _tripped_at(row: StoredBreaker, now: float) -> float:
    """When the outage began that keeps it from being closed; a clock that was set back makes it no longer."""
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
