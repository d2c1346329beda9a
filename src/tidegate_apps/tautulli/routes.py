"""`/api/v1/tautulli`: the stored history, how the sync is, and a sync now; and the form of the page."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from tidegate.apps import DbTx, Installed
from tidegate.errors import Refused
from tidegate.jobs import Enqueued
from tidegate.web import Problem, Right, current_user, needs, said
from tidegate_apps.tautulli import reading, shapes
from tidegate_apps.tautulli.codes import TARGET
from tidegate_apps.tautulli.handlers import BY_PERSON
from tidegate_apps.tautulli.settings import Settings
from tidegate_apps.tautulli.syncing import Synced

LARGEST = 2**53 - 1
Text = Annotated[str, Query(max_length=300, pattern=r"^[^\x00]*$")]


def routes(there: Installed[Settings]) -> APIRouter:
    if there.settings.url:
        there.jobs.api.begin()
    found = APIRouter()
    found.include_router(_api(there), prefix="/api/v1/tautulli", tags=["tautulli"])
    found.include_router(_forms(there), include_in_schema=False)
    return found


def _api(there: Installed[Settings]) -> APIRouter:
    found = APIRouter()

    @found.get("/history")
    @needs(Right.SEE)
    def tautulli_history(
        user: Text = "",
        title: Text = "",
        platform: Text = "",
        media_type: Text = "",
        after: datetime | None = None,
        before: datetime | None = None,
        limit: Annotated[int, Query(ge=1, le=500)] = 100,
        cursor: Annotated[str, Query(max_length=40)] = "",
    ) -> shapes.HistoryShown:
        """What is stored, the newest first. It is served while Tautulli is away, and `stale_since` says since when."""
        started, row_id = _place(cursor) if cursor else (_moment(before, LARGEST), 0)
        asked = {
            "started": started, "row_id": row_id, "since": _moment(after, -LARGEST), "person": user, "show": title,
            "platform": platform, "media_type": media_type, "n": limit + 1,
        }  # fmt: skip
        fresh, rows = there.db.read(
            lambda tx: (
                reading.freshness(tx, there.settings, there.queue.clock.now()),
                tx.all("plays", **asked),
            )
        )
        following = f"{rows[limit - 1][1]}_{rows[limit - 1][0]}" if len(rows) > limit else None
        return shapes.HistoryShown(
            items=[shapes.play_shown(row) for row in rows[:limit]], next_cursor=following,
            synced_at=fresh.state.synced_at, stale_since=fresh.stale_since,
        )  # fmt: skip

    @found.get("/status")
    @needs(Right.SEE)
    def tautulli_status() -> shapes.StatusShown:
        """How the sync is, and its breaker."""
        fresh, total = there.db.read(
            lambda tx: (reading.freshness(tx, there.settings, there.queue.clock.now()), tx.all("total")[0])
        )
        return shapes.status_shown(TARGET, there.settings.url, fresh, int(total[0]))

    @found.post("/sync", status_code=202)
    @needs(Right.PUT_IN)
    def tautulli_sync(request: Request) -> dict[str, int]:
        """Syncs now, whatever the breaker says: the first call is a trial."""
        if not there.settings.url:
            raise Problem("refused", "No address of Tautulli is set; set tautulli.url first.")
        return {"job": sync_now(there, current_user(request)).id}

    return found


def _forms(there: Installed[Settings]) -> APIRouter:
    found = APIRouter()

    @found.post("/tautulli/sync")
    @needs(Right.PUT_IN)
    def sync(request: Request) -> Response:
        if not there.settings.url:
            return said(request, "/tautulli", "Nothing is synced: no address of Tautulli is set.", tone="bad")
        sync_now(there, current_user(request))
        return said(request, "/tautulli", "Tautulli is asked now. What is new appears here.")

    return found


def sync_now(there: Installed[Settings], by: str) -> Enqueued[Synced]:
    """Puts a sync in. One that waits for its time makes room for it; one that runs is as good."""
    made = there.db.write(lambda tx: _put_in(there, tx, by))
    if made.created or there.queue.get(made.id).state != "queued":
        return made
    try:
        there.queue.cancel(made.id)
    except Refused:  # it has begun or ended meanwhile
        return made
    return there.db.write(lambda tx: _put_in(there, tx, by))


def _put_in(there: Installed[Settings], tx: DbTx, by: str) -> Enqueued[Synced]:
    """The job, and who asked for it."""
    made: Enqueued[Synced] = there.jobs.sync.options(connection=tx).enqueue(BY_PERSON)
    if made.created:
        tx.noted(by, "target_asked", TARGET, became={"state": "synced now"})
    return made


def _moment(given: datetime | None, otherwise: int) -> int:
    if given is None:
        return otherwise
    aware = given if given.tzinfo is not None else given.replace(tzinfo=UTC)
    return int(aware.timestamp())


def _place(cursor: str) -> tuple[int, int]:
    try:
        started, _, row_id = cursor.partition("_")
        found = int(started), int(row_id)
    except ValueError as error:
        raise Problem("bad_cursor") from error
    if not all(-LARGEST <= each <= LARGEST for each in found):
        raise Problem("bad_cursor")
    return found
