"""Opening again is gentle: after a breaker has closed, what may be under way grows from one to its limit."""

from __future__ import annotations

import math

UNLIMITED = 1_000_000_000
# After a breaker has closed again, concurrency climbs from 1 to its limit over this time.
RAMP_SECONDS = 60.0


def ramp_limit(limit: int, closed_at: float | None, now: float) -> int:
    """How many may be under way."""
    age = math.inf if closed_at is None else max(0.0, now - closed_at)
    return limit if age >= RAMP_SECONDS else max(1, math.ceil(limit * age / RAMP_SECONDS))


def ramps_at(closed_at: float | None, now: float) -> bool:
    return closed_at is not None and now - closed_at < RAMP_SECONDS
