"""Queries and actions of the submission queue, for pages, API and commands."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from tidegate.apps import DbTx, Installed
from tidegate.errors import NotFound, Rejected
from tidegate.jobs import Enqueued
from tidegate_apps.lidarr import submit_cycle
from tidegate_apps.lidarr.codes import PARENT_FAILED, TARGET
from tidegate_apps.lidarr.models import ARTIST_CANCELLED, STAGES, SubmissionEntry, SubmissionRow, counts_of, entry_of
from tidegate_apps.lidarr.notices import GIVEN_UP
from tidegate_apps.lidarr.settings import LidarrSettings
from tidegate_apps.lidarr.submit_cycle import CycleReport

# -- actions: retry, cancel, run a cycle, scan -------------------------------------------------------------------------

NOT_SET_UP = "Lidarr is not set up: give lidarr.base_url and lidarr.api_key."


def entry_at(app: Installed[LidarrSettings], job: int) -> SubmissionEntry:
    row = app.db.first(SubmissionRow, "row", job=job)
    if row is None:
        raise NotFound(f"there is no entry {job}")
    return entry_of(row)


def retry(app: Installed[LidarrSettings], job: int, by: str) -> SubmissionEntry:
    """Queue a failed or cancelled entry again, for an album also its artist if that is not queued.

    Raises Rejected for other states.
    """
    entry = entry_at(app, job)
    if not entry.gave_up and not entry.cancelled:
        raise Rejected(f"entry {job} is {entry.status}, and was not given up; there is nothing to retry")
    artists = app.db.scalars(int, "refused_parents", job=job, code=PARENT_FAILED)
    for artist in artists:
        app.queue.retry(artist, by=str(by))  # part of this action, so only in the history of the job
    alone = app.queue.retry(job, by=by)  # an album may already have come back with its artist
    app.db.write(lambda tx: _told(app, tx, "" if alone else by, len(artists) + 1))
    return entry_at(app, job)


def cancel(app: Installed[LidarrSettings], job: int, by: str) -> SubmissionEntry:
    """Cancel an entry. Albums that wait for a cancelled artist fail.

    Raises Rejected if it has ended or is being submitted.
    """
    entry = entry_at(app, job)
    if not entry.open:
        raise Rejected(f"entry {job} is {entry.status}, and is not waiting to be sent; there is nothing to cancel")
    if entry.stage == "running" or app.queue.cancel(job, by=by) != "cancelled":
        raise Rejected(f"entry {job} is being sent at the moment; wait for what comes of it")
    app.db.write(lambda tx: _told(app, tx))
    return entry_at(app, job)


def retry_all(app: Installed[LidarrSettings], by: str) -> int:
    """Retry all failed entries; return how many."""
    n, below = 0, 2**53
    while rows := app.db.query_as(SubmissionRow, "rows_failed", below=below, n=500):
        entries = [entry_of(row) for row in rows]
        # Albums that failed with their artist come back with it.
        n += sum(app.queue.retry(entry.id, by=str(by)) for entry in entries if entry.terminal_reason != "artist")
        below = entries[-1].id
    app.db.write(lambda tx: _told(app, tx, by if n else "", n))
    return n


def wake_now(app: Installed[LidarrSettings], by: str) -> Enqueued[object]:
    return _asked(app, lambda tx: app.jobs.wake_now.options(connection=tx).enqueue(), by, "woken now")


def look_now(app: Installed[LidarrSettings], by: str) -> Enqueued[object]:
    return _asked(
        app, lambda tx: app.jobs.look.options(connection=tx).enqueue(True), by, "the library is looked through"
    )


def append_entry(tx: DbTx, by: str, what: str) -> None:
    """Write an audit entry."""
    tx.noted(by, "target_asked", TARGET, became={"state": what})


def _asked(
    app: Installed[LidarrSettings], put: Callable[[DbTx], Enqueued[object]], by: str, what: str
) -> Enqueued[object]:
    """Insert a job unless it exists."""
    _set_up(app)

    def work(tx: DbTx) -> Enqueued[object]:
        made = put(tx)
        if made.created:
            append_entry(tx, by, what)
        return made

    return app.db.write(work)


def _set_up(app: Installed[LidarrSettings]) -> None:
    if not app.settings.configured:
        raise Rejected(NOT_SET_UP)


def _told(app: Installed[LidarrSettings], tx: DbTx, by: str = "", retried: int = 0) -> None:
    if by:
        tx.noted(by, "target_retried", TARGET, became={"jobs": retried})
    submit_cycle.reconcile(app.jobs.library, tx)
    if not tx.all("rows_failed", below=2**53, n=1):
        tx.settled(TARGET, GIVEN_UP)


# -- status labels and texts -------------------------------------------------------------------------------------------

_REASONS = {
    "permanent": "It was given up at once: it would fail again.",
    "artist": "A retry tries the artist again, too.",
}
_WORDS = {
    "ready": ("queued", "Queued", "In line for the next wake."),
    "running": ("running", "Being sent", ""),
    "blocked": ("blocked", "Waits for its artist", "It is sent once Lidarr has accepted the artist."),
    "done": ("done", "Submitted", ""),
    "cancelled": ("cancelled", "Cancelled", "A person has cancelled it; it is not sent unless that is undone."),
}


@dataclass(frozen=True, slots=True)
class EntryStatusLabel:
    """*token* is a job state of the server."""

    token: str
    word: str
    reason: str


def status_label(entry: SubmissionEntry, now: float, held: str = "", cause: str = "") -> EntryStatusLabel:
    """*held* says what blocks all entries at the moment, *cause* why the artist of this one was not accepted."""
    if entry.stage == "ready" and held:
        return EntryStatusLabel(*_WORDS["ready"][:2], held)
    if entry.stage == "waiting" and entry.retry_at is not None:
        count = f"({entry.attempts}/{entry.most_attempts})"
        left = entry.retry_at - now
        word = f"Retrying in {format_duration(left)} {count}" if left > 0 else f"Retrying at the next wake {count}"
        return EntryStatusLabel("retrying", word, entry.last_error or "")
    if entry.stage == "waiting":
        return EntryStatusLabel(
            "scheduled", "Held", "The metadata service behind Lidarr is down. Tidegate retries automatically."
        )
    if entry.stage == "failed":
        why = _REASONS.get(entry.terminal_reason or "", f"It was tried {entry.attempts} times.")
        error = f"{(entry.last_error or '').removesuffix('.')}: {cause}" if cause else entry.last_error or ""
        return EntryStatusLabel("failed", "Gave up", f"{error} {why}".strip())
    return EntryStatusLabel(*_WORDS[entry.stage])


def format_duration(seconds: float) -> str:
    """Return a duration for users: 40 s, 4 min, 2 h."""
    whole = max(1, math.ceil(seconds))
    if whole < 60:
        return f"{whole} s"
    return f"{math.ceil(whole / 60)} min" if whole < 5400 else f"{round(whole / 3600)} h"


class LastScan(NamedTuple):
    """When the last scan began, the numbers of scanned, found and queued entities, and what stopped it."""

    at: float
    looked: int
    found: int
    queued: int
    message: str


class CurrentScan(NamedTuple):
    """*state* is "running", and *at* its start, or "waiting" and when it resumes."""

    state: str
    at: float


def look_words(look: LastScan) -> str:
    """Return what the last scan did."""
    said = f"{look.looked} looked for, {look.found} found there, {look.queued} put into the queue."
    return f"{said} {look.message}".strip() if look.looked or not look.message else look.message


def looking_words(state: str) -> str:
    """Return the text before the time at which the scan started or will resume."""
    return {"running": "Under way, begun", "waiting": "It goes on by itself"}[state]


def held_words(last: CycleReport | None, *, full: bool) -> str:
    """Return what blocks ready entries; empty if they only wait for the next cycle."""
    if last is not None and last.outcome == "held":
        return f"Held: {last.message}"
    return "Lidarr is full; it goes once there is room." if full else ""


def woken_words(woken: CycleReport) -> str:
    """Return what a cycle did."""
    if woken.outcome == "nothing":
        return woken.message
    parts = [f"{woken.submitted} of {woken.eligible} were sent"]
    if woken.failed:
        parts.append(f"{woken.failed} failed")
    return f"{', '.join(parts)}. {woken.message}".strip()


NEWEST = 2**53
FIRST = (2000, 0)  # before every priority


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitStatus:
    """The status of the submission queue."""

    configured: bool
    counts: dict[str, int]  # by tab
    depth: int | None  # downloads in Lidarr at the last request
    own: int  # albums that were submitted and are not listed there yet
    cap: int
    asked_at: float | None
    next_wake: float | None
    waking_since: float | None  # start of the running cycle
    last: CycleReport | None
    look: LastScan | None
    looking: CurrentScan | None
    submit_interval: float

    @property
    def taken(self) -> int:
        return (self.depth or 0) + self.own

    @property
    def full(self) -> bool:
        return self.depth is not None and self.taken >= self.cap

    def _looking(self, state: str) -> float | None:
        return self.looking.at if self.looking is not None and self.looking.state == state else None

    def as_json(self) -> dict[str, object]:
        counts = {name or "all": n for name, n in self.counts.items()}
        return {
            "configured": self.configured,
            "counts": counts,
            "queue_depth": self.depth,
            "own": self.own,
            "queue_max": self.cap,
            "asked_at": self.asked_at,
            "next_wake_at": self.next_wake,
            "waking_since": self.waking_since,
            "submit_interval": self.submit_interval,
            "last_look": None if self.look is None else self.look._asdict(),
            "looking_since": self._looking("running"),
            "look_goes_on_at": self._looking("waiting"),
            "last_wake": None if self.last is None else {**self.last.as_json(), "result": woken_words(self.last)},
        }


def submit_status(app: Installed[LidarrSettings]) -> SubmitStatus:
    settings = app.settings
    full = app.queue.target(TARGET).fullness()
    last: CycleReport | None = app.jobs.waker.last()
    next_wake = None if last is None else app.jobs.waker.next_at()
    return SubmitStatus(
        configured=settings.configured,
        counts=counts_of({stage: int(n) for stage, n in app.db.all("counts")}),
        depth=None if full is None else full.depth,
        own=0 if full is None or not settings.credits else full.own,
        cap=settings.queue_max,
        asked_at=None if full is None else full.at,
        next_wake=next_wake if settings.configured else None,
        last=last,
        waking_since=app.db.scalar_or_none(float, "under_way"),
        look=app.db.first(LastScan, "last_look"),
        looking=app.db.first(CurrentScan, "look_under_way") if settings.configured else None,
        submit_interval=float(settings.submit_interval),
    )


def list_entries(tx: DbTx, tab: str, cursor: str, limit: int) -> tuple[list[SubmissionEntry], str | None]:
    """Return a page of entries of a tab, and the next cursor. Raises ValueError for an invalid cursor."""
    statement = f"rows_{STAGES[tab]}" if tab else "rows"
    rows = tx.query_as(SubmissionRow, statement, **_place(tab, cursor), n=limit + 1)
    entries = [entry_of(row) for row in rows[:limit]]
    return entries, _cursor(tab, entries[-1]) if len(rows) > limit else None


def causes_of(tx: DbTx, entries: Iterable[SubmissionEntry]) -> dict[int, str]:
    """Return why artists were not accepted, by the jobs of their failed albums."""
    failed = [{"job": entry.id} for entry in entries if entry.terminal_reason == "artist"]
    rows = tx.many("causes", failed) if failed else []
    return {job: message if state == "failed" else ARTIST_CANCELLED for job, state, message in rows}


def _place(tab: str, cursor: str) -> dict[str, float]:
    try:
        if tab == "queued":
            first, _, second = cursor.partition(".")
            return dict(zip(("priority", "after"), (_number(first), _number(second)) if cursor else FIRST, strict=True))
        if tab == "retrying":
            due, _, after = cursor.partition("_")
            return {"due": _time(due) if cursor else 0.0, "after": _number(after) if cursor else 0}
        return {"below": _number(cursor) if cursor else NEWEST}
    except ValueError:
        raise ValueError("cursor: it is not valid; give next_cursor of the response before") from None


def _number(text: str) -> int:
    """Return the integer. Raises ValueError if no database could hold it."""
    if not text.isascii() or not text.isdigit() or int(text) > NEWEST:
        raise ValueError
    return int(text)


def _time(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds <= NEWEST:
        raise ValueError
    return seconds


def _cursor(tab: str, last: SubmissionEntry) -> str:
    if tab == "queued":
        return f"{10 if last.entity_type == 'artist' else 0}.{last.id}"
    if tab == "retrying":
        return f"{last.due_at!r}_{last.id}"
    return str(last.id)
