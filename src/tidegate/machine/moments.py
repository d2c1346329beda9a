"""Between the clock that a breaker measures with and the times that people read and give."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from datetime import datetime, timedelta

from tidegate.core.duration import seconds

Time = Callable[[], float]

_A_DATE = 1e9
_TIMES = "a time ahead of now on the breaker's clock, a text such as '10m', a timedelta or a datetime"


def offset_of(clock: Time) -> Time:
    """What to add to the clock's time to get the one that people read."""
    # The monotonic clock means nothing to people; one that was handed in is what its owner reads.
    return (lambda: time.time() - clock()) if clock is time.monotonic else (lambda: 0.0)


def moment(until: object, now: float, offset: Time) -> float:
    """The time on the breaker's clock that *until* means; raises when it is not ahead of *now*."""
    if isinstance(until, (str, timedelta)):
        end = now + seconds(until, field="until")
    elif isinstance(until, datetime):
        end = until.timestamp() - offset()
    elif isinstance(until, (int, float)) and not isinstance(until, bool):
        # A monotonic clock does not reach the year 2001: such a number is a date.
        end = until - offset() if until > _A_DATE and now < _A_DATE else float(until)
    else:
        raise TypeError(f"until: {until!r} is no time; give {_TIMES}")
    if not math.isfinite(end) or end <= now:
        raise ValueError(f"until: {until!r} is not ahead of now ({now:g}); give {_TIMES}")
    return end
