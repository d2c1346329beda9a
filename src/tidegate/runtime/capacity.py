"""The policy of a target that says how full it is. What its answers allow is decided in `machine.filling`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Literal

from tidegate.core.checks import whole
from tidegate.core.duration import Duration, seconds
from tidegate.core.job import Claimed
from tidegate.core.logs import logger
from tidegate.machine.filling import CapacityLimits

_log = logger("tidegate.worker")


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

    def takes_place(self, job: Claimed) -> bool:
        """Whether this job fills the target; a rule that raises says yes."""
        try:
            return self.counts is None or bool(self.counts(json.loads(job.args)))
        except Exception:
            _log.exception("capacity_rule_raised job=%s", job.id)
            return True
