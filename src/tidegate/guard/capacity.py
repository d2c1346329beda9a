"""Capacity of a target: its policy, its fill level, and the jobs that may be sent."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

from tidegate.durations import Duration, seconds
from tidegate.logs import logger
from tidegate.validation import whole

# How full a target is, as a row: what is known of it, what was sent since, and how much more may be. Pure.
#
# credits = cap - observed depth - own sends that are not visible there yet. An own send is counted when it is claimed,
# before anything leaves, so that any number of workers together never send more than there are credits.

# How long a question may take before somebody else may ask it.
DEPTH_TIMEOUT = 10.0
_FIRST_WAIT = 5.0


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """An answer that may know more than a number: which own sends are visible there by now, or have ended there."""

    total: int
    landed: Collection[int] | None = None  # ids of jobs; None: not known, so the growth of the number must tell


@dataclass(frozen=True, slots=True)
class CapacityLimits:
    """The numbers of a capacity."""

    cap: int
    own: float  # how long a send of our own counts at most
    every: float  # when a target that is full, or silent, is asked again
    each: bool = True  # ask again after every success


@dataclass(frozen=True, slots=True)
class PendingSend:
    """One job that takes a place at the target, or is about to."""

    job: int
    at: float
    done: bool = False  # the target has accepted it


@dataclass(frozen=True, slots=True, kw_only=True)
class FillLevel:
    """What is known of a target's room, as the store keeps it."""

    depth: int | None = None
    at: float = 0.0  # when it was observed
    fresh: bool = False  # nothing has happened since that asks for another look
    own: tuple[PendingSend, ...] = ()
    spent: bool = False  # credits of this observation were used
    asking: str | None = None  # who asks at this moment
    asking_until: float = 0.0
    failures: int = 0  # questions in a row that were not answered
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
        """As a clock shows it that was set: *shift* gives the new time for an old one. 0 is no time."""

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
        kept = json.loads(text)
        own = tuple(PendingSend(int(job), float(at), bool(done)) for job, at, done in kept.pop("own", ()))
        return cls(**kept, own=own)


@dataclass(frozen=True, slots=True)
class SendAllowance:
    """How many may be sent now; or that somebody must ask first; or when to look again."""

    n: int = 0
    ask: bool = False
    until: float | None = None


def own_sends(filling: FillLevel, limits: CapacityLimits, now: float) -> tuple[PendingSend, ...]:
    """Those that still count; one that is as far ahead was sent before the clock was set back."""
    return tuple(send for send in filling.own if abs(now - send.at) < limits.own)


def send_allowance(filling: FillLevel, limits: CapacityLimits, now: float, cycle: float = 0.0) -> SendAllowance:
    """What may be sent; an observation from before the *cycle* does not count.

    Nor does one from the future: the clock was set back, and nobody must wait until it is there again.
    """
    if filling.asking is not None and now < filling.asking_until <= now + DEPTH_TIMEOUT:
        return SendAllowance(until=filling.asking_until)
    if filling.failures and now < filling.retry_at and cycle <= filling.failed_at <= now:
        return SendAllowance(until=filling.retry_at)
    if filling.depth is None or not filling.fresh or now - filling.at >= limits.every:
        return SendAllowance(ask=True)
    if not cycle <= filling.at <= now:
        return SendAllowance(ask=True)
    credits_left = limits.cap - filling.depth - len(own_sends(filling, limits, now))
    if credits_left > 0:
        return SendAllowance(credits_left)
    return SendAllowance(ask=True) if filling.spent else SendAllowance(until=filling.at + limits.every)


def depth_requested(filling: FillLevel, who: str, now: float) -> FillLevel:
    """Somebody asks; nobody else does meanwhile."""
    return replace(filling, asking=who, asking_until=now + DEPTH_TIMEOUT)


