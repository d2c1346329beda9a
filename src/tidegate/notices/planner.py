"""One evaluation: which conditions began or ended, who is notified, and who gets what a channel could not deliver.

The plan is made by reads alone: most evaluations find nothing and need no write. It is carried out in one transaction
with the delivery jobs, so a crash leaves all of it or nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from tidegate import outbox
from tidegate.notices import channels as notice_channels
from tidegate.notices import conditions, deliveries, messages
from tidegate.notices.channels import TARGETS, Channel, Mail
from tidegate.notices.conditions import Now, QueuesWithoutWorker
from tidegate.notices.deliveries import FAILED, PERSON, DeliveryKey, NoticeRow
from tidegate.notices.policy import Defer, Deliver, NoticePolicy, Suppress, SuppressReason, decide
from tidegate.outbox import TARGET
from tidegate.store.base import Tx, now_of

_MAX_PER_EVALUATION = 200  # of each kind; the next evaluation is soon


@dataclass(frozen=True, slots=True)
class Deferred:
    id: int
    until: float
    why: SuppressReason


@dataclass(frozen=True, slots=True)
class Decision:
    """A notice is sent to channels, or suppressed with a reason."""

    row: NoticeRow
    why: SuppressReason | None = None
    to: tuple[str, ...] = ()
    message: str | None = None  # replaces the stored text


@dataclass(frozen=True, slots=True)
class FailedDelivery:
    """A failed delivery. *next* is the channel that gets it instead, if any."""

    sent: DeliveryKey
    code: str
    why: str
    next: str | None


@dataclass(slots=True, kw_only=True)
class NoticePlan:
    """All actions of one evaluation."""

    now: Now
    waits: list[Deferred] = field(default_factory=list)
    decided: list[Decision] = field(default_factory=list)
    given_up: list[FailedDelivery] = field(default_factory=list)
    snoozed_out: bool = False

    def __bool__(self) -> bool:
        actions = (self.now.begun, self.now.ended, self.waits, self.decided, self.given_up)
        return self.snoozed_out or any(actions)


def plan(tx: Tx, policy: NoticePolicy, channels: Sequence[Channel], unmanned: QueuesWithoutWorker) -> NoticePlan:
    now = now_of(tx)
    off = {row.name for row in notice_channels.every(tx) if row.disabled_at is not None}
    notice_plan = NoticePlan(
        now=conditions.find_conditions(tx, policy, now, unmanned),
        snoozed_out=tx.scalar(int, "notices_snoozing_out") > 0,
        given_up=list(_given_up(tx, channels, off)),
    )
    for row in deliveries.load_undecided(tx, _MAX_PER_EVALUATION):
        match decide(row.heard, deliveries.load_related(tx, row), policy, now):
            case Defer(until, reason):
                if (row.waits_until, row.why) != (until, reason):
                    notice_plan.waits.append(Deferred(row.id, until, reason))
            case Suppress(reason):
                notice_plan.decided.append(Decision(row, reason))
            case Deliver(of, flaps):
                notice_plan.decided.append(
                    _told(tx, row, of, flaps, policy, [c for c in channels if c.name not in off], now)
                )
    return notice_plan


def _told(
    tx: Tx, row: NoticeRow, of: int | None, flaps: int, policy: NoticePolicy, channels: Sequence[Channel], now: float
) -> Decision:
    trouble = None if of is None else deliveries.load_notice(tx, of)
    message = messages.reworded(tx, row, trouble, flaps)
    if of is not None:
        # Recipients of a notice also get its recovery, whatever their level is.
        sent = deliveries.deliveries(tx, [of])[of]
        names = {delivery.channel for delivery in sent if delivery.state != FAILED}
        available = {channel.name for channel in channels}
        to = [name for name in names if (_mails(channels) if name.startswith(PERSON) else name in available)]
    else:
        to = [
            channel.name for channel in channels if channel.takes(row.level) and f"{TARGETS}{channel.name}" != row.name
        ]
        to += _person(tx, row, policy, channels, now)
        to = to or _next_of(row, channels)
    return Decision(row, None if to else SuppressReason.NO_CHANNEL, tuple(sorted(to)), message)


def _next_of(row: NoticeRow, channels: Sequence[Channel]) -> list[str]:
    """Returns the first other channel, of any level, for a failing channel that no channel would report."""
    others = [channel.name for channel in channels if f"{TARGETS}{channel.name}" != row.name]
    return others[:1] if row.name.startswith(TARGETS) else []


def _person(tx: Tx, row: NoticeRow, policy: NoticePolicy, channels: Sequence[Channel], now: float) -> list[str]:
    """Returns the user whose key was rejected, if they have an address and got no mail about this target lately."""
    if row.kind != "fatal" or row.subject != TARGET or not row.user or not _mails(channels):
        return []
    if not tx.query("address", {"who": row.user}):
        return []
    mailed_at = tx.scalar_or_none(float, "mailed", {"who": row.user, "target": row.name})
    return [] if mailed_at is not None and now - mailed_at < policy.mail_again else [f"{PERSON}{row.user}"]


def _mails(channels: Sequence[Channel]) -> bool:
    """Whether one of the channels can mail a user."""
    return any(isinstance(channel.config, Mail) for channel in channels)


def _given_up(tx: Tx, channels: Sequence[Channel], off: set[str]) -> Iterator[FailedDelivery]:
    names = [channel.name for channel in channels]
    for sent, code, reason in deliveries.load_failed(tx, _MAX_PER_EVALUATION):
        has = {delivery.channel for delivery in deliveries.deliveries(tx, [sent.notice])[sent.notice]}
        row = deliveries.load_notice(tx, sent.notice)
        # If the settings no longer have the channel, the first one gets it. Mail to a user has no replacement.
        after = names.index(sent.channel) + 1 if sent.channel in names else 0
        later = [] if sent.channel.startswith(PERSON) else names[after:]
        free = [name for name in later if name not in has | off and row is not None and row.name != f"{TARGETS}{name}"]
        yield FailedDelivery(sent, code, reason, free[0] if free else None)


def carry_out(tx: Tx, notice_plan: NoticePlan, put: Callable[[Tx, DeliveryKey], int]) -> None:
    """Writes the plan. *put* queues the job of a delivery and returns its id."""
    if notice_plan.snoozed_out:
        tx.query("notices_snoozed_out")
    for new in notice_plan.now.begun:
        outbox.raise_notice(tx, new)
    for end in notice_plan.now.ended:
        outbox.resolve_notices(tx, end.place, (end.kind,))
        if end.recovery is not None:
            outbox.raise_notice(tx, end.recovery)
    for waits in notice_plan.waits:
        tx.query("notice_waits", {"id": waits.id, "until": waits.until, "why": str(waits.why)})
    for failed in notice_plan.given_up:
        if deliveries.record_failed(tx, failed.sent, failed.code, failed.why) and failed.next is not None:
            _deliver(
                tx,
                DeliveryKey(failed.sent.notice, failed.next, failed.sent.round_no),
                put,
                instead_of=failed.sent.channel,
            )
    for done in notice_plan.decided:
        params = {"id": done.row.id, "told": int(bool(done.to)), "why": None if done.why is None else str(done.why)}
        if not tx.query("notice_decided", params):
            continue
        if done.message is not None:
            tx.query("notice_reworded", {"id": done.row.id, "message": done.message, "advice": done.row.advice})
        for name in done.to:
            _deliver(tx, DeliveryKey(done.row.id, name, done.row.round_no), put)


def _deliver(tx: Tx, sent: DeliveryKey, put: Callable[[Tx, DeliveryKey], int], instead_of: str | None = None) -> None:
    if tx.query("delivery_new", {**sent.params(), "instead_of": instead_of}):
        tx.query("delivery_job", {**sent.params(), "job": put(tx, sent)})
