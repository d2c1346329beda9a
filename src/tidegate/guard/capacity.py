"""Capacity of a target: its policy, its fill level, and the number of jobs that workers may send.

credits = cap - observed depth - own sends that the depth does not include yet. An own send counts from its claim,
before anything is sent. So all workers together never send more than there are credits.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

from tidegate.durations import Duration, seconds
from tidegate.logs import logger
from tidegate.validation import did_you_mean, whole

# -- fill level -----------------------------------------------------------------------------------------------------

# Seconds that one worker may query the depth before another worker may.
DEPTH_TIMEOUT = 10.0
_FIRST_WAIT = 5.0


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """The depth of a target's queue. *landed* are own sends that are in the queue or have left it."""

    total: int
    landed: Collection[int] | None = None  # ids of jobs; None if unknown, then growth of the total counts


@dataclass(frozen=True, slots=True)
class CapacityLimits:
    """The options of a capacity."""

    cap: int
    own: float  # seconds that an own send counts, if nothing else ends it
    every: float  # seconds between queries of a target that is full or does not respond
    each: bool = True  # query again after every success


@dataclass(frozen=True, slots=True)
class PendingSend:
    """A job that takes space at the target, or is about to."""

    job: int
    at: float
    done: bool = False  # the target has accepted it


@dataclass(frozen=True, slots=True, kw_only=True)
class FillLevel:
    """What the store knows about the queue of a target."""

    depth: int | None = None
    at: float = 0.0  # when it was observed
    fresh: bool = False  # no event since then makes a new query necessary
    own: tuple[PendingSend, ...] = ()
    spent: bool = False  # credits of this observation were used
    asking: str | None = None  # the worker that queries now
    asking_until: float = 0.0
    failures: int = 0  # consecutive queries that failed
    failed_at: float = 0.0
    retry_at: float = 0.0

    def dump(self) -> str:
        return json.dumps(
            {
                "depth": self.depth,
                "at": self.at,
                "fresh": self.fresh,
                "spent": self.spent,
                "asking": self.asking,
                "asking_until": self.asking_until,
                "failures": self.failures,
                "failed_at": self.failed_at,
                "retry_at": self.retry_at,
                "own": [[send.job, send.at, send.done] for send in self.own],
            }
        )

    def shift(self, shift: Callable[[float], float]) -> FillLevel:
        """Converts all times after a clock change. *shift* maps old to new times. 0 means no time."""

        def moved(at: float) -> float:
            return shift(at) if at else 0.0

        return replace(
            self,
            at=moved(self.at),
            asking_until=moved(self.asking_until),
            failed_at=moved(self.failed_at),
            retry_at=moved(self.retry_at),
            own=tuple(replace(send, at=shift(send.at)) for send in self.own),
        )

    @classmethod
    def load(cls, text: str | None) -> FillLevel:
        if text is None:
            return cls()
        fields = json.loads(text)
        own = tuple(PendingSend(int(job), float(at), bool(done)) for job, at, done in fields.pop("own", ()))
        return cls(**fields, own=own)


@dataclass(frozen=True, slots=True)
class SendAllowance:
    """How many jobs may be sent now, or that a worker must query the depth first, or when to check again."""

    n: int = 0
    ask: bool = False
    until: float | None = None


def own_sends(level: FillLevel, limits: CapacityLimits, now: float) -> tuple[PendingSend, ...]:
    """The own sends that still count. A send far in the future is older than a clock change, and does not count."""
    return tuple(send for send in level.own if abs(now - send.at) < limits.own)


def send_allowance(level: FillLevel, limits: CapacityLimits, now: float, cycle: float = 0.0) -> SendAllowance:
    """Returns how many jobs may be sent. An observation from before *cycle* does not count.

    Neither does one from the future: the clock was set back, and jobs must not wait until that time.
    """
    if level.asking is not None and now < level.asking_until <= now + DEPTH_TIMEOUT:
        return SendAllowance(until=level.asking_until)
    if level.failures and now < level.retry_at and cycle <= level.failed_at <= now:
        return SendAllowance(until=level.retry_at)
    if level.depth is None or not level.fresh or now - level.at >= limits.every:
        return SendAllowance(ask=True)
    if not cycle <= level.at <= now:
        return SendAllowance(ask=True)
    credits_left = limits.cap - level.depth - len(own_sends(level, limits, now))
    if credits_left > 0:
        return SendAllowance(credits_left)
    return SendAllowance(ask=True) if level.spent else SendAllowance(until=level.at + limits.every)


