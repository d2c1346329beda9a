"""How full a target says it is, against a cap: what is asked, and how many sends that allows. Pure but for the policy.

credits = cap - observed depth - own sends that are not visible there yet. An own send is counted when it is claimed,
before anything leaves, so that any number of workers together never send more than there are credits.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from tidegate.core.checks import whole
from tidegate.core.duration import Duration, seconds
from tidegate.core.job import Claimed

_log = logging.getLogger("tidegate.worker")

# How long a question may take before somebody else may ask it.
ASK_TIME = 10.0
_FIRST_WAIT = 5.0


@dataclass(frozen=True, slots=True)
class Depth:
    """An answer that may know more than a number: which own sends are visible there by now, or have ended there."""

    total: int
    landed: Collection[int] | None = None  # ids of jobs; None: not known, so the growth of the number must tell


class Capacity:
    """Sends no more than a target has room for.

        Capacity(50, depth=lambda: lidarr.get("/api/v1/queue").json()["totalRecords"])

    *depth* (`def` or `async def`) says how many things the target has in its queue; it is asked only when there is
    something to send. It returns a number, or a `Depth`. *ask* "each" asks again after every success, "credits" only
    when those it knew of are spent. A send of our own counts until the depth has grown by it, or `Depth.landed` names
    it, or for *own* at most. *counts* says whether a job takes a place there at all; it is handed the claimed job.
    A target that is full, or does not answer, is asked again after *every*.
    """

    __slots__ = ("ask", "cap", "counts", "depth", "every", "own")

    def __init__(
        self,
        cap: int,
        *,
        depth: Callable[[], Any],
        own: Duration = "15m",
        ask: Literal["each", "credits"] = "each",
        counts: Callable[[Claimed], bool] | None = None,
        every: Duration = "30s",
    ) -> None:
        self.cap = whole(cap, field="Capacity.cap")
        if not callable(depth):
            raise TypeError(f"Capacity.depth: {depth!r} cannot be called; give a function")
        if ask not in ("each", "credits"):
            raise ValueError(f"Capacity.ask: {ask!r} is not allowed; give 'each' or 'credits'")
        self.depth = depth
        self.own = seconds(own, field="Capacity.own")
        self.ask = ask
        self.counts = counts
        self.every = seconds(every, field="Capacity.every", least=0.001)

    def takes_place(self, job: Claimed) -> bool:
        """Whether this job fills the target; a rule that raises says yes."""
        try:
            return self.counts is None or bool(self.counts(job))
        except Exception:
            _log.exception("capacity_rule_raised job=%s", job.id)
            return True


@dataclass(frozen=True, slots=True)
class Send:
    """One job that takes a place at the target, or is about to."""

    job: int
    at: float
    done: bool = False  # the target has accepted it


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """What is known of a target's room, as the store keeps it."""

    depth: int | None = None
    at: float = 0.0  # when it was observed
    fresh: bool = False  # nothing has happened since that asks for another look
    own: tuple[Send, ...] = ()
    spent: bool = False  # credits of this observation were used
    asking: str | None = None  # who asks at this moment
    asking_until: float = 0.0
    failures: int = 0  # questions in a row that were not answered
    failed_at: float = 0.0
    retry_at: float = 0.0

    def dumped(self) -> str:
        return json.dumps({
            "depth": self.depth, "at": self.at, "fresh": self.fresh, "spent": self.spent, "asking": self.asking,
            "asking_until": self.asking_until, "failures": self.failures, "failed_at": self.failed_at,
            "retry_at": self.retry_at, "own": [[send.job, send.at, send.done] for send in self.own],
        })  # fmt: skip

    @classmethod
    def loaded(cls, text: str | None) -> Filling:
        if text is None:
            return cls()
        kept = json.loads(text)
        own = tuple(Send(int(job), float(at), bool(done)) for job, at, done in kept.pop("own", ()))
        return cls(**kept, own=own)


@dataclass(frozen=True, slots=True)
class Room:
    """How many may be sent now; or that somebody must ask first; or when to look again."""

    n: int = 0
    ask: bool = False
    until: float | None = None


def own_sends(filling: Filling, policy: Capacity, now: float) -> tuple[Send, ...]:
    """Those that still count."""
    return tuple(send for send in filling.own if now - send.at < policy.own)


def room(filling: Filling, policy: Capacity, now: float, cycle: float = 0.0) -> Room:
    """What may be sent; an observation from before the *cycle* does not count."""
    if filling.asking is not None and now < filling.asking_until:
        return Room(until=filling.asking_until)
    if filling.failures and now < filling.retry_at and filling.failed_at >= cycle:
        return Room(until=filling.retry_at)
    old = filling.depth is None or not filling.fresh or now - filling.at >= policy.every or filling.at < cycle
    if old or filling.depth is None:
        return Room(ask=True)
    credits_left = policy.cap - filling.depth - len(own_sends(filling, policy, now))
    if credits_left > 0:
        return Room(credits_left)
    return Room(ask=True) if filling.spent else Room(until=filling.at + policy.every)


def asked(filling: Filling, who: str, now: float) -> Filling:
    """Somebody asks; nobody else does meanwhile."""
    return replace(filling, asking=who, asking_until=now + ASK_TIME)


def observed(filling: Filling, policy: Capacity, who: str, answer: Depth, now: float) -> Filling:
    """The answer to a question; one that came too late, when another was asked already, changes nothing.

    A depth that has grown by n shows that at least n sends have become visible: things that end there only make it
    smaller. So the oldest n of our own count no more, if the target does not say which ones.
    """
    if filling.asking != who:
        return filling
    own = sorted(own_sends(filling, policy, now), key=lambda send: (not send.done, send.at))
    if answer.landed is not None:
        landed = set(answer.landed)
        own = [send for send in own if send.job not in landed]
    elif filling.depth is not None:
        own = own[max(0, answer.total - filling.depth) :]
    return Filling(depth=answer.total, at=now, fresh=True, own=tuple(own))


def unanswered(filling: Filling, policy: Capacity, who: str, now: float) -> Filling:
    """Nobody is charged; it is asked again after a while."""
    if filling.asking != who:
        return filling
    wait = min(_FIRST_WAIT * 2 ** min(filling.failures, 16), policy.every)
    return replace(
        filling, fresh=False, asking=None, asking_until=0.0, failures=filling.failures + 1, failed_at=now,
        retry_at=now + wait,
    )  # fmt: skip


def claimed(filling: Filling, policy: Capacity, jobs: Iterable[Claimed], now: float) -> Filling:
    """Jobs are about to be sent."""
    sends = [Send(job.id, now) for job in jobs if policy.takes_place(job)]
    if not sends:
        return filling
    again = {send.job for send in sends}
    kept = [send for send in own_sends(filling, policy, now) if send.job not in again]
    return replace(filling, own=(*kept, *sends), spent=True)


def settled(filling: Filling, policy: Capacity, ended: Sequence[tuple[int, bool]], now: float) -> Filling:
    """Jobs came back, each with whether the target has accepted it; what it did not accept takes no place there."""
    done = {job for job, ok in ended if ok}
    gone = {job for job, ok in ended if not ok}
    own = tuple(
        Send(send.job, now, done=True) if send.job in done else send for send in filling.own if send.job not in gone
    )
    again = bool(done) and policy.ask == "each"
    return replace(filling, own=own, fresh=filling.fresh and not again)
