"""How everything stands at one look, as a page that is open needs to know it, and what is new since the look before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tidegate.face.app import StatusStrip
from tidegate.ops import accounts, happenings, notices
from tidegate.ops.masking import shown_value
from tidegate.ops.notices import NoticeLine
from tidegate.ops.overview import Overview, overview
from tidegate.store import bulk_rows
from tidegate.store.gate_rows import TargetEvent
from tidegate.store.tx import Tx
from tidegate.web.pages import times
from tidegate.web.pages.notices import LEVELS, place_of
from tidegate.web.site import Site

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
            "as_of": self.as_of, "clock": times.clock(self.as_of, self.as_of), "tick": tick, "engine": self.engine,
            "heard": None if tick is None else times.clock(tick, self.as_of), "unread": self.unread,
        }  # fmt: skip

    def whole(self) -> dict[str, Any]:
        """The counts and the sentence."""
        seen = self.overview
        queues = [
            {"name": queue.name, "jobs": queue.jobs, "paused_until": queue.paused_until, "workers": queue.workers}
            for queue in seen.queues
        ]
        return {
            **self.alive(), "sentence": seen.sentence, "healthy": seen.healthy, "needs": len(seen.needs),
            "targets": seen.targets, "queues": queues, "workers": sum(worker.there for worker in seen.workers),
        }  # fmt: skip

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
        events = happenings.since(tx, after)
    newest = happenings.newest(tx) if after is None else max((event.id for event in events), default=after)
    return Snapshot(
        overview=overview(tx),
        unread=notices.unread(tx),
        notices={line.id: line for line in notices.list_notices(tx, limit=_NEWEST).items},
        waiting=tuple(
            line for line in notices.list_notices(tx, unread_only=True, limit=_NEWEST).items if line.open
        )[:_MAX_WAITING],
        events=tuple(events),
        last_event=newest,
        people=frozenset(user.name for user in accounts.users(tx)),
        bulks=bulk_rows.running(tx),
    )  # fmt: skip


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
        "id": line.id, "kind": line.kind, "level": line.level, "tone": tone, "icon": icon, "title": line.title,
        "message": f"{line.message} {line.advice}".strip(),
        "href": place_of(line, site.apps if site else ()) or "/notices",
        "subject": line.subject, "name": line.name, "created_at": line.created_at, "open": line.open,
        "unread": line.unread,
    }  # fmt: skip
