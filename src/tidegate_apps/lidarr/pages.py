"""The pages: submission queue with its status, and states of tracks."""

from __future__ import annotations

from typing import Annotated, NamedTuple
from urllib.parse import quote

from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import RedirectResponse

from tidegate.apps import DbTx, Installed
from tidegate.errors import NotFound, Rejected
from tidegate.web import Permission, current_user, number_of, page, problem, redirect_with_flash, requires
from tidegate_apps.lidarr import service
from tidegate_apps.lidarr.models import BADGE_STYLES, TABS, SubmissionEntry
from tidegate_apps.lidarr.settings import LidarrSettings

_PAGE_SIZE = 50
_MAX_UNSENDABLE = 20
MAX_COUNTED = 10_000  # per state; larger counts show a plus
WORDS = {
    "": "All",
    "queued": "Queued",
    "artist": "Waiting for an artist",
    "retrying": "Retrying",
    "gave_up": "Gave up",
    "submitted": "Submitted",
    "cancelled": "Cancelled",
}


class UnsendableRow(NamedTuple):
    kind: str
    entity_id: int
    name: str
    artist: str
    note: str


class EntityRow(NamedTuple):
    kind: str
    entity_id: int
    user_id: str
    name: str
    artist: str
    status: str | None
    lidarr_id: int | None
    mbid: str | None
    note: str


def show(request: Request, app: Installed[LidarrSettings]) -> Response:
    """Render the queue. Tabs and paging are plain links."""
    asked, now = request.query_params, app.queue.clock.now()
    tab = asked.get("state", "") if asked.get("state", "") in TABS else ""
    cursor = asked.get("after", "")[:80]

    def read(tx: DbTx) -> tuple[list[SubmissionEntry], dict[int, str], str | None, list[UnsendableRow]]:
        try:
            entries, following = service.list_entries(tx, tab, cursor, _PAGE_SIZE)
        except ValueError:
            entries, following = service.list_entries(tx, tab, "", _PAGE_SIZE)
        unsendable = tx.query_as(UnsendableRow, "unsendable", n=_MAX_UNSENDABLE + 1)
        return entries, service.causes_of(tx, entries), following, unsendable

    entries, causes, following, unsendable = app.db.read(read)
    standing = service.submit_status(app)
    held = service.held_words(standing.last, full=standing.full)
    return page(
        request,
        "lidarr/queue.html",
        standing=standing,
        tab=tab,
        words=WORDS,
        further=following,
        paged=bool(cursor),
        rows=[
            (
                entry,
                service.status_label(entry, now, held, causes.get(entry.id, "")),
                BADGE_STYLES.get(entry.lidarr_status or ""),
            )
            for entry in entries
        ],
        result=None if standing.last is None else service.woken_words(standing.last),
        looked=None if standing.look is None else service.look_words(standing.look),
        looking=None if standing.looking is None else service.looking_words(standing.looking.state),
        looks=BADGE_STYLES,
        unsendable=unsendable[:_MAX_UNSENDABLE],
        more_unsendable=len(unsendable) > _MAX_UNSENDABLE,
    )


def show_tracks(request: Request, app: Installed[LidarrSettings], limit: int = MAX_COUNTED) -> Response:
    """Render artists, albums and tracks with their state in Lidarr. Counts per state stop at *limit*."""
    asked = request.query_params
    kind = asked.get("kind", "track") if asked.get("kind") in ("artist", "album") else "track"
    status = asked.get("status", "") if asked.get("status", "") in BADGE_STYLES else ""
    after = number_of(asked.get("after", "")) or 0

    def read(tx: DbTx) -> tuple[list[EntityRow], dict[str, int]]:
        place = {"kind": kind, "after": after, "n": _PAGE_SIZE + 1}
        rows = (
            tx.query_as(EntityRow, "badges_in", status=status, **place)
            if status
            else tx.query_as(EntityRow, "badges", **place)
        )
        counts = {style: tx.scalar(int, "count_in", kind=kind, status=style, n=limit + 1) for style in BADGE_STYLES}
        return rows, {state: n for state, n in counts.items() if n}

    rows, counts = app.db.read(read)
    return page(
        request,
        "lidarr/tracks.html",
        kind=kind,
        chosen=status,
        rows=rows[:_PAGE_SIZE],
        looks=BADGE_STYLES,
        counts=counts,
        most=limit,
        further=rows[_PAGE_SIZE - 1].entity_id if len(rows) > _PAGE_SIZE else None,
        paged=bool(after),
    )


