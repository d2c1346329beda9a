"""Notification policy: which notice is sent when, and quiet hours."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from enum import StrEnum
from zoneinfo import ZoneInfo

from tidegate.notices.channels import LEVELS

# The hours of a day in which only errors are told. Pure: a moment in, the end of the quiet out.

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


# When channels are told of a notice: at once, later, or not at all. One table of rules, on values and a moment.
#
# A notice of trouble is told after the grace of its kind, once, until its end was told. An end is told when it has
# lasted, to whoever was told of the trouble. So what comes and goes is told once, and its end once.

HOUR = 3600.0
RECOVERED = "recovered"
BREAKER, FLAPPING, STUCK, NO_WORKER = "breaker", "flapping", "stuck", "no_worker"
PAUSED, GAVE_UP, CHANNEL = "paused", "gave_up", "channel"
SNOOZES = {"15m": 900.0, "1h": HOUR, "4h": 4 * HOUR, "1d": 24 * HOUR}


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticePolicy:
    """The numbers, in seconds where nothing else is said."""

    grace: float = 300.0  # that a breaker must be open
    group: float = 300.0  # that jobs which gave up are gathered
    steady: float = 600.0  # that an end must last
    flaps: int = 4  # changes in an hour above which something flaps
    steady_after_flaps: float = 1800.0
    quiet: QuietHours | None = None
    stuck: float = 900.0
    no_worker: float = 120.0
    paused: float = 86400.0
    patience: float = 900.0  # that one channel is tried
    mail_again: float = 7 * 86400.0


class SuppressReason(StrEnum):
    """Why channels are not told, or not yet. The value is what people read."""

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
    """Channels are told now; *of* is the notice whose end it is, and *flaps* how often it came and went of late."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeView:
    """A notice, as far as the rules look at it."""

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
    """What is special about a kind."""

    grace: Callable[[NoticePolicy], float] = lambda policy: 0.0
    page_only: bool = False
    proven: bool = False  # its end is written only after it has lasted


RULES: dict[str, NoticeRule] = {
    "fatal": NoticeRule(),
    "cap": NoticeRule(grace=lambda policy: HOUR),
    "disabled": NoticeRule(page_only=True),
    "own_link": NoticeRule(grace=lambda policy: policy.grace),
    "clock": NoticeRule(),
    BREAKER: NoticeRule(proven=True),  # it is written only after its grace
    FLAPPING: NoticeRule(proven=True),
    STUCK: NoticeRule(proven=True),
    NO_WORKER: NoticeRule(proven=True),
    PAUSED: NoticeRule(),
    GAVE_UP: NoticeRule(grace=lambda policy: policy.group),
    CHANNEL: NoticeRule(),
}
_ANY = NoticeRule()


def decide(notice: NoticeView, past: Sequence[NoticeView], policy: NoticePolicy, now: float) -> Verdict:
    """What becomes of *notice*; *past* are the other notices of the same place, whatever their order."""
    found = _trouble(notice, past, policy, now) if notice.trouble else _end(notice, past, policy, now)
    if isinstance(found, Deliver) and notice.level != "error" and policy.quiet is not None:
        until = policy.quiet.until(now)
        return found if until is None else Defer(until, SuppressReason.QUIET)
    return found


def _trouble(notice: NoticeView, past: Sequence[NoticeView], policy: NoticePolicy, now: float) -> Verdict:
    rule = RULES.get(notice.kind, _ANY)
    snoozed = max((each.snoozed_until or 0.0 for each in (notice, *past) if each.open and each.trouble), default=0.0)
    due = notice.created_at + rule.grace(policy)
    if rule.page_only:
        return Suppress(SuppressReason.PAGE_ONLY)
    if not notice.open:
        return Suppress(SuppressReason.WAS_SHORT)
    if notice.acked_at is not None:
        return Suppress(SuppressReason.READ)
    if any(_covers(each, notice, past) for each in past):
        return Suppress(SuppressReason.KNOWN)
    if now < due:
        return Defer(due, SuppressReason.GRACE)
    if now < snoozed:
        return Defer(snoozed, SuppressReason.SNOOZED)
    flaps = changes((notice, *past), now)
    return Deliver(flaps=flaps if flaps > policy.flaps else 0)


def _end(notice: NoticeView, past: Sequence[NoticeView], policy: NoticePolicy, now: float) -> Verdict:
    told = [each for each in past if each.trouble and _owes_end(each, past) and each.created_at <= notice.created_at]
    if not told:
        return Suppress(SuppressReason.NOTHING_TOLD)
    if any(each.trouble and (each.open or each.created_at > notice.created_at) for each in past):
        return Suppress(SuppressReason.DID_NOT_LAST)
    last = max(told, key=lambda each: each.id)
    if not RULES.get(last.kind, _ANY).proven:
        flaps = changes(past, now) > policy.flaps
        since = max(each.ended_at for each in past if each.trouble and each.ended_at is not None)
        due = since + (policy.steady_after_flaps if flaps else policy.steady)
        if now < due:
            return Defer(due, SuppressReason.NOT_STEADY)
    return Deliver(of=last.id)


def _covers(earlier: NoticeView, notice: NoticeView, past: Sequence[NoticeView]) -> bool:
    """Whether people who were told of *earlier* need not hear of *notice*: it is no heavier, and no end was told."""
    if not earlier.trouble or earlier.id > notice.id or LEVELS.index(earlier.level) < LEVELS.index(notice.level):
        return False
    return _owes_end(earlier, past) and (earlier.open or _ends_are_told(earlier, past))


def _ends_are_told(trouble: NoticeView, past: Sequence[NoticeView]) -> bool:
    """Whether an end of it was written, and so is told, or was held back because the trouble came back."""
    return any(not each.trouble and each.created_at >= trouble.created_at for each in past)


def _owes_end(trouble: NoticeView, past: Sequence[NoticeView]) -> bool:
    """Whether channels were told of it, and of no end since."""
    return trouble.told_at is not None and not any(
        not each.trouble and each.told_at is not None and each.told_at >= trouble.told_at for each in past
    )


def changes(notices: Sequence[NoticeView], now: float) -> int:
    """How often a place changed between well and ill in the last hour."""
    moments = [at for each in notices if each.trouble for at in (each.created_at, each.ended_at) if at is not None]
    return sum(now - HOUR < at for at in moments)


@dataclass(frozen=True, slots=True)
class BreakerTransition:
    """A breaker that was closed opened, or one that was not closed."""

    at: float
    closed: bool


@dataclass(frozen=True, slots=True)
class RaiseNotice:
    kind: str
    since: float


@dataclass(frozen=True, slots=True)
class ResolveNotice:
    """It has been well long enough; *since* is when that began."""

    since: float


def of_breaker(
    moves: Sequence[BreakerTransition], known: str | None, policy: NoticePolicy, now: float, closed: bool
) -> RaiseNotice | ResolveNotice | None:
    """What there is to say of a breaker; *known* is the kind of the notice that is open, *moves* are in order."""
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