def depth_observed(filling: FillLevel, limits: CapacityLimits, who: str, answer: QueueDepth, now: float) -> FillLevel:
    """The answer to a question; one that came too late, when another was asked already, changes nothing.

    A depth that has grown by n shows that at least n sends have become visible: things that end there only make it
    smaller. So the oldest n of our own count no more, if the target does not say which ones.
    """
    if filling.asking != who:
        return filling
    own = sorted(own_sends(filling, limits, now), key=lambda send: (not send.done, send.at))
    if answer.landed is not None:
        landed = set(answer.landed)
        own = [send for send in own if send.job not in landed]
    elif filling.depth is not None:
        own = own[max(0, answer.total - filling.depth) :]
    return FillLevel(depth=answer.total, at=now, fresh=True, own=tuple(own))


def depth_failed(filling: FillLevel, limits: CapacityLimits, who: str, now: float) -> FillLevel:
    """Nobody is charged; it is asked again after a while."""
    if filling.asking != who:
        return filling
    wait = min(_FIRST_WAIT * 2 ** min(filling.failures, 16), limits.every)
    return replace(
        filling,
        fresh=False,
        asking=None,
        asking_until=0.0,
        failures=filling.failures + 1,
        failed_at=now,
        retry_at=now + wait,
    )


def record_claims(filling: FillLevel, limits: CapacityLimits, jobs: Iterable[int], now: float) -> FillLevel:
    """Jobs that take a place there are about to be sent."""
    sends = [PendingSend(job, now) for job in jobs]
    if not sends:
        return filling
    again = {send.job for send in sends}
    kept = [send for send in own_sends(filling, limits, now) if send.job not in again]
    return replace(filling, own=(*kept, *sends), spent=True)


def record_settled(
    filling: FillLevel, limits: CapacityLimits, ended: Sequence[tuple[int, bool]], now: float
) -> FillLevel:
    """Jobs came back, each with whether the target has accepted it; what it did not accept takes no place there."""
    done = {job for job, ok in ended if ok}
    gone = {job for job, ok in ended if not ok}
    own = tuple(
        PendingSend(send.job, now, done=True) if send.job in done else send
        for send in filling.own
        if send.job not in gone
    )
    again = bool(done) and limits.each
    return replace(filling, own=own, fresh=filling.fresh and not again)


# The policy of a target that says how full it is. What its answers allow is decided in `guard.capacity`.

_log = logger("tidegate.worker")


class SentJob(Protocol):
    """A job that is about to be sent, as the rule of a capacity sees it."""

    @property
    def id(self) -> int: ...

    @property
    def args(self) -> str: ...


class Capacity:
    """Sends no more than a target has room for.

        Capacity(50, depth=lambda: lidarr.get("/api/v1/queue").json()["totalRecords"])

    *depth* (`def` or `async def`) says how many things the target has in its queue; it is asked only when there is
    something to send. It returns a number, or a `QueueDepth`. *ask* "each" asks again after every success, "credits"
    only
    when those it knew of are spent. A send of our own counts until the depth has grown by it, or `QueueDepth.landed`
    names
    it, or for *own* at most. *counts* says whether a job takes a place there at all. It gets the arguments of the job,
    by name and as JSON values.
    A target that is full, or does not answer, is asked again after *every*.
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
            raise TypeError(f"Capacity.depth: {depth!r} cannot be called; give a function")
        if ask not in ("each", "credits"):
            raise ValueError(f"Capacity.ask: {ask!r} is not allowed; give 'each' or 'credits'")
        self.depth = depth
        self.counts = counts
        self.limits = CapacityLimits(
            cap=whole(cap, field="Capacity.cap"),
            own=seconds(own, field="Capacity.own"),
            every=seconds(every, field="Capacity.every", minimum=0.001),
            each=ask == "each",
        )

    def takes_place(self, job: SentJob) -> bool:
        """Whether this job fills the target; a rule that raises says yes."""
        try:
            return self.counts is None or bool(self.counts(json.loads(job.args)))
        except Exception:
            _log.exception("capacity_rule_raised job=%s", job.id)
            return True
