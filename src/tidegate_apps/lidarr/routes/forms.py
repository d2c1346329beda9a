"""What people do on the page: forms that work without script; and the way into Lidarr."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import RedirectResponse

from tidegate.apps import Installed
from tidegate.errors import NotFound, Rejected
from tidegate.web import Permission, current_user, problem, redirect_with_flash, requires
from tidegate_apps.lidarr import acting
from tidegate_apps.lidarr.badges import BADGE_STYLES
from tidegate_apps.lidarr.settings import LidarrSettings

Number = Annotated[int, Path(ge=1, le=2**53)]


def router(app: Installed[LidarrSettings]) -> APIRouter:
    found = APIRouter()

    @found.post("/lidarr/wake")
    @requires(Permission.PUT_IN)
    def wake(request: Request) -> Response:
        try:
            made = acting.wake_now(app, current_user(request))
        except Rejected as error:
            return redirect_with_flash(request, "/lidarr", str(error), tone="bad")
        return redirect_with_flash(
            request, "/lidarr", "It is woken now." if made.created else "It is being woken already."
        )

    @found.post("/lidarr/look")
    @requires(Permission.PUT_IN)
    def look(request: Request) -> Response:
        try:
            made = acting.look_now(app, current_user(request))
        except Rejected as error:
            return redirect_with_flash(request, "/lidarr", str(error), tone="bad")
        now, already = (
            "Everything in the library is looked for in Lidarr now.",
            "It is looking already, or goes on soon.",
        )
        return redirect_with_flash(request, "/lidarr", now if made.created else already)

    @found.post("/lidarr/retry")
    @requires(Permission.RETRY)
    def retry_all(request: Request) -> Response:
        n = acting.retry_all(app, current_user(request))
        return redirect_with_flash(
            request, "/lidarr", f"{n} put back into the queue." if n else "There is nothing to retry."
        )

    @found.post("/lidarr/{id}/retry")
    @requires(Permission.RETRY)
    def retry(request: Request, id: Number) -> Response:  # noqa: A002 - as in the path
        try:
            entry = acting.retry(app, id, current_user(request))
        except (NotFound, Rejected) as error:
            return redirect_with_flash(request, "/lidarr", f"{str(error).capitalize()}.", tone="bad")
        words = f"{entry.name} is in the queue again." if entry.stage != "blocked" else (
            f"{entry.name} is in the queue again, behind its artist."
        )  # fmt: skip
        return redirect_with_flash(request, "/lidarr", words)

    @found.post("/lidarr/{id}/cancel")
    @requires(Permission.CANCEL)
    def cancel(request: Request, id: Number) -> Response:  # noqa: A002
        try:
            entry = acting.cancel(app, id, current_user(request))
        except (NotFound, Rejected) as error:
            return redirect_with_flash(request, "/lidarr", f"{str(error).capitalize()}.", tone="bad")
        return redirect_with_flash(
            request, "/lidarr", f"{entry.name} is cancelled, and is not sent unless you undo that."
        )

    @found.get("/lidarr/to/{kind}/{id}")
    @requires(Permission.SEE)
    def into_lidarr(kind: str, id: Number) -> Response:  # noqa: A002
        """The page of Lidarr about it; there is none while it is queued, or was given up."""
        row = app.db.one("shown", kind=kind, entity_id=id)
        if row is None or row[5] is None or not BADGE_STYLES[row[5]].link or not row[7]:
            return problem(404, "not_there", detail="Lidarr has no page about this.")
        page = "artist" if kind == "artist" else "album"
        return RedirectResponse(f"{app.settings.base_url}/{page}/{quote(row[7], safe='')}", 302)

    return found
