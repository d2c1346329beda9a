"""Snapshots of the store for open pages, and the changes between two of them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tidegate.accounts import users
from tidegate.admin.overview import Overview, overview
from tidegate.apps import StatusStrip
from tidegate.errors import StoreError
from tidegate.faults.redaction import shown_value
from tidegate.jobs.bulk import table as bulk_table
from tidegate.notices import inbox
from tidegate.notices.inbox import NoticeLine
from tidegate.store import open as store_open
from tidegate.store.base import Tx
from tidegate.targets import table
from tidegate.targets.table import TargetEvent
from tidegate.web.pages import formatters
from tidegate.web.pages.notices import LEVELS, place_of
from tidegate.web.site import LivePolicy, Site

# A worker sends a heartbeat every 10 s. A user learns of a silent worker within 15 s.
SILENT = 13.0
_NEWEST = 50
_MAX_WAITING = 20
_EVENT_BATCH = 500

# Kind, content (always the whole value, never a difference), and the only user it is for, or None.
Message = tuple[str, dict[str, object], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The state of the store at one time. *last_event* is the newest target event in it."""

    overview: Overview
    unread: int
    notices: dict[int, NoticeLine]  # the newest
    waiting: tuple[NoticeLine, ...]  # unread, and still open
    events: tuple[TargetEvent, ...]
    last_event: int
    people: frozenset[str] = frozenset()  # names of all users
    strips: tuple[StatusStrip, ...] = ()  # shown at the top of every page
    bulks: Mapping[int, int] = field(default_factory=dict)  # running bulk actions and their progress

    def audience(self, line: NoticeLine) -> str | None:
        """Return the only user a notice is for. None: everyone, also if no user has that name."""
        return line.user if line.user in self.people else None

    @property
    def as_of(self) -> float:
        return self.overview.now

    @property
    def engine(self) -> str:
        """Return "working" or "silent" by the last heartbeat of a worker, "none" if there never was one."""
        tick = self.overview.tick
        if tick is None:
            return "none"
        return "silent" if self.as_of - tick > SILENT else "working"

    def alive(self) -> dict[str, object]:
        """Return the age of the snapshot and of the last worker heartbeat."""
        tick = self.overview.tick
        return {
            "as_of": self.as_of,
            "clock": formatters.clock(self.as_of, self.as_of),
            "tick": tick,
            "engine": self.engine,
            "heard": None if tick is None else formatters.clock(tick, self.as_of),
            "unread": self.unread,
        }

    def whole(self) -> dict[str, object]:
        """Return the counts and the status sentence."""
        state = self.overview
        queues = [
            {"name": queue.name, "jobs": queue.jobs, "paused_until": queue.paused_until, "workers": queue.workers}
            for queue in state.queues
        ]
        return {
            **self.alive(),
            "sentence": state.sentence,
            "healthy": state.healthy,
            "needs": len(state.needs),
            "targets": state.targets,
            "queues": queues,
            "workers": sum(worker.there for worker in state.workers),
        }

    def differs(self) -> tuple[Any, ...]:
        """Return what makes a page reload worthwhile. Ages are left out: they grow without any change."""
        state = self.overview
        return (
            state.targets,
            [(target.name, target.token, target.next_try, target.held_keys) for target in state.attention],
            [(need.kind, need.subject, need.count) for need in state.needs],
            [(queue.name, queue.jobs, queue.paused_until, queue.workers) for queue in state.queues],
            [(worker.id, worker.there, worker.stopping) for worker in state.workers],
            self.unread,
            self.strips,
            self.bulks,
        )


def take_snapshot(tx: Tx, after: int | None) -> Snapshot:
    """Take a snapshot with the target events *after* that id. None: without events."""
    events: list[TargetEvent] = []
    if after is not None:
        events = table.since(tx, after, limit=_EVENT_BATCH)
    newest = table.newest(tx) if after is None else max((event.id for event in events), default=after)
    return Snapshot(
        overview=overview(tx),
        unread=inbox.unread(tx),
        notices={line.id: line for line in inbox.list_notices(tx, limit=_NEWEST).items},
        waiting=tuple(line for line in inbox.list_notices(tx, unread_only=True, limit=_NEWEST).items if line.open)[
            :_MAX_WAITING
        ],
        events=tuple(events),
        last_event=newest,
        people=frozenset(user.name for user in users.users(tx)),
        bulks=bulk_table.running(tx),
    )


def changes(before: Snapshot | None, snapshot: Snapshot, site: Site | None = None) -> Iterator[Message]:
    """Yield the messages for a new snapshot. Without an earlier one, everything may be new."""
    for event in snapshot.events:
        about = event.as_json()
        yield "happened", {**about, "fields": shown_value(about["fields"]), "as_of": snapshot.as_of}, None
    for id_, line in sorted(snapshot.notices.items()):
        if before is not None and before.notices.get(id_) != line:
            about = {**describe_line(line, site), "unread_count": snapshot.unread, "as_of": snapshot.as_of}
            yield "notice", about, snapshot.audience(line)
    if before is None or before.differs() != snapshot.differs():
        yield "now", snapshot.whole(), None


def describe_line(line: NoticeLine, site: Site | None = None) -> dict[str, object]:
    """Return a notice as a toast shows it."""
    tone, icon = LEVELS[line.level]
    return {
        "id": line.id,
        "kind": line.kind,
        "level": line.level,
        "tone": tone,
        "icon": icon,
        "title": line.title,
        "message": f"{line.message} {line.advice}".strip(),
        "href": place_of(line, site.apps if site else ()) or "/notices",
        "subject": line.subject,
        "name": line.name,
        "created_at": line.created_at,
        "open": line.open,
        "unread": line.unread,
    }


# -- watcher -----------------------------------------------------------------------------------------------------------

_log = logging.getLogger("tidegate.web")


class StoreWatcher:
    """One thread that reads the store for all subscribers: after a write, and at least once per poll interval.

    It passes each snapshot to *tell*, on its own thread. None means that the store is unreachable.
    """

    def __init__(
        self, site: Site, policy: LivePolicy, last: int | None, tell: Callable[[Snapshot | None], None]
    ) -> None:
        self._site, self._policy, self._last, self._publish = site, policy, last, tell
        self._written = threading.Event()
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, name="tidegate-live", daemon=True),
            threading.Thread(target=self._watch, name="tidegate-live-watch", daemon=True),
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Request the end. The threads end within a second and pass on nothing more."""
        self._stop.set()
        self._written.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            began = time.monotonic()
            self._written.clear()
            snapshot = self._read_snapshot()
            if self._stop.is_set():
                return
            self._publish(snapshot)
            took = time.monotonic() - began
            # Limit the load on a slow store: reads may take up to a quarter of the time.
            self._stop.wait(max(self._policy.soonest - took, 3 * took))
            self._written.wait(max(0.0, self._policy.poll_interval - (time.monotonic() - began)))

    def _read_snapshot(self) -> Snapshot | None:
        try:
            snapshot = self._site.read(lambda tx: take_snapshot(tx, self._last))
        except StoreError:
            return None
        except Exception as error:  # any other error counts as unreachable too
            _log.error("live_look_failed error=%s", type(error).__name__)
            return None
        self._last = snapshot.last_event
        if len(snapshot.events) == _EVENT_BATCH:
            self._written.set()  # there are more
        return replace(snapshot, strips=tuple(self._site.strips()))

    def _watch(self) -> None:
        try:
            watch = store_open.watcher(self._site.queue.store)
        except StoreError:
            return
        if watch is not None:
            watch(self._written.set, self._stop)
