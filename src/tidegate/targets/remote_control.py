"""Operator orders for a target that a program guards, and the notices of that program."""

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

# -- orders ----------------------------------------------------------------------------------------------------------
# A pause and a cooldown are states in the store, which a program also finds when it starts later. Clearing a key is an
# event: it removes the state from before it, and nothing later.


@dataclass(frozen=True, slots=True)
class CooldownOrder:
    """A key that an operator has disabled; without *until*, until an operator enables it."""

    until: float | None
    by: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteOrders:
    """The orders for one target at *now*, by the store's clock. Keys are texts, as operators write them."""

    now: float
    paused: tuple[float, str] | None = None  # until when, and by whom
    resting: Mapping[str, CooldownOrder] = field(default_factory=dict)
    cleared: Mapping[str, float] = field(default_factory=dict)  # keys cleared since the last read, and when
    last: int = 0  # the last event that was read
    asked_at: float = field(default_factory=time.monotonic)  # taken before *now*, so newer state never looks older

    def dealt_with(self, key: str, heard_at: float) -> bool:
        """Whether an operator cleared *key* after *heard_at*, so that the notice is obsolete."""
        at = self.cleared.get(key)
        return at is not None and heard_at <= self.asked_at - (self.now - at)


def read(
    tx: Tx, row: TargetRow, now: float, asked_at: float, *, after: int | None, programs: Collection[str]
) -> RemoteOrders:
    """Reads the orders for a target. *after*: the last event that was read; None at the first read.

    A key that one of *programs* cleared is not an order.
    """
    paused = None if row.paused_until is None or row.paused_until <= now else (row.paused_until, row.paused_by or "")
    resting = {
        key.lane: CooldownOrder(key.rest.until, key.rest.by or "", key.rest.reason or "")
        for key in table.resting(tx, row.name)
        if key.rest.disabled and key.rest.by != AUTO and (key.rest.until is None or key.rest.until > now)
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
    """Applies operator orders to one target of this process. Their events are already in the store."""

    def __init__(self, pipeline: CallPipeline, cache: StaleCache) -> None:
        self._pipeline, self._stale_cache = pipeline, cache
        self._paused: tuple[float, str] | None = None
        self._resting: Mapping[str, CooldownOrder] = {}
        self._heard = threading.Event()

    def heard(self, wait: float) -> bool:
        """Whether orders were read at least once. Waits up to *wait* seconds for it."""
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
        """The unhealthy keys with this text; with *before*, only those unhealthy since then or earlier."""
        return list(
            {
                key: None
                for key, _, state in self._pipeline.keys.unhealthy()
                if key_text(key) == text and (before is None or state.since <= before)
            }
        )


# -- notices ---------------------------------------------------------------------------------------------------------


def write_notice(tx: Tx, event: Event) -> Notice | None:
    """Records the notice of an event. Returns None when any process has already recorded it."""
    if event.notice is None:
        return None
    row = _row(event, event.notice)
    recorded = outbox.record_target_notice(tx, row) or outbox.record_recovery(tx, row)
    return None if recorded is None else replace(event.notice, episode=recorded.episode)


def resolve_notice(tx: Tx, event: Event) -> None:
    """Resolves or raises notices for an event that is not a notice."""
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
    # The local network does not belong to a target.
    return replace(new, place=_this_machine(), user=None) if notice.kind is NoticeKind.OWN_LINK else new


def _this_machine() -> NoticeSubject:
    return NoticeSubject(subject=outbox.SERVER, name=socket.gethostname())
