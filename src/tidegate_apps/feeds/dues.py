"""When a feed is polled next, and why then. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from tidegate import Backoff

BACKOFF = Backoff("5m", cap="8h", jitter=0.25)
POLL_NOW = 0.0  # a time that comes before all others: somebody waits for this poll
MAX_RETRY_AFTER = 24 * 3600.0  # a Retry-After is believed up to this, and so is a feed that wants to be polled rarely
_SPREAD = 0.1  # of the interval: feeds that were polled together do not stay together
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


class DueReason(StrEnum):
    """Why a feed is polled when it is."""

    NEW = "new"
    ASKED = "asked"  # by a person
    INTERVAL = "interval"
    HINT = "hint"  # the feed wants to be polled more rarely: ttl, Cache-Control, Expires
    SKIPPED = "skipped"  # the feed named hours or days on which it does not change
    BACKOFF = "backoff"
    RETRY_AFTER = "retry_after"
    COOLDOWN = "cooldown"
    OWN_LINK = "own_link"  # our own network seems to be down


@dataclass(frozen=True, slots=True, kw_only=True)
class Hints:
    """What a feed says of itself: not sooner than so many seconds, not in these hours (UTC), not on these days."""

    not_before: float = 0.0
    skip_hours: frozenset[int] = frozenset()
    skip_days: frozenset[int] = frozenset()  # Monday is 0

    @classmethod
    def of(cls, not_before: float = 0.0, hours: Sequence[int] = (), days: Sequence[str] = ()) -> Hints:
        """Nonsense is left out, and so is what would leave no time at all."""
        kept_hours = frozenset(hour % 24 for hour in hours if 0 <= hour <= 24)
        kept_days = frozenset(_DAYS.index(day.lower()) for day in days if day.lower() in _DAYS)
        return cls(
            not_before=min(max(not_before, 0.0), MAX_RETRY_AFTER),
            skip_hours=kept_hours if len(kept_hours) < 24 else frozenset(),
            skip_days=kept_days if len(kept_days) < 7 else frozenset(),
        )


Due = tuple[float, DueReason]


def after_success(now: float, interval: float, hints: Hints, roll: float) -> Due:
    """The interval, or what the feed asks for if that is longer; never sooner, and a little later by chance."""
    wait = max(interval, hints.not_before)
    at = now + wait * (1 + _SPREAD * roll)
    why = DueReason.HINT if hints.not_before > interval else DueReason.INTERVAL
    allowed = _outside(at, hints)
    # By chance within the hour, or all that skip the same hours would come at once.
    return (at, why) if allowed == at else (allowed + 3600 * roll, DueReason.SKIPPED)


def usual_wait(interval: float, hints: Hints) -> float:
    """Seconds between two polls of a feed that is well, in the mean."""
    allowed = (24 - len(hints.skip_hours)) / 24 * (7 - len(hints.skip_days)) / 7
    return max(interval, hints.not_before) * (1 + _SPREAD / 2) / allowed


def after_failure(now: float, interval: float, failures: int, retry_after: float | None, roll: float) -> Due:
    """max(interval, backoff, Retry-After); *failures* counts those before this one."""
    waits = (
        (interval, DueReason.INTERVAL),
        (BACKOFF.delay(failures, roll), DueReason.BACKOFF),
        (min(retry_after or 0.0, MAX_RETRY_AFTER), DueReason.RETRY_AFTER),
    )
    wait, why = max(waits, key=lambda each: each[0])
    return now + wait, why


def after_rest(now: float, interval: float, until: float, retry_after: float | None) -> Due:
    """The end of a rest, which takes the place of the backoff; no sooner than the interval, or than the site asked."""
    ends = (
        (until, DueReason.COOLDOWN),
        (now + interval, DueReason.INTERVAL),
        (now + min(retry_after or 0.0, MAX_RETRY_AFTER), DueReason.RETRY_AFTER),
    )
    return max(ends, key=lambda each: each[0])


def after_own_fault(now: float, roll: float) -> Due:
    """Our own link was down, so nothing is known of the feed: soon again."""
    return now + BACKOFF.delay(0, roll), DueReason.OWN_LINK


def first(now: float, interval: float, place: int, of: int) -> Due:
    """The first poll of the feed at *place* among so many that are added at once.

    They are a second apart, or less when they would not fit into the interval.
    """
    return now + place * min(1.0, interval / max(of, 1)), DueReason.NEW


def _outside(at: float, hints: Hints) -> float:
    """The first moment from *at* on that the feed does not want to be left alone in."""
    if not hints.skip_hours and not hints.skip_days:
        return at
    moment = datetime.fromtimestamp(at, UTC).replace(microsecond=0)  # earlier, if anything
    for _ in range(24 * 8):
        if moment.hour not in hints.skip_hours and moment.weekday() not in hints.skip_days:
            return max(at, moment.timestamp())  # the same one to the last digit, if it is that
        moment = moment.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
    return at
