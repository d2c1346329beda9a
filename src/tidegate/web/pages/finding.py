"""`/find`: a job by its number, a target or a queue by its name; and paths that people guess."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import RedirectResponse

from tidegate.ops import reports
from tidegate.store import gate_rows, people
from tidegate.store.tx import Tx
from tidegate.web.pages.paging import number_of
from tidegate.web.pages.rendering import page
from tidegate.web.site import site_of

router = APIRouter()


@router.get("/find")
def find(request: Request, what: Annotated[str, Query(max_length=300)] = "") -> Response:
    site = site_of(request)
    text = what.strip()
    place = site.read(lambda tx: _place(tx, text)) if text else "/"
    if place:
        return RedirectResponse(site.base + place, 303)
    return page(request, "not_found.html", status=404, what=text)


@router.get("/jobs")
def jobs(request: Request) -> Response:
    return RedirectResponse(f"{site_of(request).base}/queue?{request.url.query}", 307)


@router.get("/queues/{name:path}")
def queue(request: Request, name: str) -> Response:
    return RedirectResponse(f"{site_of(request).base}/queue/{quote(name, safe='')}", 307)


def _place(tx: Tx, text: str) -> str:
    """Where it has its page: an exact match, else the list that it may be in; empty when nothing has that name."""
    number = number_of(text.removeprefix("#"))
    if number is not None and people.get(tx, number) is not None:
        return f"/jobs/{number}"
    if gate_rows.target(tx, text) is not None:
        return f"/targets/{quote(text, safe='')}"
    if any(each.name == text for each in reports.queues(tx)):
        return f"/queue/{quote(text, safe='')}"
    close = [row.name for row in gate_rows.targets(tx) if text.casefold() in row.name.casefold()]
    if len(close) == 1:
        return f"/targets/{quote(close[0], safe='')}"
    return f"/targets?name={quote(text, safe='')}" if close else ""
