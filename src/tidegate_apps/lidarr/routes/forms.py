"""What people do on the page: forms that work without script; and the way into Lidarr."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import RedirectResponse

from tidegate.apps import Installed
from tidegate.errors import NotThere, Refused
from tidegate.web import Right, current_user, needs, problem, said
from tidegate_apps.lidarr import acting
from tidegate_apps.lidarr.badges import LOOKS
from tidegate_apps.lidarr.settings import Settings

Number = Annotated[int, Path(ge=1, le=2**53)]


def router(there: Installed[Settings]) -> APIRouter:
    found = APIRouter()

    @found.post("/lidarr/wake")
    @needs(Right.PUT_IN)
    def wake(request: Request) -> Response:
        try:
            made = acting.wake_now(there, current_user(request))
        except Refused as error:
            return said(request, "/lidarr", str(error), tone="bad")
        return said(request, "/lidarr", "It is woken now." if made.created else "It is being woken already.")

    @found.post("/lidarr/look")
    @needs(Right.PUT_IN)
    def look(request: Request) -> Response:
        try:
            made = acting.look_now(there, current_user(request))
        except Refused as error:
            return said(request, "/lidarr", str(error), tone="bad")
        now, already = (
            "Everything in the library is looked for in Lidarr now.",
            "It is looking already, or goes on soon.",
        )
        return said(request, "/lidarr", now if made.created else already)

    @found.post("/lidarr/retry")
    @needs(Right.RETRY)
    def retry_all(request: Request) -> Response:
        n = acting.retry_all(there, current_user(request))
        return said(request, "/lidarr", f"{n} put back into the queue." if n else "There is nothing to retry.")

    @found.post("/lidarr/{id}/retry")
    @needs(Right.RETRY)
    def retry(request: Request, id: Number) -> Response:  # noqa: A002 - as in the path
        try:
            entry = acting.retry(there, id, current_user(request))
        except (NotThere, Refused) as error:
            return said(request, "/lidarr", f"{str(error).capitalize()}.", tone="bad")
        words = f"{entry.name} is in the queue again." if entry.stage != "blocked" else (
            f"{entry.name} is in the queue again, behind its artist."
        )  # fmt: skip
        return said(request, "/lidarr", words)

    @found.post("/lidarr/{id}/cancel")
    @needs(Right.CANCEL)
    def cancel(request: Request, id: Number) -> Response:  # noqa: A002
        try:
            entry = acting.cancel(there, id, current_user(request))
        except (NotThere, Refused) as error:
            return said(request, "/lidarr", f"{str(error).capitalize()}.", tone="bad")
        return said(request, "/lidarr", f"{entry.name} is cancelled, and is not sent unless you undo that.")

    @found.get("/lidarr/to/{kind}/{id}")
    @needs(Right.SEE)
    def into_lidarr(kind: str, id: Number) -> Response:  # noqa: A002
        """The page of Lidarr about it; there is none while it is queued, or was given up."""
        row = there.db.one("shown", kind=kind, entity_id=id)
        if row is None or row[5] is None or not LOOKS[row[5]].link or not row[7]:
            return problem(404, "not_there", detail="Lidarr has no page about this.")
        page = "artist" if kind == "artist" else "album"
        return RedirectResponse(f"{there.settings.base_url}/{page}/{quote(row[7], safe='')}", 302)

    return found
