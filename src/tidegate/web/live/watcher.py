"""How everything stands at one look, as a page that is open needs to know it, and what is new since the look before."""

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

# A worker is heard of every 10 s; whoever reads is told before 15 s are over.
SILENT = 13.0
_NEWEST = 50
_MAX_WAITING = 20

# Its kind, what it carries (never a difference, always the whole value), and the only user whom it is for, if it is.
Message = tuple[str, dict[str, Any], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One look. *last_event* is the last gate event that it saw."""

    overview: Overview
    unread: int
    notices: dict[int, NoticeLine]  # the newest
    waiting: tuple[NoticeLine, ...]  # unread, and what they tell of goes on
    events: tuple[TargetEvent, ...]
    last_event: int
    people: frozenset[str] = frozenset()  # who can sign in here
    strips: tuple[StatusStrip, ...] = ()  # above every page
    bulks: Mapping[int, int] = field(default_factory=dict)  # bulk actions that are under way, and how far

    def audience(self, line: NoticeLine) -> str | None:
        """The one whom a notice is for; None: everybody, also when nobody here has that name."""
        return line.user if line.user in self.people else None

    @property
    def as_of(self) -> float:
        return self.overview.now

    @property
    def engine(self) -> str:
        """Whether there is a worker: "working", "silent" when none was heard of for too long, "none" at all."""
        tick = self.overview.tick
        if tick is None:
            return "none"
        return "silent" if self.as_of - tick > SILENT else "working"

    def alive(self) -> dict[str, Any]:
        """Its age, and that of the last sign of a worker."""
        tick = self.overview.tick
        return {
            "as_of": self.as_of,
            "clock": formatters.clock(self.as_of, self.as_of),
            "tick": tick,
            "engine": self.engine,
            "heard": None if tick is None else formatters.clock(tick, self.as_of),
            "unread": self.unread,
        }

    def whole(self) -> dict[str, Any]:
        """The counts and the sentence."""
        seen = self.overview
        queues = [
            {"name": queue.name, "jobs": queue.jobs, "paused_until": queue.paused_until, "workers": queue.workers}
            for queue in seen.queues
        ]
        return {
            **self.alive(),
            "sentence": seen.sentence,
            "healthy": seen.healthy,
            "needs": len(seen.needs),
            "targets": seen.targets,
            "queues": queues,
            "workers": sum(worker.there for worker in seen.workers),
        }

    def differs(self) -> tuple[Any, ...]:
        """What makes a page worth fetching again. Ages are no part of it: they grow without any news."""
        seen = self.overview
        return (
            seen.targets,
            [(each.name, each.token, each.next_try, each.held_keys) for each in seen.attention],
            [(need.kind, need.subject, need.count) for need in seen.needs],
            [(queue.name, queue.jobs, queue.paused_until, queue.workers) for queue in seen.queues],
            [(worker.id, worker.there, worker.stopping) for worker in seen.workers],
            self.unread,
            self.strips,
            self.bulks,
        )


def take_snapshot(tx: Tx, after: int | None) -> Snapshot:
    """A look, with the gate events *after* that one; None for none of them."""
    events: list[TargetEvent] = []
    if after is not None:
        events = table.since(tx, after)
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


def changes(before: Snapshot | None, seen: Snapshot, site: Site | None = None) -> Iterator[Message]:
    """What is to be told after a look; after the first one everything may be new."""
    for event in seen.events:
        about = event.as_json()
        yield "happened", {**about, "fields": shown_value(about["fields"]), "as_of": seen.as_of}, None
    for id_, line in sorted(seen.notices.items()):
        if before is not None and before.notices.get(id_) != line:
            about = {**describe_line(line, site), "unread_count": seen.unread, "as_of": seen.as_of}
            yield "notice", about, seen.audience(line)
    if before is None or before.differs() != seen.differs():
        yield "now", seen.whole(), None


def describe_line(line: NoticeLine, site: Site | None = None) -> dict[str, Any]:
    """A notice as it is shown beside a page."""
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


# One thread looks at the store for all who follow: at once when something was written, and now and then anyway.

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
            watch = store_open.watcher(self._site.queue.store)
        except StoreError:
            return
        if watch is not None:
            watch(self._news.set, self._stop)
