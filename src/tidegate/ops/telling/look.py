"""One look: what is new, what is over, who is told, and who gets what a channel could not deliver.

First it is found out what is to be done, by reading alone; most looks find nothing, and cost no write. What is to be
done is done in one transaction with the jobs that deliver it, so a crash leaves all of it or nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from tidegate.core.channel import TARGETS, Channel, Mail
from tidegate.machine.telling import Drop, Tell, TellingPolicy, Wait, Why, decide
from tidegate.ops.telling import conditions, wording
from tidegate.ops.telling.conditions import Now, Unmanned
from tidegate.store import channel_rows, notice_rows, telling_rows
from tidegate.store.notice_rows import TARGET
from tidegate.store.now import now_of
from tidegate.store.telling_rows import FAILED, PERSON, Row, Sent
from tidegate.store.tx import Tx

_MOST = 200  # of each sort in one look; the next one is soon


@dataclass(frozen=True, slots=True)
class Waits:
    id: int
    until: float
    why: Why


@dataclass(frozen=True, slots=True)
class Decided:
    """Channels are told of it, or with a reason they are not."""

    row: Row
    why: Why | None = None
    to: tuple[str, ...] = ()
    message: str | None = None  # instead of what was written first


@dataclass(frozen=True, slots=True)
class GivenUp:
    """A channel could not deliver it; *next* gets it, if there is one."""

    sent: Sent
    code: str
    why: str
    next: str | None


@dataclass(slots=True, kw_only=True)
class Plan:
    """Everything that is to be done after one look."""

    now: Now
    waits: list[Waits] = field(default_factory=list)
    decided: list[Decided] = field(default_factory=list)
    given_up: list[GivenUp] = field(default_factory=list)
    snoozed_out: bool = False

    def __bool__(self) -> bool:
        found = (self.now.begun, self.now.ended, self.waits, self.decided, self.given_up)
        return self.snoozed_out or any(found)


def plan(tx: Tx, policy: TellingPolicy, channels: Sequence[Channel], unmanned: Unmanned) -> Plan:
    now = now_of(tx)
    off = {row.name for row in channel_rows.every(tx) if row.disabled_at is not None}
    found = Plan(
        now=conditions.looked(tx, policy, now, unmanned),
        snoozed_out=int(tx.all("notices_snoozing_out")[0][0]) > 0,
        given_up=list(_given_up(tx, channels, off)),
    )
    for row in telling_rows.undecided(tx, _MOST):
        match decide(row.heard, telling_rows.beside(tx, row), policy, now):
            case Wait(until, why):
                if (row.waits_until, row.why) != (until, why):
                    found.waits.append(Waits(row.id, until, why))
            case Drop(why):
                found.decided.append(Decided(row, why))
            case Tell(of, flaps):
                found.decided.append(_told(tx, row, of, flaps, policy, [c for c in channels if c.name not in off], now))
    return found


def _told(
    tx: Tx, row: Row, of: int | None, flaps: int, policy: TellingPolicy, channels: Sequence[Channel], now: float
) -> Decided:
    trouble = None if of is None else telling_rows.one(tx, of)
    message = wording.reworded(tx, row, trouble, flaps)
    if of is not None:
        # Whoever was told of the trouble is told of its end, whatever else they are told.
        told = telling_rows.deliveries(tx, [of])[of]
        names = {each.channel for each in told if each.state != FAILED}
        there = {each.name for each in channels}
        to = [name for name in names if (_mails(channels) if name.startswith(PERSON) else name in there)]
    else:
        to = [each.name for each in channels if each.takes(row.level) and f"{TARGETS}{each.name}" != row.name]
        to += _person(tx, row, policy, channels, now)
        to = to or _next_of(row, channels)
    return Decided(row, None if to else Why.NO_CHANNEL, tuple(sorted(to)), message)


def _next_of(row: Row, channels: Sequence[Channel]) -> list[str]:
    """Who hears that a channel fails when nobody else would: the first of the others, whatever it is told otherwise."""
    others = [each.name for each in channels if f"{TARGETS}{each.name}" != row.name]
    return others[:1] if row.name.startswith(TARGETS) else []


def _person(tx: Tx, row: Row, policy: TellingPolicy, channels: Sequence[Channel], now: float) -> list[str]:
    """The person whose key was refused, if they gave an address, and were not mailed about this target lately."""
    if row.kind != "fatal" or row.subject != TARGET or not row.user or not _mails(channels):
        return []
    if not tx.all("address", {"who": row.user}):
        return []
    mailed = tx.all("mailed", {"who": row.user, "target": row.name})
    return [] if mailed and now - mailed[0][0] < policy.mail_again else [f"{PERSON}{row.user}"]


def _mails(channels: Sequence[Channel]) -> bool:
    """Whether one of them could send a mail to somebody."""
    return any(isinstance(each.way, Mail) for each in channels)


def _given_up(tx: Tx, channels: Sequence[Channel], off: set[str]) -> Iterator[GivenUp]:
    names = [channel.name for channel in channels]
    for sent, code, why in telling_rows.given_up(tx, _MOST):
        has = {each.channel for each in telling_rows.deliveries(tx, [sent.notice])[sent.notice]}
        row = telling_rows.one(tx, sent.notice)
        # What was to go through one that the settings lack by now goes to the first; what is for one person, to nobody.
        after = names.index(sent.channel) + 1 if sent.channel in names else 0
        later = [] if sent.channel.startswith(PERSON) else names[after:]
        free = [name for name in later if name not in has | off and row is not None and row.name != f"{TARGETS}{name}"]
        yield GivenUp(sent, code, why, free[0] if free else None)


def carry_out(tx: Tx, found: Plan, put: Callable[[Tx, Sent], int]) -> None:
    """Writes it. *put* puts in the job of a delivery, and returns its id."""
    if found.snoozed_out:
        tx.all("notices_snoozed_out")
    for new in found.now.begun:
        notice_rows.raised(tx, new)
    for end in found.now.ended:
        notice_rows.ended(tx, end.place, (end.kind,))
        if end.recovery is not None:
            notice_rows.raised(tx, end.recovery)
    for waits in found.waits:
        tx.all("notice_waits", {"id": waits.id, "until": waits.until, "why": str(waits.why)})
    for each in found.given_up:
        if telling_rows.failed(tx, each.sent, each.code, each.why) and each.next is not None:
            _deliver(tx, Sent(each.sent.notice, each.next, each.sent.round_no), put, instead_of=each.sent.channel)
    for done in found.decided:
        said = {"id": done.row.id, "told": int(bool(done.to)), "why": None if done.why is None else str(done.why)}
        if not tx.all("notice_decided", said):
            continue
        if done.message is not None:
            tx.all("notice_reworded", {"id": done.row.id, "message": done.message, "advice": done.row.advice})
        for name in done.to:
            _deliver(tx, Sent(done.row.id, name, done.row.round_no), put)


def _deliver(tx: Tx, sent: Sent, put: Callable[[Tx, Sent], int], instead_of: str | None = None) -> None:
    if tx.all("delivery_new", {**sent.params(), "instead_of": instead_of}):
        tx.all("delivery_job", {**sent.params(), "job": put(tx, sent)})
