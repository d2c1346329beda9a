"""The server thread that runs bulk actions, including those that a stopped process left behind."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field

from tidegate.errors import Rejected, StoreError
from tidegate.jobs.bulk import service, table
from tidegate.jobs.bulk.service import BulkOutcome
from tidegate.jobs.bulk.table import BulkOperation
from tidegate.jobs.listing import Filter
from tidegate.store.base import Tx, now_of
from tidegate.web.middleware import places
from tidegate.web.problems import Problem
from tidegate.web.site import Site

_log = logging.getLogger("tidegate.web")

MAX_RUNNING = 4  # across all processes
_POLL_INTERVAL = 30.0  # seconds; finds actions that another process left behind
_SHORT_POLL_INTERVAL = 2.0  # seconds, while another process runs one or the store is unreachable


@dataclass(slots=True)
class BulkRunner:
    """Runs all open bulk actions, one batch of each in turn."""

    site: Site
    _holder: str = field(default_factory=service.holder)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stopping: threading.Event = field(default_factory=threading.Event)
    _wakeup: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self, action: str, job_filter: Filter, by: str, expected: int) -> BulkOperation | None:
        """Store a bulk action and start it. None when nothing matches. Raises Problem when too many are running."""
        store = self.site.queue.store
        running = store.read(table.running)
        if len(running) >= MAX_RUNNING:
            raise Problem(
                "too_many",
                f"{len(running)} bulk actions are under way.",
                retry_after=store.read(self._shortest_remaining),
            )
        operation = service.begin(store, action, job_filter, by, expected=expected)
        self.begin()
        self._wakeup.set()
        return operation

    def begin(self) -> None:
        """Start the thread unless it runs. Also works after `stop`."""
        with self._lock:
            self._stopping.clear()
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="tidegate-bulk", daemon=True)
                self._thread.start()

    def stop(self, patience: float = 5.0) -> None:
        """Stop after the current batch. Another process or the next start continues the rest."""
        self._stopping.set()
        self._wakeup.set()
        if self._thread is not None:
            self._thread.join(patience)

    def _shortest_remaining(self, tx: Tx) -> float:
        now = now_of(tx)
        remaining = [operation.left(now) for id_ in table.running(tx) if (operation := table.get(tx, id_)) is not None]
        return max(1.0, min(remaining, default=1.0))

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._wakeup.clear()
            wait = self._round()
            if wait and not self._stopping.is_set():
                self._wakeup.wait(wait)

    def _round(self) -> float:
        """Run one batch of each open action. Return the seconds to wait before the next round."""
        try:
            store = self.site.queue.store  # raises StoreError if closed
            running = list(store.read(table.running))
            worked = [id_ for id_ in running if not self._stopping.is_set() and self._step(id_)]
            if self._stopping.is_set():
                for id_ in running:
                    store.write(lambda tx, id_=id_: table.release_lead(tx, id_, self._holder))  # type: ignore[misc]
        except StoreError as error:
            _log.warning("bulk_waits error=%s", type(error).__name__)
            return _SHORT_POLL_INTERVAL
        if worked:
            self.site.queue.notify_workers()
            return 0.0
        return _SHORT_POLL_INTERVAL if running else _POLL_INTERVAL

    def _step(self, id_: int) -> bool:
        """Run one batch. Return whether this process held the action."""
        store = self.site.queue.store
        try:
            return service.step(store, id_, self._holder) is not None
        except StoreError:
            raise
        except Exception as error:
            _log.error("bulk_failed id=%s error=%s where=%s", id_, type(error).__name__, places(error))
            message = "something went wrong; the log of the server says more"
            store.write(lambda tx: table.end(tx, id_, table.FAILED, message))
            return True


def run_bulk(site: Site, action: str, job_filter: Filter, by: str, expected: int) -> BulkOutcome:
    """Run a bulk action to its end and wake the workers."""
    outcome = service.run(site.queue.store, action, job_filter, by, expected=expected)
    site.queue.notify_workers()
    if outcome.state == table.FAILED:
        raise Rejected("something went wrong; look at what is left")
    return outcome
