"""One look: what is new, what is over, who is told, and who gets what a channel could not deliver.

First it is found out what is to be done, by reading alone; most looks find nothing, and cost no write. What is to be
done is done in one transaction with the jobs that deliver it, so a crash leaves all of it or nothing.
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

_MAX_PER_EVALUATION = 200  # of each sort in one look; the next one is soon


@dataclass(frozen=True, slots=True)
class Deferred:
    id: int
    until: float
    why: SuppressReason


@dataclass(frozen=True, slots=True)
class Decision:
    """Channels are told of it, or with a reason they are not."""

    row: NoticeRow
    why: SuppressReason | None = None
    to: tuple[str, ...] = ()
    message: str | None = None  # instead of what was written first


@dataclass(frozen=True, slots=True)
class FailedDelivery:
    """A channel could not deliver it; *next* gets it, if there is one."""

    sent: DeliveryKey
    code: str
    why: str
    next: str | None


@dataclass(slots=True, kw_only=True)
class NoticePlan:
    """Everything that is to be done after one look."""

    now: Now
    waits: list[Deferred] = field(default_factory=list)
    decided: list[Decision] = field(default_factory=list)
    given_up: list[FailedDelivery] = field(default_factory=list)
    snoozed_out: bool = False

    def __bool__(self) -> bool:
        found = (self.now.begun, self.now.ended, self.waits, self.decided, self.given_up)
        return self.snoozed_out or any(found)


def plan(tx: Tx, policy: NoticePolicy, channels: Sequence[Channel], unmanned: QueuesWithoutWorker) -> NoticePlan:
    now = now_of(tx)
    off = {row.name for row in notice_channels.every(tx) if row.disabled_at is not None}
    notice_plan = NoticePlan(
        now=conditions.find_conditions(tx, policy, now, unmanned),
        snoozed_out=int(tx.query("notices_snoozing_out")[0][0]) > 0,
        given_up=list(_given_up(tx, channels, off)),
    )
    for row in deliveries.load_undecided(tx, _MAX_PER_EVALUATION):
        match decide(row.heard, deliveries.load_related(tx, row), policy, now):
            case Defer(until, why):
                if (row.waits_until, row.why) != (until, why):
                    notice_plan.waits.append(Deferred(row.id, until, why))
            case Suppress(why):
                notice_plan.decided.append(Decision(row, why))
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
        # Whoever was told of the trouble is told of its end, whatever else they are told.
        told = deliveries.deliveries(tx, [of])[of]
        names = {each.channel for each in told if each.state != FAILED}
        there = {channel.name for channel in channels}
        to = [name for name in names if (_mails(channels) if name.startswith(PERSON) else name in there)]
    else:
        to = [
            channel.name for channel in channels if channel.takes(row.level) and f"{TARGETS}{channel.name}" != row.name
        ]
        to += _person(tx, row, policy, channels, now)
        to = to or _next_of(row, channels)
    return Decision(row, None if to else SuppressReason.NO_CHANNEL, tuple(sorted(to)), message)


def _next_of(row: NoticeRow, channels: Sequence[Channel]) -> list[str]:
    """Who hears that a channel fails when nobody else would: the first of the others, whatever it is told otherwise."""
    others = [channel.name for channel in channels if f"{TARGETS}{channel.name}" != row.name]
    return others[:1] if row.name.startswith(TARGETS) else []


def _person(tx: Tx, row: NoticeRow, policy: NoticePolicy, channels: Sequence[Channel], now: float) -> list[str]:
    """The person whose key was refused, if they gave an address, and were not mailed about this target lately."""
    if row.kind != "fatal" or row.subject != TARGET or not row.user or not _mails(channels):
        return []
    if not tx.query("address", {"who": row.user}):
        return []
    mailed = tx.query("mailed", {"who": row.user, "target": row.name})
    return [] if mailed and now - mailed[0][0] < policy.mail_again else [f"{PERSON}{row.user}"]


def _mails(channels: Sequence[Channel]) -> bool:
    """Whether one of them could send a mail to somebody."""
    return any(isinstance(channel.config, Mail) for channel in channels)


def _given_up(tx: Tx, channels: Sequence[Channel], off: set[str]) -> Iterator[FailedDelivery]:
    names = [channel.name for channel in channels]
    for sent, code, why in deliveries.load_failed(tx, _MAX_PER_EVALUATION):
        has = {delivery.channel for delivery in deliveries.deliveries(tx, [sent.notice])[sent.notice]}
        row = deliveries.load_notice(tx, sent.notice)
        # What was to go through one that the settings lack by now goes to the first; what is for one person, to nobody.
        after = names.index(sent.channel) + 1 if sent.channel in names else 0
        later = [] if sent.channel.startswith(PERSON) else names[after:]
        free = [name for name in later if name not in has | off and row is not None and row.name != f"{TARGETS}{name}"]
        yield FailedDelivery(sent, code, why, free[0] if free else None)


def carry_out(tx: Tx, found: NoticePlan, put: Callable[[Tx, DeliveryKey], int]) -> None:
    """Writes it. *put* puts in the job of a delivery, and returns its id."""
    if found.snoozed_out:
        tx.query("notices_snoozed_out")
    for new in found.now.begun:
        outbox.raise_notice(tx, new)
    for end in found.now.ended:
        outbox.resolve_notices(tx, end.place, (end.kind,))
        if end.recovery is not None:
            outbox.raise_notice(tx, end.recovery)
    for waits in found.waits:
        tx.query("notice_waits", {"id": waits.id, "until": waits.until, "why": str(waits.why)})
    for each in found.given_up:
        if deliveries.record_failed(tx, each.sent, each.code, each.why) and each.next is not None:
            _deliver(
                tx, DeliveryKey(each.sent.notice, each.next, each.sent.round_no), put, instead_of=each.sent.channel
            )
    for done in found.decided:
        said = {"id": done.row.id, "told": int(bool(done.to)), "why": None if done.why is None else str(done.why)}
        if not tx.query("notice_decided", said):
            continue
        if done.message is not None:
            tx.query("notice_reworded", {"id": done.row.id, "message": done.message, "advice": done.row.advice})
        for name in done.to:
            _deliver(tx, DeliveryKey(done.row.id, name, done.row.round_no), put)


def _deliver(tx: Tx, sent: DeliveryKey, put: Callable[[Tx, DeliveryKey], int], instead_of: str | None = None) -> None:
    if tx.query("delivery_new", {**sent.params(), "instead_of": instead_of}):
        tx.query("delivery_job", {**sent.params(), "job": put(tx, sent)})
