"""A program that guards its calls by itself tells the store how its targets are, so that others can see it.

A thread of its own writes; what a call does is one append to a list. When the store is away, what was to be told is
dropped and counted.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import socket
import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

from tidegate.core.events import Event, EventKind
from tidegate.errors import StoreError
from tidegate.runtime.bus import Bus
from tidegate.runtime.clock import SYSTEM
from tidegate.store import gate_rows
from tidegate.store.migrate import core_migrations, migrate
from tidegate.store.opening import check_url, open_store
from tidegate.store.tx import Store, Tx

_log = logging.getLogger("tidegate.report")

EVERY = 5.0  # seconds between two summaries
_SOON = 0.5  # seconds between a transition and its report
_MOST = 1000  # transitions that wait to be told
_GONE = 60.0  # a process that has told nothing for so long is left out
_LAST = 2.0  # seconds that the end of the program waits for the last report
_UNTOLD = frozenset({EventKind.CALL_FAILED, EventKind.NOTICE})

Summary = Callable[[], dict[str, Any]]


class Reporter:
    """The reports of one process to one store."""

    def __init__(self, url: str, every: float = EVERY) -> None:
        check_url(url)
        self.url = url
        self.dropped = 0  # transitions that could not be told
        self._every = every
        self._targets: dict[str, weakref.WeakMethod[Summary]] = {}
        self._events: deque[Event] = deque()
        self._store: Store | None = None
        self._lock = threading.Lock()
        self._news = threading.Event()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._process = 0

    def add(self, name: str, summary: Summary, bus: Bus) -> None:
        """Tells of one more target, for as long as it is there."""
        self._targets[name] = weakref.WeakMethod(summary)
        bus.attach(self.hear)
        self._start()

    def hear(self, event: Event) -> None:
        """An event of this process; never waits."""
        if event.kind in _UNTOLD or event.target not in self._targets:
            return
        if len(self._events) >= _MOST:
            self.dropped += 1
            return
        self._events.append(event)
        self._start()
        self._news.set()

    def close(self) -> None:
        """Tells the last, and ends; a target that is added later, or one more event, begins anew."""
        self._stop.set()
        self._news.set()
        if self._thread is not None and self._process == os.getpid():
            self._thread.join(_LAST)
        self._process = 0

    def _start(self) -> None:
        if self._process == os.getpid():
            return
        with self._lock:
            if self._process == os.getpid():
                return
            # The first time, or the first time after a fork, which leaves threads and connections behind.
            self._process, self._store = os.getpid(), None
            self._news, self._stop = threading.Event(), threading.Event()
            self._thread = threading.Thread(target=self._run, name="tidegate-report", daemon=True)
            self._thread.start()
            atexit.register(self.close)

    def _run(self) -> None:
        while not self._stop.is_set():
            self._report()
            self._news.clear()
            if not self._events and not self._stop.is_set():
                self._news.wait(self._every)
            self._stop.wait(_SOON)
        self._report()
        if self._store is not None:
            self._store.close()

    def _report(self) -> None:
        told = [self._events.popleft() for _ in range(len(self._events))]
        summaries = self._summaries()
        try:
            if self._store is None:
                self._store = self._opened()
            self._store.write(lambda tx: self._write(tx, told, summaries))
        except Exception as error:
            self.dropped += len(told)
            _log.warning("report_dropped transitions=%s error=%s", len(told), type(error).__name__)
            if not isinstance(error, StoreError):
                _log.error("report_failed", exc_info=error)

    def _opened(self) -> Store:
        store = open_store(self.url, now=SYSTEM.now)
        try:
            migrate(store, core_migrations())
        except BaseException:
            store.close()
            raise
        return store

    def _summaries(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for name, ref in list(self._targets.items()):
            summary = ref()
            if summary is None:
                self._targets.pop(name, None)
            else:
                found[name] = summary()
        return found

    def _write(self, tx: Tx, told: list[Event], summaries: dict[str, dict[str, Any]]) -> None:
        me = f"{socket.gethostname()}-{os.getpid()}"
        for event in told:
            fields = {**event.fields, **({} if event.fault is None else {"code": event.fault.code})}
            tx.all("gate_event_at", {
                "at": event.at, "subject": "target", "name": event.target, "kind": str(event.kind), "actor": me,
                "lane": None if event.key is None else str(event.key), "fields": json.dumps(fields, default=str),
            })  # fmt: skip
        now = float(tx.all("clock")[0][0])
        rows, _ = gate_rows.locked(tx, summaries)
        for name, summary in summaries.items():
            before = rows[name].summary
            others = json.loads(before) if before else {}
            kept = {who: said for who, said in others.items() if who != me and now - said.get("at", 0) < _GONE}
            kept[me] = {**summary, "at": now, "dropped": self.dropped}
            tx.all("target_report", {"name": name, "summary": json.dumps(kept, default=str)})


_reporters: dict[str, Reporter] = {}
_lock = threading.Lock()


def reporter_of(url: str) -> Reporter:
    """The one reporter of this process to that store."""
    with _lock:
        if url not in _reporters:
            _reporters[url] = Reporter(url)
        return _reporters[url]