def depth_requested(level: FillLevel, who: str, now: float) -> FillLevel:
    """Reserves the query of the depth for worker *who*."""
    return replace(level, asking=who, asking_until=now + DEPTH_TIMEOUT)


def depth_observed(level: FillLevel, limits: CapacityLimits, who: str, answer: QueueDepth, now: float) -> FillLevel:
    """Records an observed depth. A late response is ignored if another worker queries by now.

    A depth that grew by n shows that at least n own sends have arrived: jobs that end there only reduce it. So the n
    oldest own sends no longer count, unless the target names them.
    """
    if level.asking != who:
        return level
    own = sorted(own_sends(level, limits, now), key=lambda send: (not send.done, send.at))
    if answer.landed is not None:
        landed = set(answer.landed)
        own = [send for send in own if send.job not in landed]
    elif level.depth is not None:
        own = own[max(0, answer.total - level.depth) :]
    return FillLevel(depth=answer.total, at=now, fresh=True, own=tuple(own))


def depth_failed(level: FillLevel, limits: CapacityLimits, who: str, now: float) -> FillLevel:
    """Records a failed query. It counts against no job, and is repeated after a delay."""
    if level.asking != who:
        return level
    wait = min(_FIRST_WAIT * 2 ** min(level.failures, 16), limits.every)
    return replace(
        level,
        fresh=False,
        asking=None,
        asking_until=0.0,
        failures=level.failures + 1,
        failed_at=now,
        retry_at=now + wait,
    )


def record_claims(level: FillLevel, limits: CapacityLimits, jobs: Iterable[int], now: float) -> FillLevel:
    """Records jobs that are about to be sent and take space at the target."""
    sends = [PendingSend(job, now) for job in jobs]
    if not sends:
        return level
    again = {send.job for send in sends}
    others = [send for send in own_sends(level, limits, now) if send.job not in again]
    return replace(level, own=(*others, *sends), spent=True)


def record_settled(
    level: FillLevel, limits: CapacityLimits, ended: Sequence[tuple[int, bool]], now: float
) -> FillLevel:
    """Records settled jobs, each with whether the target accepted it. Rejected jobs free their space."""
    done = {job for job, ok in ended if ok}
    gone = {job for job, ok in ended if not ok}
    own = tuple(
        PendingSend(send.job, now, done=True) if send.job in done else send
        for send in level.own
        if send.job not in gone
    )
    again = bool(done) and limits.each
    return replace(level, own=own, fresh=level.fresh and not again)


# -- policy ---------------------------------------------------------------------------------------------------------

_log = logger("tidegate.worker")


class SentJob(Protocol):
    """A job that is about to be sent, as the *counts* rule sees it."""

    @property
    def id(self) -> int: ...

    @property
    def args(self) -> str: ...


class Capacity:
    """Sends only as many jobs as the target has space for.

        Capacity(50, depth=lambda: lidarr.get("/api/v1/queue").json()["totalRecords"])

    *depth* (`def` or `async def`) returns the length of the target's queue, as a number or a `QueueDepth`. It runs only
    if there are jobs to send. With *ask* "each" it runs again after every success, with "credits" only when the known
    credits are spent.

    An own send counts until the depth has grown by it, `QueueDepth.landed` names it, or *own* has passed. *counts*
    decides whether a job takes space at the target. It gets the job's arguments by name, as JSON values. A target that
    is full or does not respond is queried again after *every*.
    """

    __slots__ = ("counts", "depth", "limits")

    def __init__(
        self,
        cap: int,
        *,
        depth: Callable[[], Any],
        own: Duration = "15m",
        ask: Literal["each", "credits"] = "each",
        counts: Callable[[Mapping[str, Any]], bool] | None = None,
        every: Duration = "30s",
    ) -> None:
        if not callable(depth):
            raise TypeError(f"Capacity.depth must be a function that returns the depth, got {depth!r:.60}")
        if ask not in ("each", "credits"):
            hint = did_you_mean(ask, ("each", "credits"))
            raise ValueError(f"Capacity.ask must be 'each' or 'credits', got {ask!r:.60}{hint}")
        self.depth = depth
        self.counts = counts
        self.limits = CapacityLimits(
            cap=whole(cap, field="Capacity.cap"),
            own=seconds(own, field="Capacity.own"),
            every=seconds(every, field="Capacity.every", minimum=0.001),
            each=ask == "each",
        )

    def takes_place(self, job: SentJob) -> bool:
        """Whether this job takes space at the target. True if the rule raises."""
        try:
            return self.counts is None or bool(self.counts(json.loads(job.args)))
        except Exception:
            _log.exception("capacity_rule_raised job=%s", job.id)
            return True
