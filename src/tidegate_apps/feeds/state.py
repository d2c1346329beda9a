"""The state of a feed: how a poll changes it, and when the next poll is due. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from urllib.parse import urlsplit

from tidegate import Backoff
from tidegate.guard import CooldownChange, CooldownState
from tidegate_apps.feeds.codes import COOLDOWN, PollError, fault_of
from tidegate_apps.feeds.models import MAX_URL
from tidegate_apps.feeds.parsing import Feed

# -- next poll ---------------------------------------------------------------------------------------------------------

BACKOFF = Backoff("5m", cap="8h", jitter=0.25)
POLL_NOW = 0.0  # before all other times: a user waits for this poll
MAX_RETRY_AFTER = 24 * 3600.0  # upper limit for Retry-After and for intervals that a feed requests
_SPREAD = 0.1  # of the interval: random delay, so that feeds do not stay synchronized
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


class DueReason(StrEnum):
    """Why a feed is polled at its time."""

    NEW = "new"
    ASKED = "asked"  # requested by a user
    INTERVAL = "interval"
    HINT = "hint"  # the feed asks for a longer interval: ttl, Cache-Control, Expires
    SKIPPED = "skipped"  # the feed lists hours or days without changes
    BACKOFF = "backoff"
    RETRY_AFTER = "retry_after"
    COOLDOWN = "cooldown"
    OWN_LINK = "own_link"  # our own network seems to be down


@dataclass(frozen=True, slots=True, kw_only=True)
class Hints:
    """Hints of a feed: minimum seconds between polls, hours (UTC) and days without changes."""

    not_before: float = 0.0
    skip_hours: frozenset[int] = frozenset()
    skip_days: frozenset[int] = frozenset()  # Monday is 0

    @property
    def as_json(self) -> str | None:
        """Return the hints as they are stored; None for no hints."""
        if self == Hints():
            return None
        return json.dumps([self.not_before, sorted(self.skip_hours), sorted(self.skip_days)])

    @classmethod
    def of(cls, not_before: float = 0.0, hours: Sequence[int] = (), days: Sequence[str] = ()) -> Hints:
        """Build hints. Invalid values are dropped, and so are lists that leave no time at all."""
        kept_hours = frozenset(hour % 24 for hour in hours if 0 <= hour <= 24)
        kept_days = frozenset(_DAYS.index(day.lower()) for day in days if day.lower() in _DAYS)
        return cls(
            not_before=min(max(not_before, 0.0), MAX_RETRY_AFTER),
            skip_hours=kept_hours if len(kept_hours) < 24 else frozenset(),
            skip_days=kept_days if len(kept_days) < 7 else frozenset(),
        )


Due = tuple[float, DueReason]


def after_success(now: float, interval: float, hints: Hints, roll: float) -> Due:
    """Return the next due time: the interval or a longer hint, plus a random delay."""
    wait = max(interval, hints.not_before)
    at = now + wait * (1 + _SPREAD * roll)
    why = DueReason.HINT if hints.not_before > interval else DueReason.INTERVAL
    allowed = _outside(at, hints)
    # A random time within the hour, or all feeds that skip the same hours would be due together.
    return (at, why) if allowed == at else (allowed + 3600 * roll, DueReason.SKIPPED)


def usual_wait(interval: float, hints: Hints) -> float:
    """Return the mean seconds between two polls of a healthy feed."""
    allowed = (24 - len(hints.skip_hours)) / 24 * (7 - len(hints.skip_days)) / 7
    return max(interval, hints.not_before) * (1 + _SPREAD / 2) / allowed


def after_failure(now: float, interval: float, failures: int, retry_after: float | None, roll: float) -> Due:
    """Return max(interval, backoff, Retry-After). *failures* counts those before this one."""
    waits = (
        (interval, DueReason.INTERVAL),
        (BACKOFF.delay(failures, roll), DueReason.BACKOFF),
        (min(retry_after or 0.0, MAX_RETRY_AFTER), DueReason.RETRY_AFTER),
    )
    wait, why = max(waits, key=lambda each: each[0])
    return now + wait, why


def after_rest(now: float, interval: float, until: float, retry_after: float | None) -> Due:
    """Return the end of a suspension, which replaces the backoff, but not before the interval or Retry-After."""
    ends = (
        (until, DueReason.COOLDOWN),
        (now + interval, DueReason.INTERVAL),
        (now + min(retry_after or 0.0, MAX_RETRY_AFTER), DueReason.RETRY_AFTER),
    )
    return max(ends, key=lambda each: each[0])


def after_own_fault(now: float, roll: float) -> Due:
    """Return a time soon: our own network was down, so the poll says nothing about the feed."""
    return now + BACKOFF.delay(0, roll), DueReason.OWN_LINK


def first(now: float, interval: float, place: int, of: int) -> Due:
    """Return the first due time of the feed at *place* among *of* feeds that are added together.

    They are one second apart, or less if they would not fit into the interval.
    """
    return now + place * min(1.0, interval / max(of, 1)), DueReason.NEW


def _outside(at: float, hints: Hints) -> float:
    """Return the first time from *at* on that is outside of the skipped hours and days."""
    if not hints.skip_hours and not hints.skip_days:
        return at
    moment = datetime.fromtimestamp(at, UTC).replace(microsecond=0)  # rounds down
    for _ in range(24 * 8):
        if moment.hour not in hints.skip_hours and moment.weekday() not in hints.skip_days:
            return max(at, moment.timestamp())  # exactly *at* if nothing was skipped
        moment = moment.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
    return at


MOVES = 3  # permanent redirects to the same URL in a row before it is adopted
UNCONDITIONAL = 7 * 86400.0  # some servers return 304 forever: once a week the whole feed is fetched
_MAX_ERROR = 500
# Some validators contain characters that no request may contain, or are longer than servers accept.
_SENDABLE = re.compile(r"[\t\x20-\x7e\x80-\xff]{1,4000}")


@dataclass(frozen=True, slots=True)
class FeedState:
    """What the poller knows of one feed. The fields are the columns of `states` and `due`."""

    source_id: int
    name: str
    feed_url: str
    host: str
    interval: float
    fence: int = 0
    due_at: float | None = None
    due_why: str = str(DueReason.NEW)
    consecutive_errors: int = 0  # of any type, since the last success
    run_type: str | None = None  # the type of the last failures, and their number
    run_length: int = 0
    rest_at: float | None = None
    rest_until: float | None = None
    rest_reason: str | None = None
    rest_by: str | None = None
    last_error: str | None = None
    last_error_type: str | None = None
    last_status: int | None = None
    etag: str | None = None  # both as received, byte for byte
    last_modified: str | None = None
    validated_at: float | None = None
    body_hash: str | None = None
    moved_to: str | None = None
    moved_times: int = 0
    hints_json: str | None = None
    last_polled_at: float | None = None
    last_success_at: float | None = None

    @property
    def rest(self) -> CooldownState:
        """The failures of one type in a row, and the suspension they caused."""
        return CooldownState(
            failing_code=self.run_type,
            failing_count=self.run_length,
            disabled_at=self.rest_at,
            until=self.rest_until,
            reason=self.rest_reason,
            by=self.rest_by,
        )

    @property
    def hints(self) -> Hints:
        if self.hints_json is None:
            return Hints()
        wait, hours, days = json.loads(self.hints_json)
        return Hints(not_before=wait, skip_hours=frozenset(hours), skip_days=frozenset(days))

    def with_rest(self, rest: CooldownState) -> FeedState:
        return replace(
            self,
            run_type=rest.failing_code,
            run_length=rest.failing_count,
            rest_at=rest.disabled_at,
            rest_until=rest.until,
            rest_reason=rest.reason,
            rest_by=rest.by,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Success:
    """A poll that returned a feed or 304."""

    status: int
    etag: str | None = None
    last_modified: str | None = None
    moved_to: str | None = None
    body_hash: str | None = None
    hints: Hints | None = None  # None: unchanged


@dataclass(frozen=True, slots=True, kw_only=True)
class PollVerdict:
    """The state after a poll, and events for other parts."""

    state: FeedState
    change: CooldownChange = CooldownChange.NONE
    adopt: str | None = None  # the feed moved there permanently
    error: PollError | None = None
    own: bool = False  # our own network failed, so nothing was counted


def conditions(state: FeedState, now: float) -> dict[str, str]:
    """Return the headers of a conditional GET; none if the whole feed is due.

    Validators that cannot be sent are left out.
    """
    if state.validated_at is None or now - state.validated_at >= UNCONDITIONAL:
        return {}
    sent = {"If-None-Match": state.etag, "If-Modified-Since": state.last_modified}
    return {name: value for name, value in sent.items() if value is not None and _SENDABLE.fullmatch(value)}


def record_success(state: FeedState, poll: Success, now: float, roll: float) -> PollVerdict:
    """Return the state after a success: it clears the errors and ends a suspension that expired."""
    rest, change = state.rest.after_success(now)
    hints = state.hints if poll.hints is None else poll.hints
    due_at, why = after_success(now, state.interval, hints, roll)
    moved_to, times = _moved(state, poll.moved_to)
    whole = poll.status == 200
    after = replace(
        state.with_rest(rest),
        due_at=due_at,
        due_why=str(why),
        fence=state.fence + 1,
        consecutive_errors=0,
        hints_json=hints.as_json,
        last_error=None,
        last_error_type=None,
        last_status=poll.status,
        moved_to=moved_to,
        moved_times=times,
        etag=poll.etag if whole else poll.etag or state.etag,
        last_modified=poll.last_modified if whole else poll.last_modified or state.last_modified,
        validated_at=now if whole else state.validated_at,
        body_hash=poll.body_hash if whole else state.body_hash,
        last_polled_at=now,
        last_success_at=now,
    )
    return PollVerdict(state=after, change=change, adopt=moved_to if times >= MOVES else None)


def record_failure(
    state: FeedState,
    error: PollError,
    now: float,
    roll: float,
    *,
    own_network: bool = False,
    host_excused: bool = False,
) -> PollVerdict:
    """Return the state after a failure.

    *own_network*: our network was down, so nothing is counted. *host_excused*: the whole host fails, so nothing is
    counted, but the delay is that of a failure.
    """
    seen = replace(
        state,
        fence=state.fence + 1,
        last_error=error.shown[:_MAX_ERROR],
        last_error_type=str(error.type),
        last_status=error.status_code,
        last_polled_at=now,
    )
    due_at, why = after_failure(now, state.interval, state.consecutive_errors, error.retry_after, roll)
    if own_network:
        due_at, why = after_own_fault(now, roll)
        return PollVerdict(state=replace(seen, due_at=due_at, due_why=str(why)), error=error, own=True)
    if host_excused:
        return PollVerdict(state=replace(seen, due_at=due_at, due_why=str(why)), error=error)
    rest, change = state.rest.after_fault(COOLDOWN, fault_of(error), now)
    if change is CooldownChange.DISABLED and rest.until is not None:
        due_at, why = after_rest(now, state.interval, rest.until, error.retry_after)
    after = replace(
        seen.with_rest(rest),
        consecutive_errors=state.consecutive_errors + 1,
        due_at=due_at,
        due_why=str(why),
        moved_to=None,
        moved_times=0,
    )
    return PollVerdict(state=after, change=change, error=error)


def _moved(state: FeedState, to: str | None) -> tuple[str | None, int]:
    """Return the URL of a permanent redirect and how often it was seen in a row. https never moves to http."""
    insecure = to is not None and state.feed_url.startswith("https:") and not to.startswith("https:")
    if to is None or insecure or to == state.feed_url or len(to.encode()) > MAX_URL:
        return None, 0
    return to, state.moved_times + 1 if state.moved_to == to else 1


def new_row(id_: int, name: str, url: str, interval: float, due: tuple[float | None, DueReason]) -> dict[str, object]:
    """Return the row of a new feed, in the form of `add_state`."""
    due_at, why = due
    return {
        "source_id": id_,
        "name": name,
        "feed_url": url,
        "host": host_of(url),
        "interval_s": interval,
        "due_at": due_at,
        "due_why": str(why),
    }


def name_of(url: str | None) -> str:
    """Return the initial name of a feed."""
    return (urlsplit(url).hostname or url) if url else "unnamed"


def host_of(url: str) -> str:
    """Return host and port. Feeds that share both are polled in sequence."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return f"{(parts.hostname or '').lower()}:{port}"


OK, UNMODIFIED, OWN = "ok", "unmodified", "own_link"  # outcomes of a poll that are not error types


@dataclass(frozen=True, slots=True, kw_only=True)
class PollResult:
    """A finished poll."""

    before: FeedState
    verdict: PollVerdict
    at: float
    ms: int
    feed: Feed | None = None

    @property
    def outcome(self) -> str:
        if self.verdict.error is not None:
            return OWN if self.verdict.own else str(self.verdict.error.type)
        return UNMODIFIED if self.feed is None else OK
