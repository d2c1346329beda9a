"""A history of any length that is computed, not kept: each row follows from its place, and from nothing else."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from itertools import accumulate
from typing import Any

DAY = 86400
_WEEK = (9, 8, 8, 9, 13, 16, 14)  # how busy the days are, from Monday on
_HOURS = (5, 3, 2, 1, 1, 1, 2, 4, 5, 5, 5, 6, 8, 8, 7, 8, 10, 14, 20, 27, 30, 27, 20, 11)
_UP_TO = tuple(accumulate(_HOURS, initial=0))
_DAYS_UP_TO = tuple(accumulate(_WEEK, initial=0))
_MONDAY = 4 * DAY  # the first one of UNIX time

_NAMES = (
    "Ada", "Ben", "Chris", "Dana", "Emil", "Fay", "Gus", "Hana", "Ivo", "Jo", "Kim", "Leo", "Mia", "Nils", "Ona", "Pia",
)  # fmt: skip
_PLATFORMS = ("Chrome", "Roku", "Android", "iOS", "tvOS", "Windows", "Samsung", "PlayStation")
_FIRST = ("Silent", "Golden", "Broken", "Distant", "Hidden", "Electric", "Paper", "Winter", "Crimson", "Lucky")
_SECOND = ("Harbour", "Kingdom", "Garden", "Signal", "Bridge", "Station", "Mirror", "Orchard", "Voyage", "Tower")


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryShape:
    """How long a history is and when it ends; its days begin at midnight in *zone*."""

    rows: int
    until: float  # UNIX time: its newest row is no later
    per_day: int = 50
    titles: int = 2000
    zone: tzinfo = UTC


class MadeHistory:
    """Rows in the order of their beginning, 0 is the oldest. Their ids are nearly in that order, as at Tautulli."""

    def __init__(self, shape: HistoryShape) -> None:
        self.shape = shape
        self._week = max(1, shape.per_day * 7)
        self._first = self._of_a_first()

    def __len__(self) -> int:
        return self.shape.rows

    def started(self, place: int) -> int:
        """When a row began; never before the one before it."""
        week, inside = divmod(place, self._week)
        busy = inside * _DAYS_UP_TO[-1] / self._week
        day = min(6, bisect_right(_DAYS_UP_TO, busy) - 1)
        share = (busy - _DAYS_UP_TO[day]) / _WEEK[day] * _UP_TO[-1]
        hour = min(23, bisect_right(_UP_TO, share) - 1)
        seconds = (hour + (share - _UP_TO[hour]) / _HOURS[hour]) * 3600
        return self._first + (week * 7 + day) * DAY + int(seconds)

    def between(self, first: date | None, last: date | None) -> range:
        """The places of the rows that began on these days, in the zone of the history."""
        began = 0 if first is None else self._place(self._midnight(first))
        return range(began, len(self) if last is None else max(began, self._place(self._midnight(last, 1))))

    def row(self, place: int) -> dict[str, Any]:
        """All that Tautulli sends of a row."""
        mixed = (place * 2654435761 + 97) & 0xFFFFFFFF
        episode, started, duration = mixed % 10 < 6, self.started(place), 300 + mixed % 6900
        paused = mixed % 7 * 11
        title, kind = self.title(place), self.media_type(place)
        name = self.user(place)
        row_id = self.row_id(place)
        return {
            "reference_id": row_id, "row_id": row_id, "id": row_id, "date": started, "started": started,
            "stopped": started + duration + paused, "duration": duration, "play_duration": duration,
            "paused_counter": paused, "user_id": 1000 + _NAMES.index(name), "user": name.lower(),
            # Whoever was removed at Plex has no friendly name, and old rows lack what came with later versions.
            "friendly_name": None if name == "Pia" else name, "platform": self.platform(place),
            "product": "Plex Web" if mixed % 3 else None, "player": f"{name}'s screen", "ip_address": "192.0.2.7",
            "live": 0, "machine_id": f"m{mixed % 40}", "location": "lan", "secure": 1, "relayed": 0,
            "media_type": kind, "rating_key": 10_000 + mixed % 5000,
            "parent_rating_key": 500 + mixed % 50 if episode else "",
            "grandparent_rating_key": 50 + mixed % 50 if episode else "",
            "full_title": f"{title} - Episode {mixed % 24 + 1}" if episode else title,
            "title": f"Episode {mixed % 24 + 1}" if episode else title,
            "parent_title": f"Season {mixed % 5 + 1}" if episode else "", "grandparent_title": title if episode else "",
            "original_title": "", "year": 1970 + mixed % 55 if mixed % 9 else "",
            "media_index": mixed % 24 + 1 if episode else "", "parent_media_index": mixed % 5 + 1 if episode else "",
            "thumb": f"/library/metadata/{10_000 + mixed % 5000}/thumb/1", "originally_available_at": "",
            "guid": f"plex://{kind}/{mixed % 5000:024x}",
            "transcode_decision": "direct play" if mixed % 4 else "transcode",
            "percent_complete": mixed % 101, "watched_status": (0, 0.25, 0.5, 0.75, 1)[mixed % 5],
            "group_count": 1, "group_ids": str(row_id), "state": None, "session_key": None,
        }  # fmt: skip

    def row_id(self, place: int) -> int:
        """Rows are written when a stream ends: of two neighbours, the one that began first may end last."""
        other = place ^ 1
        return (other if place % 8 < 2 and other < len(self) else place) + 1

    def user(self, place: int) -> str:
        mixed = (place * 40503 + 11) & 0xFFFF
        return _NAMES[min(mixed % 16, (mixed >> 5) % 16)]

    def platform(self, place: int) -> str:
        mixed = (place * 30011 + 7) & 0xFFFF
        return _PLATFORMS[min(mixed % 8, (mixed >> 4) % 8)]

    def title(self, place: int) -> str:
        mixed = (place * 2246822519 + 3) & 0xFFFFFFFF
        n = min(mixed % self.shape.titles, (mixed >> 9) % self.shape.titles)
        return f"{_FIRST[n % 10]} {_SECOND[n // 10 % 10]}{'' if n < 100 else f' {n // 100 + 1}'}"

    def media_type(self, place: int) -> str:
        mixed = (place * 2654435761 + 97) & 0xFFFFFFFF
        return "episode" if mixed % 10 < 6 else "movie" if mixed % 10 < 9 else "track"

    def _of_a_first(self) -> int:
        """The Monday on which it begins, so that its last row is no later than it should be."""
        self._first = _MONDAY
        last = self.started(len(self) - 1) if len(self) else _MONDAY
        offset = int(datetime.fromtimestamp(self.shape.until, self.shape.zone).utcoffset().total_seconds())  # type: ignore[union-attr]
        weeks = (int(self.shape.until) - last) // (7 * DAY)
        # Then whole days closer: the newest row is less than a day old.
        days = (int(self.shape.until) - last - weeks * 7 * DAY) // DAY
        return _MONDAY + (weeks * 7 + days) * DAY - offset

    def _midnight(self, day: date, later: int = 0) -> int:
        then = day + timedelta(days=later)
        return int(datetime(then.year, then.month, then.day, tzinfo=self.shape.zone).timestamp())

    def _place(self, moment: int) -> int:
        """How many rows began before a moment."""
        return bisect_left(range(len(self)), moment, key=self.started)
