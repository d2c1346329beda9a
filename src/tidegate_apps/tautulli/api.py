"""The API `/api/v1/tautulli`: stored history, status, sync now; and the form of the page."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field, PlainSerializer, WithJsonSchema

from tidegate.apps import DbTx, Installed
from tidegate.errors import Rejected
from tidegate.jobs import Enqueued
from tidegate.web import Permission, Problem, current_user, redirect_with_flash, requires
from tidegate_apps.tautulli import store
from tidegate_apps.tautulli.client import TARGET
from tidegate_apps.tautulli.jobs import BY_PERSON
from tidegate_apps.tautulli.settings import TautulliSettings
from tidegate_apps.tautulli.store import Freshness
from tidegate_apps.tautulli.sync import Synced

# -- response models: ISO 8601 times in UTC, durations in seconds ------------------------------------------------------


def iso(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


Moment = Annotated[
    float,
    PlainSerializer(iso, return_type=str, when_used="unless-none"),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]


class PlayShown(BaseModel):
    """One play."""

    row_id: int
    started: Moment
    stopped: Moment | None
    duration: int
    paused: int
    user: str
    user_id: int | None
    platform: str
    product: str
    player: str
    media_type: str
    rating_key: int | None
    title: str = Field(description="The series, the artist or the film.")
    full_title: str
    year: int | None
    transcode_decision: str
    percent_complete: int | None
    watched_status: float | None


class HistoryShown(BaseModel):
    """A page of the stored history. With *stale_since*, nothing newer than that is known."""

    items: list[PlayShown]
    next_cursor: str | None
    synced_at: Moment | None
    stale_since: Moment | None


class BreakerShown(BaseModel):
    """The breaker of the calls, as the process that syncs knows it."""

    name: str
    state: str
    since: Moment | None
    next_trial: Moment | None
    failures_in_a_row: int
    requests: int
    successes: int
    failures: int


class StatusShown(BaseModel):
    """How the sync is."""

    url: str
    plays: int
    synced_at: Moment | None
    stale_since: Moment | None
    tried_at: Moment | None
    outcome: str | None
    code: str | None
    message: str | None
    breaker: BreakerShown


def breaker_shown(name: str, fresh: Freshness) -> BreakerShown:
    said = fresh.state.breaker
    return BreakerShown(
        name=name,
        state=fresh.breaker,
        since=said.get("since"),
        next_trial=fresh.next_trial,
        failures_in_a_row=said.get("failures_in_a_row", 0),
        requests=said.get("requests", 0),
        successes=said.get("successes", 0),
        failures=said.get("failures", 0),
    )


def status_shown(name: str, url: str, fresh: Freshness, plays: int) -> StatusShown:
    state = fresh.state
    return StatusShown(
        url=url,
        plays=plays,
        synced_at=state.synced_at,
        stale_since=fresh.stale_since,
        tried_at=state.tried_at,
        outcome=state.outcome,
        code=state.code,
        message=state.message,
        breaker=breaker_shown(name, fresh),
    )


MAX_ID = 2**53 - 1
Text = Annotated[str, Query(max_length=300, pattern=r"^[^\x00]*$")]


def routes(app: Installed[TautulliSettings]) -> APIRouter:
    if app.settings.url:
        app.jobs.api.begin()
    router = APIRouter()
    router.include_router(_api(app), prefix="/api/v1/tautulli", tags=["tautulli"])
    router.include_router(_forms(app), include_in_schema=False)
    return router


def _api(app: Installed[TautulliSettings]) -> APIRouter:
    router = APIRouter()

    @router.get("/history")
    @requires(Permission.SEE)
    def tautulli_history(
        user: Text = "",
        title: Text = "",
        platform: Text = "",
        media_type: Text = "",
        after: datetime | None = None,
        before: datetime | None = None,
        limit: Annotated[int, Query(ge=1, le=500)] = 100,
        cursor: Annotated[str, Query(max_length=40)] = "",
    ) -> HistoryShown:
        """What is stored, the newest first. It is served while Tautulli is away, and `stale_since` says since when."""
        started, row_id = _place(cursor) if cursor else (_moment(before, MAX_ID), 0)
        asked = {
            "started": started,
            "row_id": row_id,
            "since": _moment(after, -MAX_ID),
            "person": user,
            "show": title,
            "platform": platform,
            "media_type": media_type,
            "n": limit + 1,
        }
        fresh, rows = app.db.read(
            lambda tx: (
                store.freshness(tx, app.settings, app.queue.clock.now()),
                tx.all("plays", **asked),
            )
        )
        following = f"{rows[limit - 1][1]}_{rows[limit - 1][0]}" if len(rows) > limit else None
        return HistoryShown(
            items=[
                PlayShown.model_validate(dict(zip(PlayShown.model_fields, row, strict=True))) for row in rows[:limit]
            ],
            next_cursor=following,
            synced_at=fresh.state.synced_at,
            stale_since=fresh.stale_since,
        )

    @router.get("/status")
    @requires(Permission.SEE)
    def tautulli_status() -> StatusShown:
        """How the sync is, and its breaker."""
        fresh, total = app.db.read(
            lambda tx: (store.freshness(tx, app.settings, app.queue.clock.now()), tx.scalar(int, "total"))
        )
        return status_shown(TARGET, app.settings.url, fresh, total)

    @router.post("/sync", status_code=202)
    @requires(Permission.PUT_IN)
    def tautulli_sync(request: Request) -> dict[str, int]:
        """Syncs now, whatever the breaker says: the first call is a trial."""
        if not app.settings.url:
            raise Problem("refused", "No address of Tautulli is set; set tautulli.url first.")
        return {"job": sync_now(app, current_user(request)).id}

    return router


def _forms(app: Installed[TautulliSettings]) -> APIRouter:
    router = APIRouter()

    @router.post("/tautulli/sync")
    @requires(Permission.PUT_IN)
    def sync(request: Request) -> Response:
        if not app.settings.url:
            return redirect_with_flash(
                request, "/tautulli", "Nothing is synced: no address of Tautulli is set.", tone="bad"
            )
        sync_now(app, current_user(request))
        return redirect_with_flash(request, "/tautulli", "Tautulli is asked now. What is new appears here.")

    return router


def sync_now(app: Installed[TautulliSettings], by: str) -> Enqueued[Synced]:
    """Insert a sync job. It replaces one that waits for its time; a running one is returned instead."""
    made = app.db.write(lambda tx: _put_in(app, tx, by))
    if made.created or app.queue.get(made.id).state != "queued":
        return made
    try:
        app.queue.cancel(made.id)
    except Rejected:  # it has started or ended meanwhile
        return made
    return app.db.write(lambda tx: _put_in(app, tx, by))


def _put_in(app: Installed[TautulliSettings], tx: DbTx, by: str) -> Enqueued[Synced]:
    """Insert the job and its audit entry."""
    made: Enqueued[Synced] = app.jobs.sync.options(connection=tx).enqueue(BY_PERSON)
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
        position = int(started), int(row_id)
    except ValueError as error:
        raise Problem("bad_cursor") from error
    if not all(-MAX_ID <= value <= MAX_ID for value in position):
        raise Problem("bad_cursor")
    return position
