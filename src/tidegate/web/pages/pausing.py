"""Until when a person pauses something: a choice, or a date; there is no pause without an end."""

from __future__ import annotations

from datetime import datetime

from tidegate.core.duration import seconds

CHOICES = (("15m", "15 min"), ("1h", "1 h"), ("4h", "4 h"), ("1d", "1 day"))
MAX_PAUSE_SECONDS = 366 * 86400.0


def end_of(lasts: str, until: str, now: float) -> float:
    """UNIX time; ValueError says what to give instead."""
    if lasts:
        end = now + seconds(lasts, field="lasts", minimum=1.0)
    elif until:
        try:
            end = datetime.fromisoformat(until).astimezone().timestamp()
        except (ValueError, OverflowError):
            raise ValueError(f"until: {until!r:.40} is no date and time; give one such as 2026-11-20T14:30") from None
    else:
        raise ValueError("lasts: a pause has an end; choose how long, or until when")
    if end <= now:
        raise ValueError("until: that is over already; give a time ahead of now")
    if end - now > MAX_PAUSE_SECONDS:
        raise ValueError("until: that is more than a year ahead; give a time within a year")
    return end
