"""One thread looks at the store for all who follow: at once when something was written, and now and then anyway."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from tidegate.errors import StoreError
from tidegate.store import watching
from tidegate.web.live.policy import LivePolicy
from tidegate.web.live.seen import Snapshot, take_snapshot
from tidegate.web.site import Site

_log = logging.getLogger("tidegate.web")


class StoreWatcher:
    """Looks until it is stopped, and hands over each look, on its own thread; None when the store is away."""

    def __init__(
        self, site: Site, numbers: LivePolicy, last: int | None, tell: Callable[[Snapshot | None], None]
    ) -> None:
        self._site, self._numbers, self._last, self._tell = site, numbers, last, tell
        self._news = threading.Event()
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, name="tidegate-live", daemon=True),
            threading.Thread(target=self._watch, name="tidegate-live-watch", daemon=True),
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Asks it to end; it is gone within a second, and tells nothing more."""
        self._stop.set()
        self._news.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            began = time.monotonic()
            self._news.clear()
            seen = self._look()
            if self._stop.is_set():
                return
            self._tell(seen)
            took = time.monotonic() - began
            # A store that takes long to be looked at is not to do little else.
            self._stop.wait(max(self._numbers.soonest - took, 3 * took))
            self._news.wait(max(0.0, self._numbers.poll_interval - (time.monotonic() - began)))

    def _look(self) -> Snapshot | None:
        try:
            seen = self._site.read(lambda tx: take_snapshot(tx, self._last))
        except StoreError:
            return None
        except Exception as error:  # whatever it is, those who follow are told that nothing is known
            _log.error("live_look_failed error=%s", type(error).__name__)
            return None
        self._last = seen.last_event
        return replace(seen, strips=tuple(self._site.strips()))

    def _watch(self) -> None:
        try:
            watch = watching.watcher(self._site.queue.store)
        except StoreError:
            return
        if watch is not None:
            watch(self._news.set, self._stop)
