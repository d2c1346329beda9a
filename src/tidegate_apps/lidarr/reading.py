"""What pages, API and command read of the submission queue, in one look at the database."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tidegate.apps import DbTx, Installed
from tidegate_apps.lidarr.codes import TARGET
from tidegate_apps.lidarr.looks import woken_words
from tidegate_apps.lidarr.settings import LidarrSettings
from tidegate_apps.lidarr.states import ARTIST_CANCELLED, TABS, SubmissionEntry, counts_of, entry_of
from tidegate_apps.lidarr.wake import CycleReport

NEWEST = 2**53
_LOOK = ("at", "looked", "found", "queued", "message")
FIRST = (2000, 0)  # before every priority


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitStatus:
    """How the submission queue stands."""

    configured: bool
    counts: dict[str, int]  # by tab
    depth: int | None  # downloads in Lidarr, when it was last asked
    own: int  # albums that were sent and do not show there yet
    cap: int
    asked_at: float | None
    next_wake: float | None
    waking_since: float | None  # a wake is under way
    last: CycleReport | None
    look: tuple[Any, ...] | None  # when, how many were looked for, found and queued, and what kept it
    looking: tuple[str, float] | None  # "running" and since when, or "waiting" and until when it rests
    submit_interval: float

    @property
    def taken(self) -> int:
        return (self.depth or 0) + self.own

    @property
    def full(self) -> bool:
        return self.depth is not None and self.taken >= self.cap

    def _looking(self, state: str) -> float | None:
        return self.looking[1] if self.looking is not None and self.looking[0] == state else None

    def as_json(self) -> dict[str, Any]:
        counts = {name or "all": n for name, n in self.counts.items()}
        return {
            "configured": self.configured, "counts": counts, "queue_depth": self.depth, "own": self.own,
            "queue_max": self.cap, "asked_at": self.asked_at, "next_wake_at": self.next_wake,
            "waking_since": self.waking_since,
            "submit_interval": self.submit_interval,
            "last_look": None if self.look is None else dict(zip(_LOOK, self.look, strict=True)),
            "looking_since": self._looking("running"), "look_goes_on_at": self._looking("waiting"),
            "last_wake": None if self.last is None else {**self.last.as_json(), "result": woken_words(self.last)},
        }  # fmt: skip


def submit_status(app: Installed[LidarrSettings]) -> SubmitStatus:
    settings = app.settings
    full = app.queue.target(TARGET).fullness()
    look = app.db.one("last_look")
    last, under_way = app.jobs.waker.last(), app.db.one("under_way")
    next_wake = None if last is None else app.jobs.waker.next_at()
    return SubmitStatus(
        configured=settings.configured, counts=counts_of(app.db.all("counts")),
        depth=None if full is None else full.depth, own=0 if full is None or not settings.credits else full.own,
        cap=settings.queue_max, asked_at=None if full is None else full.at,
        next_wake=next_wake if settings.configured else None, last=last,
        waking_since=None if under_way is None else under_way[0],
        look=look, looking=_looking(app) if settings.configured else None,
        submit_interval=float(settings.submit_interval),
    )  # fmt: skip


def _looking(app: Installed[LidarrSettings]) -> tuple[str, float] | None:
    row = app.db.one("look_under_way")
    return None if row is None else (row[0], row[1])


def list_entries(tx: DbTx, tab: str, cursor: str, limit: int) -> tuple[list[SubmissionEntry], str | None]:
    """Some entries of a tab, and the cursor of what follows; ValueError for a cursor that is none."""
    rows = tx.all(TABS[tab], **_place(tab, cursor), n=limit + 1)
    found = [entry_of(row) for row in rows[:limit]]
    return found, _cursor(tab, found[-1]) if len(rows) > limit else None


def causes_of(tx: DbTx, entries: Iterable[SubmissionEntry]) -> dict[int, str]:
    """Why the artists were not accepted whose albums have failed with them, by the jobs of the albums."""
    failed = [{"job": entry.id} for entry in entries if entry.terminal_reason == "artist"]
    rows = tx.many("causes", failed) if failed else []
    return {job: message if state == "failed" else ARTIST_CANCELLED for job, state, message in rows}


def _place(tab: str, cursor: str) -> dict[str, Any]:
    try:
        if tab == "queued":
            first, _, second = cursor.partition(".")
            return dict(zip(("priority", "after"), (_number(first), _number(second)) if cursor else FIRST, strict=True))
        if tab == "retrying":
            due, _, after = cursor.partition("_")
            return {"due": _time(due) if cursor else 0.0, "after": _number(after) if cursor else 0}
        return {"below": _number(cursor) if cursor else NEWEST}
    except ValueError:
        raise ValueError("cursor: it is none of ours; give next_cursor of the answer before") from None


def _number(text: str) -> int:
    """ValueError for what no database has."""
    if not text.isascii() or not text.isdigit() or int(text) > NEWEST:
        raise ValueError
    return int(text)


def _time(text: str) -> float:
    found = float(text)
    if not 0 <= found <= NEWEST:
        raise ValueError
    return found


def _cursor(tab: str, last: SubmissionEntry) -> str:
    if tab == "queued":
        return f"{10 if last.entity_type == 'artist' else 0}.{last.id}"
    if tab == "retrying":
        return f"{last.due_at!r}_{last.id}"
    return str(last.id)
