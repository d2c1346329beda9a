"""`/notices`: what a person should read, once per episode, and saying that it was read."""

from __future__ import annotations

from functools import partial
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Form, Path, Query, Request, Response

from tidegate.ops import notices
from tidegate.ops.notices import NoticeLine
from tidegate.web.pages.paging import cursor_of
from tidegate.web.pages.rendering import page
from tidegate.web.pages.saying import Said, act, answer
from tidegate.web.pages.times import many
from tidegate.web.site import Site

_MOST = 50
LEVELS = {
    "error": ("bad", "alert"),
    "warning": ("warn", "info"),
    "success": ("good", "check"),
    "info": ("calm", "info"),
}
_PLACES = {"target": "/targets/", "queue": "/queue/", "job": "/jobs/"}

Field = Annotated[str, Form(max_length=2000)]


def router(site: Site) -> APIRouter:
    found = APIRouter()

    @found.get("/notices")
    def show(
        request: Request,
        unread: Annotated[str, Query(max_length=5)] = "",
        cursor: Annotated[str, Query(max_length=500)] = "",
    ) -> Response:
        listed = site.read(
            lambda tx: cursor_of(
                cursor, lambda given: notices.listed(tx, unread_only=bool(unread), cursor=given, most=_MOST)
            )
        )
        return page(
            request, "notices.html", listed=listed, only_unread=bool(unread), levels=LEVELS,
            paged=bool(cursor), newest=max((line.id for line in listed.items), default=0),
            place=partial(place_of, site=site),
        )  # fmt: skip

    @found.post("/notices/{id_}/read")
    def read(request: Request, id_: Annotated[int, Path(ge=1, le=2**62)], back: Field = "") -> Response:
        def say(was: bool) -> Said:
            return Said(text="The notice is marked as read.") if was else Said(text="It was read already.", tone="warn")

        said = act(site, lambda tx: notices.acknowledge(tx, id_, site.actor_of(request)), say)
        return answer(request, said, back, "/notices")

    @found.post("/notices/read")
    def read_all(request: Request, newest: Annotated[int, Form(ge=0, le=2**62)] = 0, back: Field = "") -> Response:
        said = act(
            site, lambda tx: notices.acknowledge_all(tx, newest, site.actor_of(request)),
            lambda n: Said(text=f"{many(n, 'notice')} marked as read."),
        )  # fmt: skip
        return answer(request, said, back, "/notices")

    return found


def place_of(line: NoticeLine, site: Site | None = None) -> str:
    """Where what a notice is about has its page; empty when it has none.

    What an application tells under its own name, or of a target of its own, is on its page; and on a page of its own
    if it has one for each key.
    """
    paths = [
        page.path
        for there in (site.apps if site else ())
        if line.name in (there.app.name, *there.app.targets)
        for page in there.app.pages
    ]
    if line.subject == "target" and paths:
        each = next((path for path in paths if path.endswith("/{id}")), None)
        return each.replace("{id}", quote(line.key, safe="")) if each and line.key else paths[0]
    return _PLACES[line.subject] + quote(line.name, safe="") if line.subject in _PLACES else ""
