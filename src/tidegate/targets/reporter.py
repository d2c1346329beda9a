"""Reports the health of a program's targets to the store, and reads operator orders for them.

A separate thread writes and reads, so a guarded call only appends to a list. While the store is unavailable,
transitions are dropped and counted. A notice is recorded first and published in this process after that, so that two
processes do not send it twice. While the store is unavailable, it is published immediately and recorded later.
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from tidegate import outbox
from tidegate.clock import SYSTEM
from tidegate.errors import StoreError
from tidegate.events import Bus, Event, EventKind, Notice
from tidegate.logs import logger
from tidegate.store.base import Store, Tx, now_of
from tidegate.store.clock import SteadyClock
from tidegate.store.migrate import core_migrations, migrate
from tidegate.store.open import check_url, open_store
from tidegate.targets import remote_control, table
from tidegate.targets.remote_control import RemoteOrders
from tidegate.validation import key_text

_log = logger("tidegate.report")

EVERY = 5.0  # seconds between two summaries
_REPORT_DELAY = 0.5  # seconds between a transition and its report
_MAX_PENDING = 1000  # transitions that wait for the next report
_PROCESS_TIMEOUT = 60.0  # seconds without a report after which a process is removed from the summary
_FINAL_REPORT_TIMEOUT = 2.0  # seconds that the end of the program waits for the last report
_MAX_LATE = 100  # notices that wait to be recorded
_UNREPORTED_KINDS = frozenset({EventKind.CALL_FAILED, EventKind.NOTICE})  # notices have their own path

_FORKED_STORES: list[Store] = []  # opened before a fork; closing them here would close the parent's connections

Summary = Callable[[], dict[str, object]]
Adopt = Callable[[Iterable[tuple[str, str | None]]], None]
Follow = Callable[[RemoteOrders], None]


def this_program() -> str:
    """The name of this process in reports."""
    return f"{socket.gethostname()}-{os.getpid()}"


@dataclass(frozen=True, slots=True)
class _PendingEvent:
    """An event to write. A notice also has the bus to publish it on; None if it was published."""

    event: Event
    bus: Bus | None = None
    heard_at: float = field(default_factory=time.monotonic)

    @property
    def notice(self) -> Notice | None:
        return self.event.notice


class Reporter:
    """The reports of one process to one store."""

    def __init__(self, url: str, every: float = EVERY) -> None:
        check_url(url)
        self.url = url
        self.dropped = 0  # transitions that could not be written
        self._every = every
        self._targets: dict[str, weakref.WeakMethod[Summary]] = {}
        self._adopts: dict[str, weakref.WeakMethod[Adopt]] = {}  # of targets whose open notices were not read yet
        self._follows: dict[str, weakref.WeakMethod[Follow]] = {}
        self._read: dict[str, int] = {}  # the last order that was read, by target
        self._events: deque[_PendingEvent] = deque()
        self._late: list[_PendingEvent] = []  # notices that were published but not recorded
        self._store: Store | None = None
        self._lock = threading.Lock()
        self._news = threading.Event()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._process = 0

    def add(
        self, name: str, summary: Summary, bus: Bus, adopt: Adopt | None = None, follow: Follow | None = None
    ) -> None:
        """Reports one more target while it exists.

        *adopt* receives the open notices of the target, *follow* the operator orders.
        """
        if follow is not None:
            self._follows[name] = weakref.WeakMethod(follow)
            self._read.pop(name, None)
        self._targets[name] = weakref.WeakMethod(summary)
        if adopt is not None:
            self._adopts[name] = weakref.WeakMethod(adopt)
        bus.attach(self.hear)
        self._start()
        self._news.set()  # the target waits for its orders before the first call

    def notices_for(self, bus: Bus) -> Callable[[Event], None]:
        """The sink for a target's notices, instead of the bus. It never blocks."""
        return lambda event: self._put(_PendingEvent(event, bus))

    def hear(self, event: Event) -> None:
        """Queues an event of this process for the next report. It never blocks."""
        if event.kind not in _UNREPORTED_KINDS and event.target in self._targets:
            self._put(_PendingEvent(event))

    def _put(self, pending: _PendingEvent) -> None:
        if len(self._events) >= _MAX_PENDING:
            self.dropped += 1
            _heard(pending)
            return
        self._events.append(pending)
        self._start()
        self._news.set()

    def close(self) -> None:
        """Sends the last report and ends the thread. A later target or event starts it again."""
        self._stop.set()
        self._news.set()
        if self._thread is not None and self._process == os.getpid():
            self._thread.join(_FINAL_REPORT_TIMEOUT)
        self._process = 0

    def _start(self) -> None:
        if self._process == os.getpid():
            return
        with self._lock:
            if self._process == os.getpid():
                return
            # At first use, after `close`, or after a fork, which does not copy threads.
            if self._process and self._store is not None:
                _FORKED_STORES.append(self._store)
                self._store = None
            self._process = os.getpid()
            self._news, self._stop = threading.Event(), threading.Event()
            begun = (self._news, self._stop)
            self._thread = threading.Thread(target=self._run, args=begun, name="tidegate-report", daemon=True)
            self._thread.start()
            atexit.register(self.close)

    def _run(self, news: threading.Event, stop: threading.Event) -> None:
        while not stop.is_set():
            news.clear()
            self._report()
            if not self._events and not stop.is_set():
                news.wait(self._every)
            stop.wait(_REPORT_DELAY)
        if self._stop is stop:
            self._report()
        with self._lock:
            if self._stop is not stop or self._store is None:
                return  # a newer thread uses the store
            store, self._store = self._store, None
        store.close()

    def _report(self) -> None:
        events = [*self._late, *(self._events.popleft() for _ in range(len(self._events)))]
        self._late = []
        summaries = self._summaries()
        try:
            if self._store is None:
                self._store = self._opened()
            self._adopt(self._store)
            asked_at = time.monotonic()
            written, ordered = self._store.write(lambda tx: self._write(tx, events, summaries, asked_at))
        except Exception as error:
            self._not_written(events, error)
        else:
            for notice in written:
                _heard(notice)
            for name, what in ordered.items():
                follow = self._follows[name]()
                if follow is not None:
                    self._read[name] = what.last
                    try:
                        follow(what)
                    except Exception:  # for example a user's keys that cannot be compared; other targets continue
                        _log.exception("orders_not_followed target=%s", name)

    def _not_written(self, events: list[_PendingEvent], error: Exception) -> None:
        """Publishes the notices and keeps them for the next report. Other events are dropped and counted."""
        notices = [pending for pending in events if pending.notice is not None]
        for notice in notices:
            _heard(notice)
        self._late = [replace(notice, bus=None) for notice in notices[-_MAX_LATE:]]
        lost = len(events) - len(self._late)
        self.dropped += lost
        _log.warning("report_dropped transitions=%s error=%s", lost, type(error).__name__)
        if not isinstance(error, StoreError):
            _log.error("report_failed", exc_info=error)

    def _adopt(self, store: Store) -> None:
        """Gives new targets their open notices."""
        for name, ref in list(self._adopts.items()):
            adopt = ref()
            if adopt is not None:
                adopt(store.read(lambda tx, name=name: _told_before(tx, name)))  # type: ignore[misc]
            del self._adopts[name]

    def _opened(self) -> Store:
        store = open_store(self.url, now=SYSTEM.now)
        try:
            migrate(store, core_migrations())
            store.keep_steady(SteadyClock(SYSTEM))
        except BaseException:
            store.close()
            raise
        return store

    def _summaries(self) -> dict[str, dict[str, object]]:
        found: dict[str, dict[str, object]] = {}
        for name, ref in list(self._targets.items()):
            summary = ref()
            if summary is None:
                self._targets.pop(name, None)
                continue
            try:
                found[name] = summary()
            except Exception:  # the other targets are reported
                _log.exception("summary_failed target=%s", name)
        return found

    def _write(
        self, tx: Tx, events: list[_PendingEvent], summaries: dict[str, dict[str, object]], asked_at: float
    ) -> tuple[list[_PendingEvent], dict[str, RemoteOrders]]:
        """Writes events and summaries. Returns the notices to publish, and the operator orders by target."""
        me = this_program()
        now = now_of(tx)
        # Lock targets first, as workers do, to avoid deadlocks.
        rows, _ = table.lock_targets(tx, summaries)
        said = {name: json.loads(row.summary) if row.summary else {} for name, row in rows.items()}
        ordered = {
            name: remote_control.read(
                tx, rows[name], now, asked_at, after=self._read.get(name), programs={*said[name], me}
            )
            for name in summaries
            if name in self._follows
        }
        new: list[_PendingEvent | None] = []
        for pending in events:
            if pending.notice is None:
                _happened(tx, pending.event, me)
            elif (known := ordered.get(pending.event.target)) is None or not known.dealt_with(
                key_text(pending.event.key), pending.heard_at
            ):
                new.append(_written(tx, pending))
        for name, summary in summaries.items():
            others = said[name]
            kept = {
                who: word for who, word in others.items() if who != me and now - word.get("at", 0) < _PROCESS_TIMEOUT
            }
            kept[me] = {**summary, "at": now, "dropped": self.dropped}
            tx.query("target_report", {"name": name, "summary": json.dumps(kept, default=str)})
        return [pending for pending in new if pending is not None], ordered


