"""Operators control a target that a program guards: orders to it, and its notices."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, field, replace

from tidegate import outbox
from tidegate.events import Event, EventKind, Notice, NoticeKind
from tidegate.guard import publisher
from tidegate.guard.cooldown import AUTO
from tidegate.guard.pipeline import CallPipeline
from tidegate.guard.publisher import Subject
from tidegate.guard.stale import StaleCache
from tidegate.outbox import NewNotice, NoticeSubject
from tidegate.store.base import Tx
from tidegate.targets import table
from tidegate.targets.table import TargetRow
from tidegate.validation import key_text

# What people order of a target that a program guards by itself: the store has it as rows, and the program follows.
#
# A pause and a rest are states: whoever starts later finds them. To clear is an event: it ends what was known by then,
# and nothing that came after it.


@dataclass(frozen=True, slots=True)
class CooldownOrder:
    """A key that a person has disabled; *until* None: until somebody enables it."""

    until: float | None
    by: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteOrders:
    """What holds for one target at *now*, by the clock of the store. Keys are texts, as people write them."""

    now: float
    paused: tuple[float, str] | None = None  # until when, and by whom
    resting: Mapping[str, CooldownOrder] = field(default_factory=dict)
    cleared: Mapping[str, float] = field(default_factory=dict)  # since the last look, and when
    last: int = 0  # the event that was read last
    asked_at: float = field(default_factory=time.monotonic)  # not after *now*: what is younger is never taken for older

    def dealt_with(self, key: str, heard_at: float) -> bool:
        """Whether a person has cleared *key* since something of it was heard, so that nobody else need hear of it."""
        at = self.cleared.get(key)
        return at is not None and heard_at <= self.asked_at - (self.now - at)


def read(
    tx: Tx, row: TargetRow, now: float, asked_at: float, *, after: int | None, programs: Collection[str]
) -> RemoteOrders:
    """*after*: the last event that was read; None: none was, and nothing is known that could be cleared.

    What *programs* cleared they have cleared for themselves.
    """
    paused = None if row.paused_until is None or row.paused_until <= now else (row.paused_until, row.paused_by or "")
    resting = {
        each.lane: CooldownOrder(each.rest.until, each.rest.by or "", each.rest.reason or "")
        for each in table.resting(tx, row.name)
        if each.rest.disabled and each.rest.by != AUTO and (each.rest.until is None or each.rest.until > now)
    }
    if after is None:
        last = table.last_event(tx, row.name)
        return RemoteOrders(now=now, asked_at=asked_at, paused=paused, resting=resting, last=last)
    events = table.cleared_keys(tx, row.name, after)
    return RemoteOrders(
        now=now,
        asked_at=asked_at,
        paused=paused,
        resting=resting,
        last=max((event.id for event in events), default=after),
        cleared={event.lane or "": event.at for event in events if event.actor not in programs},
    )


class RemoteControl:
    """Does with one target of this process what people ordered. The store has the events of it already."""

    def __init__(self, pipeline: CallPipeline, cache: StaleCache) -> None:
        self._pipeline, self._stale_cache = pipeline, cache
        self._paused: tuple[float, str] | None = None
        self._resting: Mapping[str, CooldownOrder] = {}
        self._heard = threading.Event()

    def heard(self, wait: float) -> bool:
        """Whether the store was asked at least once; waits for that at most so long."""
        return self._heard.wait(wait)

    def follow(self, orders: RemoteOrders) -> None:
        keys = self._pipeline.keys
        to_steady = self._pipeline.clock.monotonic() - (time.monotonic() - orders.asked_at) - orders.now
        if orders.paused != self._paused:
            self._paused = orders.paused
            if orders.paused is None:
                keys.resume()
            else:
                keys.pause(orders.paused[0] + to_steady, f"Paused by {orders.paused[1]}.")
        for text in self._resting.keys() - orders.resting.keys():
            keys.end_order(text)
            for key in self._named(text):
                keys.enable(key)
        for text, rest in orders.resting.items():
            if rest != self._resting.get(text):
                until = None if rest.until is None else rest.until + to_steady
                keys.order(text, until, rest.by, rest.reason)
                for key in self._named(text):
                    keys.disable(key, until, rest.by, rest.reason)
        self._resting = orders.resting
        for text, at in orders.cleared.items():
            for key in self._named(text, at + to_steady):
                self._pipeline.forget(key)
                self._stale_cache.forget(key)
        self._heard.set()

    def _named(self, text: str, before: float | None = None) -> list[Hashable]:
        """The keys that look so and have state; *before*: only those that have had it since then."""
        return list(
            {
                key: None
                for key, _, state in self._pipeline.keys.unhealthy()
                if key_text(key) == text and (before is None or state.since <= before)
            }
        )


# What a program that guards its calls by itself tells people, as rows of the store.


def write_notice(tx: Tx, event: Event) -> Notice | None:
    """Writes the notice of an event; None when people know it already, from whichever process."""
    if event.notice is None:
        return None
    row = _row(event, event.notice)
    found = outbox.record_target_notice(tx, row) or outbox.record_recovery(tx, row)
    return None if found is None else replace(event.notice, episode=found.episode)


def resolve_notice(tx: Tx, event: Event) -> None:
    """What other events mean for the notices that are open."""
    lane = key_text(event.key)
    place = NoticeSubject(subject=outbox.TARGET, name=event.target, lane=lane)
    match event.kind:
        case EventKind.TARGET_DISABLED if event.fields.get("by") == AUTO and event.fault is not None:
            about = Subject(event.target, event.key, None, event.at)
            outbox.raise_notice(tx, _row(event, publisher.resting(about, event.fault)))
        case EventKind.TARGET_ENABLED:
            outbox.resolve_notices(tx, place, (NoticeKind.DISABLED,))
        case EventKind.TARGET_RECOVERED if event.fields.get("held") is False:
            outbox.resolve_notices(tx, replace(place, operation=event.operation or ""), (NoticeKind.FATAL,))
        case EventKind.TARGET_CLEARED:
            outbox.acknowledge_recovered(tx, event.target, lane)
        case EventKind.OWN_LINK_BACK:
            outbox.resolve_notices(tx, _this_machine(), (NoticeKind.OWN_LINK,))


def _row(event: Event, notice: Notice) -> NewNotice:
    user = None if event.user is None else key_text(event.user)
    new = outbox.of_target(notice, key_text(event.key), user)
    # Our own network is nobody's target.
    return replace(new, place=_this_machine(), user=None) if notice.kind is NoticeKind.OWN_LINK else new


def _this_machine() -> NoticeSubject:
    return NoticeSubject(subject=outbox.SERVER, name=socket.gethostname())
