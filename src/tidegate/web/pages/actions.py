"""`/actions`: what was done to many jobs at once; one of them shows how far it is, and what became of each job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from fastapi import APIRouter, Form, Query, Request, Response

from tidegate.errors import NotFound
from tidegate.ops import bulk
from tidegate.ops.listing import ResultPage
from tidegate.store import bulk_rows
from tidegate.store.bulk_rows import BulkItem, BulkOperation
from tidegate.store.now import now_of
from tidegate.store.tx import Tx
from tidegate.web.pages import filtering, times
from tidegate.web.pages.bulk import DONE
from tidegate.web.pages.paging import cursor_of, number_of
from tidegate.web.pages.rendering import page
from tidegate.web.pages.saying import Flash, act, answer, local_path
from tidegate.web.site import site_of

# By state: the word, its icon, its tone.
STATE_LABELS: Mapping[str, tuple[str, str, str]] = {
    bulk_rows.RUNNING: ("Under way", "play", "busy"),
    bulk_rows.DONE: ("Done", "check", "good"),
    bulk_rows.CANCELLED: ("Cancelled", "stop", "calm"),
    bulk_rows.FAILED: ("Failed", "cross", "bad"),
}
# By action: while it is under way, after it.
VERBS: Mapping[str, tuple[str, str]] = {
    "retry": ("Retrying", "Retried"),
    "cancel": ("Cancelling", "Cancelled"),
    "forget": ("Forgetting", "Forgot"),
}


router = APIRouter()


@router.get("/actions")
def show(request: Request, cursor: Annotated[str, Query(max_length=40)] = "") -> Response:
    seen = site_of(request).read(lambda tx: cursor_of(cursor, lambda at: bulk.list_operations(tx, cursor=at)))
    return page(
        request, "actions.html", seen=seen, looks=STATE_LABELS, titled=operation_title, words=filtering.words_of
    )


@router.get("/actions/{id_}")
def watch(
    request: Request,
    id_: str,
    back: Annotated[str, Query(max_length=2000)] = "",
    outcome: Annotated[str, Query(max_length=20)] = "",
    cursor: Annotated[str, Query(max_length=40)] = "",
) -> Response:
    refused_only = outcome == bulk_rows.REFUSED

    def look(tx: Tx) -> tuple[BulkOperation, ResultPage[BulkItem], float]:
        one = bulk.require(tx, _number(id_))
        items = cursor_of(cursor, lambda at: bulk.items(tx, one.id, refused_only=refused_only, cursor=at))
        return one, items, now_of(tx)

    one, items, now = site_of(request).read(look)
    return page(
        request,
        "action.html",
        one=one,
        items=items,
        looks=STATE_LABELS,
        titled=operation_title,
        left=one.left(now),
        now=now,
        words=filtering.words_of(one.filter),
        told_so_far=_progress_text(one),
        refused_only=refused_only,
        back_to=local_path(back, ""),
        kept=_kept(one),
    )


@router.post("/actions/{id_}/cancel")
def cancel(request: Request, id_: str, back: Annotated[str, Form(max_length=2000)] = "") -> Response:
    site = site_of(request)

    def say(one: BulkOperation) -> Flash:
        return Flash(text=f"Bulk action {one.id} was cancelled: {one.says}.", tone="warn")

    said = act(site, lambda tx: bulk.cancel(tx, _number(id_), site.actor_of(request)), say)
    return answer(request, said, back, "/actions", id_)


def operation_title(one: BulkOperation) -> str:
    """What it is, in a few words."""
    return f"{VERBS[one.action][not one.running]} {times.many(one.expected if one.running else one.changed, 'job')}"


def _progress_text(one: BulkOperation) -> str:
    text = f"{times.many(one.changed, 'job')} {'was' if one.changed == 1 else 'were'} {DONE[one.action]}."
    if one.refused:
        text += f" {times.many(one.refused, 'job')} stayed as before."
    return text


def _kept(one: BulkOperation) -> bool:
    """Whether the outcome of every job is kept."""
    return one.changed <= bulk_rows.MAX_CHANGED and one.refused <= bulk_rows.MAX_REFUSED


def _number(id_: str) -> int:
    found = number_of(id_)
    if found is None:
        raise NotFound("there is no such bulk action")
    return found
