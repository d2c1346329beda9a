"""Notification policy: which notice is sent when, and quiet hours."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from enum import StrEnum
from zoneinfo import ZoneInfo

from tidegate.notices.channels import LEVELS

# -- quiet hours -------------------------------------------------------------------------------------------------------
# Only errors are sent during quiet hours.

_WRITTEN = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])\s*-\s*([01][0-9]|2[0-3]):([0-5][0-9])", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietHours:
    """From *begins* to *ends* in *zone*. They span midnight if the end is before the beginning."""

    begins: time
    ends: time
    zone: ZoneInfo

    @classmethod
    def of(cls, text: str, zone: ZoneInfo) -> QuietHours:
        """Parses 22:00-07:00. Raises ValueError for another format."""
        match = _WRITTEN.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"{text!r} are not hours; give them as 22:00-07:00")
        begins, ends = time(int(match[1]), int(match[2])), time(int(match[3]), int(match[4]))
        if begins == ends:
            raise ValueError(f"{text!r} begin when they end; give hours such as 22:00-07:00")
        return cls(begins=begins, ends=ends, zone=zone)

    def until(self, now: float) -> float | None:
        """Returns the end of the quiet hours that *now* is in, or None."""
        local = datetime.fromtimestamp(now, self.zone)
        clock = local.time()
        over_midnight = self.ends < self.begins
        if not ((clock >= self.begins or clock < self.ends) if over_midnight else self.begins <= clock < self.ends):
            return None
        day = local.date() + timedelta(days=1 if over_midnight and clock >= self.begins else 0)
        end = datetime.combine(day, self.ends, self.zone).timestamp()
        # When clocks go back, the end may be in the past.
        return end if end > now else now + 60.0


# -- decisions ---------------------------------------------------------------------------------------------------------
# A problem is sent once, after the grace period of its kind, until its recovery was sent. A recovery is sent when it
# has lasted, to the recipients of the problem. So a condition that flaps is sent once, and so is its recovery.

HOUR = 3600.0
RECOVERED = "recovered"
BREAKER, FLAPPING, STUCK, NO_WORKER = "breaker", "flapping", "stuck", "no_worker"
PAUSED, GAVE_UP, CHANNEL = "paused", "gave_up", "channel"
SNOOZES = {"15m": 900.0, "1h": HOUR, "4h": 4 * HOUR, "1d": 24 * HOUR}


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticePolicy:
    """Thresholds, in seconds unless noted."""

    grace: float = 300.0  # a breaker must be open this long
    group: float = 300.0  # failed jobs are collected this long
    steady: float = 600.0  # a recovery must last this long
    flaps: int = 4  # changes per hour above which a subject flaps
    steady_after_flaps: float = 1800.0
    quiet: QuietHours | None = None
    stuck: float = 900.0
    no_worker: float = 120.0
    paused: float = 86400.0
    patience: float = 900.0  # deliveries are retried on one channel this long
    mail_again: float = 7 * 86400.0


class SuppressReason(StrEnum):
    """Why a notice is not sent, or not yet. The value is shown to users."""

    GRACE = "it may pass by itself"
    SNOOZED = "it is snoozed"
    QUIET = "these are quiet hours"
    NOT_STEADY = "it must last first"
    PAGE_ONLY = "it mends itself, so it is said on the page alone"
    WAS_SHORT = "it was over before it was to be told"
    READ = "somebody had read it before it was to be told"
    KNOWN = "it was told already, and no end of it since"
    NOTHING_TOLD = "no channel was told of the trouble"
    DID_NOT_LAST = "the trouble came back, or goes on"
    NO_CHANNEL = "no channel takes it"


@dataclass(frozen=True, slots=True)
class Deliver:
    """Send now. *of* is the problem that it resolves, *flaps* the number of recent changes."""

    of: int | None = None
    flaps: int = 0


@dataclass(frozen=True, slots=True)
class Defer:
    until: float
    why: SuppressReason


@dataclass(frozen=True, slots=True)
class Suppress:
    why: SuppressReason


Verdict = Deliver | Defer | Suppress


@dataclass(frozen=True, slots=True)
class NoticeView:
    """The part of a notice that the rules need. The fields are the columns."""

    id: int
    kind: str
    level: str
    created_at: float
    ended_at: float | None = None
    acked_at: float | None = None
    snoozed_until: float | None = None
    told_at: float | None = None

    @property
    def trouble(self) -> bool:
        return self.kind != RECOVERED

    @property
    def open(self) -> bool:
        return self.ended_at is None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeRule:
    """The rules of one kind."""

    grace: Callable[[NoticePolicy], float] = lambda policy: 0.0
    page_only: bool = False
    proven: bool = False  # its recovery is written only after it has lasted


RULES: dict[str, NoticeRule] = {
    "fatal": NoticeRule(),
    "cap": NoticeRule(grace=lambda policy: HOUR),
    "disabled": NoticeRule(page_only=True),
    "own_link": NoticeRule(grace=lambda policy: policy.grace),
    "clock": NoticeRule(),
    BREAKER: NoticeRule(proven=True),  # written only after its grace period
    FLAPPING: NoticeRule(proven=True),
    STUCK: NoticeRule(proven=True),
    NO_WORKER: NoticeRule(proven=True),
    PAUSED: NoticeRule(),
    GAVE_UP: NoticeRule(grace=lambda policy: policy.group),
    CHANNEL: NoticeRule(),
}
_ANY = NoticeRule()


def decide(notice: NoticeView, past: Sequence[NoticeView], policy: NoticePolicy, now: float) -> Verdict:
    """Decides about *notice*. *past* are the other notices of the same subject, in any order."""
    verdict = _trouble(notice, past, policy, now) if notice.trouble else _end(notice, past, policy, now)
    if isinstance(verdict, Deliver) and notice.level != "error" and policy.quiet is not None:
        until = policy.quiet.until(now)
        return verdict if until is None else Defer(until, SuppressReason.QUIET)
    return verdict


def _trouble(notice: NoticeView, past: Sequence[NoticeView], policy: NoticePolicy, now: float) -> Verdict:
    rule = RULES.get(notice.kind, _ANY)
    snoozed = max((item.snoozed_until or 0.0 for item in (notice, *past) if item.open and item.trouble), default=0.0)
    due = notice.created_at + rule.grace(policy)
    if rule.page_only:
        return Suppress(SuppressReason.PAGE_ONLY)
    if not notice.open:
        return Suppress(SuppressReason.WAS_SHORT)
    if notice.acked_at is not None:
        return Suppress(SuppressReason.READ)
    if any(_covers(earlier, notice, past) for earlier in past):
        return Suppress(SuppressReason.KNOWN)
    if now < due:
        return Defer(due, SuppressReason.GRACE)
    if now < snoozed:
        return Defer(snoozed, SuppressReason.SNOOZED)
    flaps = changes((notice, *past), now)
    return Deliver(flaps=flaps if flaps > policy.flaps else 0)


def _end(notice: NoticeView, past: Sequence[NoticeView], policy: NoticePolicy, now: float) -> Verdict:
    unresolved = [
        item for item in past if item.trouble and _owes_end(item, past) and item.created_at <= notice.created_at
    ]
    if not unresolved:
        return Suppress(SuppressReason.NOTHING_TOLD)
    if any(item.trouble and (item.open or item.created_at > notice.created_at) for item in past):
        return Suppress(SuppressReason.DID_NOT_LAST)
    last = max(unresolved, key=lambda item: item.id)
    if not RULES.get(last.kind, _ANY).proven:
        flaps = changes(past, now) > policy.flaps
        since = max(item.ended_at for item in past if item.trouble and item.ended_at is not None)
        due = since + (policy.steady_after_flaps if flaps else policy.steady)
        if now < due:
            return Defer(due, SuppressReason.NOT_STEADY)
    return Deliver(of=last.id)


def _covers(earlier: NoticeView, notice: NoticeView, past: Sequence[NoticeView]) -> bool:
    """Whether *earlier* makes *notice* redundant: it is at least as severe, was sent, and has no recovery."""
    if not earlier.trouble or earlier.id > notice.id or LEVELS.index(earlier.level) < LEVELS.index(notice.level):
        return False
    return _owes_end(earlier, past) and (earlier.open or _ends_are_told(earlier, past))


def _ends_are_told(trouble: NoticeView, past: Sequence[NoticeView]) -> bool:
    """Whether a recovery was written. It is sent, or suppressed because the problem came back."""
    return any(not item.trouble and item.created_at >= trouble.created_at for item in past)


def _owes_end(trouble: NoticeView, past: Sequence[NoticeView]) -> bool:
    """Whether it was sent, and no recovery since."""
    return trouble.told_at is not None and not any(
        not item.trouble and item.told_at is not None and item.told_at >= trouble.told_at for item in past
    )


def changes(notices: Sequence[NoticeView], now: float) -> int:
    """Counts how often a subject began or stopped failing in the last hour."""
    moments = [at for item in notices if item.trouble for at in (item.created_at, item.ended_at) if at is not None]
    return sum(now - HOUR < at for at in moments)


@dataclass(frozen=True, slots=True)
class BreakerTransition:
    """A breaker opened or closed."""

    at: float
    closed: bool


@dataclass(frozen=True, slots=True)
class RaiseNotice:
    kind: str
    since: float


@dataclass(frozen=True, slots=True)
class ResolveNotice:
    """It has been healthy for long enough, since *since*."""

    since: float


def of_breaker(
    moves: Sequence[BreakerTransition], known: str | None, policy: NoticePolicy, now: float, closed: bool
) -> RaiseNotice | ResolveNotice | None:
    """Decides about a breaker. *known* is the kind of its open notice. *moves* are in order."""
    flapping = sum(now - HOUR < move.at for move in moves) > policy.flaps
    last = moves[-1].at if moves else None
    if known is None:
        if flapping and last is not None and now - last < policy.steady_after_flaps:
            return RaiseNotice(FLAPPING, next(move.at for move in moves if now - HOUR < move.at))
        if not closed and last is not None and now - last >= policy.grace:
            return RaiseNotice(BREAKER, last)
        return None
    lasts = policy.steady_after_flaps if flapping or known == FLAPPING else policy.steady
    since = last if last is not None else now - lasts
    return ResolveNotice(since) if closed and now - since >= lasts else None