def _happened(tx: Tx, event: Event, me: str) -> None:
    fields = {**event.fields, **({} if event.fault is None else {"code": event.fault.code})}
    tx.query(
        "gate_event_at",
        {
            "at": event.at,
            "subject": "target",
            "name": event.target,
            "kind": str(event.kind),
            "actor": me,
            "lane": None if event.key is None else key_text(event.key),
            "fields": json.dumps(fields, default=str),
        },
    )
    remote_control.resolve_notice(tx, event)


def _written(tx: Tx, pending: _PendingEvent) -> _PendingEvent | None:
    """The recorded notice; None when it is a duplicate."""
    notice = remote_control.write_notice(tx, pending.event)
    return None if notice is None else replace(pending, event=replace(pending.event, notice=notice))


def _told_before(tx: Tx, target: str) -> list[tuple[str, str | None]]:
    """The keys and operations with an open notice, or with one whose recovery was not sent."""
    still = [(notice.lane, notice.operation or None) for notice in outbox.open_of(tx, target)]
    return [*still, *((lane, None) for lane in outbox.unanswered_notices(tx, target))]


def _heard(pending: _PendingEvent) -> None:
    if pending.bus is not None:
        pending.bus.publish(pending.event)


_reporters: dict[str, Reporter] = {}
_lock = threading.Lock()


def reporter_of(url: str) -> Reporter:
    """The one reporter of this process to that store."""
    with _lock:
        if url not in _reporters:
            _reporters[url] = Reporter(url)
        return _reporters[url]