# -- forms, which work without JavaScript, and redirects to Lidarr -----------------------------------------------------

Number = Annotated[int, Path(ge=1, le=2**53)]


def forms_router(app: Installed[LidarrSettings]) -> APIRouter:
    router = APIRouter()

    @router.post("/lidarr/wake")
    @requires(Permission.PUT_IN)
    def wake(request: Request) -> Response:
        try:
            made = service.wake_now(app, current_user(request))
        except Rejected as error:
            return redirect_with_flash(request, "/lidarr", str(error), tone="bad")
        return redirect_with_flash(
            request, "/lidarr", "It is woken now." if made.created else "It is being woken already."
        )

    @router.post("/lidarr/look")
    @requires(Permission.PUT_IN)
    def look(request: Request) -> Response:
        try:
            made = service.look_now(app, current_user(request))
        except Rejected as error:
            return redirect_with_flash(request, "/lidarr", str(error), tone="bad")
        now, already = (
            "Everything in the library is looked for in Lidarr now.",
            "It is looking already, or goes on soon.",
        )
        return redirect_with_flash(request, "/lidarr", now if made.created else already)

    @router.post("/lidarr/retry")
    @requires(Permission.RETRY)
    def retry_all(request: Request) -> Response:
        n = service.retry_all(app, current_user(request))
        return redirect_with_flash(
            request, "/lidarr", f"{n} put back into the queue." if n else "There is nothing to retry."
        )

    @router.post("/lidarr/{id}/retry")
    @requires(Permission.RETRY)
    def retry(request: Request, id: Number) -> Response:  # noqa: A002 - as in the path
        try:
            entry = service.retry(app, id, current_user(request))
        except (NotFound, Rejected) as error:
            return redirect_with_flash(request, "/lidarr", f"{str(error).capitalize()}.", tone="bad")
        words = (
            f"{entry.name} is in the queue again."
            if entry.stage != "blocked"
            else (f"{entry.name} is in the queue again, behind its artist.")
        )
        return redirect_with_flash(request, "/lidarr", words)

    @router.post("/lidarr/{id}/cancel")
    @requires(Permission.CANCEL)
    def cancel(request: Request, id: Number) -> Response:  # noqa: A002
        try:
            entry = service.cancel(app, id, current_user(request))
        except (NotFound, Rejected) as error:
            return redirect_with_flash(request, "/lidarr", f"{str(error).capitalize()}.", tone="bad")
        return redirect_with_flash(
            request, "/lidarr", f"{entry.name} is cancelled, and is not sent unless you undo that."
        )

    @router.get("/lidarr/to/{kind}/{id}")
    @requires(Permission.SEE)
    def into_lidarr(kind: str, id: Number) -> Response:  # noqa: A002
        """Redirect to the entity's page in Lidarr; there is none while it is queued or after it failed."""
        shown = app.db.first(EntityRow, "shown", kind=kind, entity_id=id)
        if shown is None or shown.status is None or not BADGE_STYLES[shown.status].link or not shown.mbid:
            return problem(404, "not_there", detail="Lidarr has no page about this.")
        page = "artist" if kind == "artist" else "album"
        return RedirectResponse(f"{app.settings.base_url}/{page}/{quote(shown.mbid, safe='')}", 302)

    return router
