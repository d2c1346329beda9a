"""The hours of a day in which only errors are told. Pure: a moment in, the end of the quiet out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

_WRITTEN = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])\s*-\s*([01][0-9]|2[0-3]):([0-5][0-9])", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietHours:
    """From *begins* to *ends* by the clocks of *zone*; over midnight when they end before they begin."""

    begins: time
    ends: time
    zone: ZoneInfo

    @classmethod
    def of(cls, text: str, zone: ZoneInfo) -> QuietHours:
        """As people write it: 22:00-07:00. ValueError when it is not."""
        found = _WRITTEN.fullmatch(text.strip())
        if found is None:
            raise ValueError(f"{text!r} are no hours; give them as 22:00-07:00")
        begins, ends = time(int(found[1]), int(found[2])), time(int(found[3]), int(found[4]))
        if begins == ends:
            raise ValueError(f"{text!r} begin when they end; give hours such as 22:00-07:00")
        return cls(begins=begins, ends=ends, zone=zone)

    def until(self, now: float) -> float | None:
        """When the quiet that *now* is in will end; None when it is in none."""
        local = datetime.fromtimestamp(now, self.zone)
        clock = local.time()
        over_midnight = self.ends < self.begins
        if not ((clock >= self.begins or clock < self.ends) if over_midnight else self.begins <= clock < self.ends):
            return None
        day = local.date() + timedelta(days=1 if over_midnight and clock >= self.begins else 0)
        end = datetime.combine(day, self.ends, self.zone).timestamp()
        # Where clocks go back, the end may be a moment that has passed.
        return end if end > now else now + 60.0
