"""What a poll means for its feed: the state before, what came of it, and so the state after. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from tidegate.guard import CooldownChange, CooldownState
from tidegate_apps.feeds import dues
from tidegate_apps.feeds.dues import DueReason, Hints
from tidegate_apps.feeds.matrix import COOLDOWN, PollError, fault_of
from tidegate_apps.feeds.source import MAX_URL

MOVES = 3  # permanent redirects to the same place in a row, before it is believed
UNCONDITIONAL = 7 * 86400.0  # some servers say "not modified" for ever: once a week the whole feed is fetched
_MAX_ERROR = 500
# A server may send signs that no request can hold, or more of them than any server takes.
_SENDABLE = re.compile(r"[\t\x20-\x7e\x80-\xff]{1,4000}")
FRESH, NO_HINTS = CooldownState(), Hints()


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedState:
    """What the poller knows of one feed."""

    source_id: int
    name: str
    feed_url: str
    host: str
    interval: float
    fence: int = 0
    due_at: float | None = None
    due_why: str = str(DueReason.NEW)
    consecutive_errors: int = 0  # of any type, since the last success
    rest: CooldownState = FRESH  # the run of one type, and the rest that it ended in
    last_error: str | None = None
    last_error_type: str | None = None
    last_status: int | None = None
    etag: str | None = None  # both as they were received, byte for byte
    last_modified: str | None = None
    validated_at: float | None = None
    body_hash: str | None = None
    moved_to: str | None = None
    moved_times: int = 0
    hints: Hints = NO_HINTS
    last_polled_at: float | None = None
    last_success_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Success:
    """A poll that was answered with a feed, or with the word that nothing has changed (304)."""

    status: int
    etag: str | None = None
    last_modified: str | None = None
    moved_to: str | None = None
    body_hash: str | None = None
    hints: Hints | None = None  # None: as before


@dataclass(frozen=True, slots=True, kw_only=True)
class PollVerdict:
    """The state after a poll, and what others must hear of it."""

    state: FeedState
    change: CooldownChange = CooldownChange.NONE
    adopt: str | None = None  # the feed has moved there for good
    error: PollError | None = None
    own: bool = False  # it was our own link, and nothing was counted


def conditions(state: FeedState, now: float) -> dict[str, str]:
    """The headers of a conditional GET; none when the whole feed is due, and no validator that cannot be sent."""
    if state.validated_at is None or now - state.validated_at >= UNCONDITIONAL:
        return {}
    sent = {"If-None-Match": state.etag, "If-Modified-Since": state.last_modified}
    return {name: value for name, value in sent.items() if value is not None and _SENDABLE.fullmatch(value)}


def record_success(state: FeedState, poll: Success, now: float, roll: float) -> PollVerdict:
    """A success of either kind clears the errors, and ends a rest whose time has passed."""
    rest, change = state.rest.after_success(now)
    hints = state.hints if poll.hints is None else poll.hints
    due_at, why = dues.after_success(now, state.interval, hints, roll)
    moved_to, times = _moved(state, poll.moved_to)
    whole = poll.status == 200
    after = replace(
        state, rest=rest, due_at=due_at, due_why=str(why), fence=state.fence + 1, consecutive_errors=0, hints=hints,
        last_error=None, last_error_type=None, last_status=poll.status, moved_to=moved_to, moved_times=times,
        etag=poll.etag if whole else poll.etag or state.etag,
        last_modified=poll.last_modified if whole else poll.last_modified or state.last_modified,
        validated_at=now if whole else state.validated_at, body_hash=poll.body_hash if whole else state.body_hash,
        last_polled_at=now, last_success_at=now,
    )  # fmt: skip
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
    """One more failure.

    *own*: our link was down, so that nothing is known of the feed, and nothing is counted. *spared*: all of its host
    fails, so that nothing is counted, but it waits as after any failure.
    """
    seen = replace(
        state, fence=state.fence + 1, last_error=error.shown[:_MAX_ERROR], last_error_type=str(error.type),
        last_status=error.status_code, last_polled_at=now,
    )  # fmt: skip
    if own_network:
        due_at, why = dues.after_own_fault(now, roll)
        return PollVerdict(state=replace(seen, due_at=due_at, due_why=str(why)), error=error, own=True)
    if host_excused:
        due_at, why = dues.after_failure(now, state.interval, state.consecutive_errors, error.retry_after, roll)
        return PollVerdict(state=replace(seen, due_at=due_at, due_why=str(why)), error=error)
    rest, change = state.rest.after_fault(COOLDOWN, fault_of(error), now)
    if change is CooldownChange.DISABLED and rest.until is not None:
        due_at, why = dues.after_rest(now, state.interval, rest.until, error.retry_after)
    else:
        due_at, why = dues.after_failure(now, state.interval, state.consecutive_errors, error.retry_after, roll)
    after = replace(
        seen, rest=rest, consecutive_errors=state.consecutive_errors + 1, due_at=due_at, due_why=str(why),
        moved_to=None, moved_times=0,
    )  # fmt: skip
    return PollVerdict(state=after, change=change, error=error)


def _moved(state: FeedState, to: str | None) -> tuple[str | None, int]:
    """Where the feed says that it has moved for good, and how often in a row; never from https to http."""
    insecure = to is not None and state.feed_url.startswith("https:") and not to.startswith("https:")
    if to is None or insecure or to == state.feed_url or len(to.encode()) > MAX_URL:
        return None, 0
    return to, state.moved_times + 1 if state.moved_to == to else 1


def name_of(url: str | None) -> str:
    """What a feed is called before anything is known of it."""
    return (urlsplit(url).hostname or url) if url else "unnamed"


def host_of(url: str) -> str:
    """Host and port: feeds that share both are polled one after the other."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return f"{(parts.hostname or '').lower()}:{port}"
