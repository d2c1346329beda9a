"""`/bulk` and `/actions`: one action for all matching jobs, after a confirmation page, and its progress."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Form, Query, Request, Response
from fastapi.responses import RedirectResponse

from tidegate.accounts.access import Permission
from tidegate.audit import Actor
from tidegate.errors import NotFound
from tidegate.jobs import settle
from tidegate.jobs.bulk import service, table
from tidegate.jobs.bulk.service import BulkOutcome
from tidegate.jobs.bulk.table import BulkItem, BulkOperation
from tidegate.jobs.listing import MAX_GROUPS
from tidegate.jobs.settle import FailureGroup
from tidegate.store.base import ResultPage, Tx, now_of
from tidegate.web.auth import RIGHT_OF_BULK, require
from tidegate.web.bulk_runner import BulkRunner, run_bulk
from tidegate.web.pages import formatters, jobs
from tidegate.web.pages.formatters import many
from tidegate.web.pages.forms import Flash, act, answer, attempt, cursor_of, local_path, number_of
from tidegate.web.pages.jobs import Chosen
from tidegate.web.pages.render import page
from tidegate.web.site import site_of

# Announcement and result text by action.
EFFECTS = {
    "retry": (
        "They go to the back of their queues, and their attempts start again from one.",
        "A gate that is shut holds them as it holds the others.",
    ),
    "cancel": (
        "Those that wait are cancelled at once; a job that runs is asked to stop, and may still end by itself.",
        "Jobs that wait for one of them fail.",
    ),
    "forget": (
        "They are removed with their history. This cannot be undone.",
        "What they held as unique is free again, so the same work can be put in anew.",
    ),
}
MAX_AT_ONCE = 500  # larger actions run in the background, with a progress page
DONE = {"retry": "queued again", "cancel": "cancelled or asked to stop", "forget": "forgotten"}

Field = Annotated[str, Form(max_length=2000)]


router = APIRouter()


@router.get("/bulk")
def confirm(
    request: Request,
    wanted: Annotated[Chosen, Depends(jobs.chosen)],
    action: Annotated[str, Query(max_length=20)] = "",
    back: Annotated[str, Query(max_length=2000)] = "",
) -> Response:
    site = site_of(request)
    if action not in EFFECTS:
        raise NotFound(f"there is no action {action!r}; there are: {', '.join(EFFECTS)}")
    try:
        count, group = site.read(lambda tx: (service.preview(tx, action, wanted.wanted), _group(tx, wanted.failure)))
    except ValueError as error:
        return answer(request, Flash(text=f"Nothing was changed: {error}.", tone="bad"), back, "/queue")
    otherwise = f"{site.base}/queue?{urlencode(wanted.query)}"
    return page(
        request,
        "bulk.html",
        wanted=wanted,
        action=action,
        count=count,
        effects=EFFECTS[action],
        back_to=local_path(back, otherwise),
        group=group,
    )


@router.post("/bulk")
def run(
    request: Request,
    action: Field = "",
    expected: Field = "",
    back: Field = "",
    queue: Field = "",
    state: Field = "",
    kind: Field = "",
    target: Field = "",
    code: Field = "",
    failure: Field = "",
    age: Field = "",
    reason: Annotated[str, Form(max_length=300)] = "",
) -> Response:
    site = site_of(request)
    wanted = jobs.chosen(queue=queue, state=state, kind=kind, target=target, code=code, failure=failure, age=age)
    require(request, RIGHT_OF_BULK.get(action, Permission.MANAGE))
    by = Actor.of(site.actor_of(request)).because(reason.strip())
    begun: list[int] = []

    def work() -> Flash:
        if action not in EFFECTS or not expected.isdecimal():
            raise ValueError("action, expected: both are needed; go back and choose again")
        if int(expected) > MAX_AT_ONCE:
            operation = _bulks(request).start(action, wanted.wanted, by, int(expected))
            begun.extend([] if operation is None else [operation.id])
            return _outcome_flash(action, BulkOutcome(0))
        outcome = run_bulk(site, action, wanted.wanted, by, int(expected))
        if outcome.refused and outcome.bulk is not None:
            begun.append(outcome.bulk)
        return _outcome_flash(action, outcome)

    flash = attempt(work)
    if begun:
        return RedirectResponse(f"{site.base}/actions/{begun[0]}?{urlencode({'back': back})}", 303)
    return answer(request, flash, back, f"/queue?{urlencode(wanted.query)}")


def _group(tx: Tx, failure: str) -> FailureGroup | None:
    """Return the failure group of the jobs, if it is one that is listed."""
    return (
        next((group for group in settle.groups(tx, MAX_GROUPS) if group.failure == failure), None) if failure else None
    )


def _bulks(request: Request) -> BulkRunner:
    runner = request.app.state.bulks
    assert isinstance(runner, BulkRunner)  # noqa: S101 - `build` put it there
    return runner


def _outcome_flash(action: str, outcome: BulkOutcome) -> Flash:
    return Flash(text=f"{many(outcome.changed, 'job')} {'was' if outcome.changed == 1 else 'were'} {DONE[action]}.")


# -- /actions ----------------------------------------------------------------------------------------------------------
#
# All bulk actions, and one with its progress and the result of each job.

# By state: label, icon, tone.
STATE_LABELS: Mapping[str, tuple[str, str, str]] = {
    table.RUNNING: ("Under way", "play", "busy"),
    table.DONE: ("Done", "check", "good"),
    table.CANCELLED: ("Cancelled", "stop", "calm"),
    table.FAILED: ("Failed", "cross", "bad"),
}
# By action: label while running, label when done.
VERBS: Mapping[str, tuple[str, str]] = {
    "retry": ("Retrying", "Retried"),
    "cancel": ("Cancelling", "Cancelled"),
    "forget": ("Forgetting", "Forgot"),
}


@router.get("/actions")
def show(request: Request, cursor: Annotated[str, Query(max_length=40)] = "") -> Response:
    operations = site_of(request).read(lambda tx: cursor_of(cursor, lambda at: service.list_operations(tx, cursor=at)))
    return page(
        request, "actions.html", seen=operations, looks=STATE_LABELS, titled=operation_title, words=jobs.words_of
    )


@router.get("/actions/{id_}")
def watch(
    request: Request,
    id_: str,
    back: Annotated[str, Query(max_length=2000)] = "",
    outcome: Annotated[str, Query(max_length=20)] = "",
    cursor: Annotated[str, Query(max_length=40)] = "",
) -> Response:
    refused_only = outcome == table.REFUSED

    def look(tx: Tx) -> tuple[BulkOperation, ResultPage[BulkItem], float]:
        operation = service.require(tx, _number(id_))
        items = cursor_of(cursor, lambda at: service.items(tx, operation.id, refused_only=refused_only, cursor=at))
        return operation, items, now_of(tx)

    operation, items, now = site_of(request).read(look)
    return page(
        request,
        "action.html",
        one=operation,
        items=items,
        looks=STATE_LABELS,
        titled=operation_title,
        left=operation.left(now),
        now=now,
        words=jobs.words_of(operation.filter),
        told_so_far=_progress_text(operation),
        refused_only=refused_only,
        back_to=local_path(back, ""),
        kept=_has_all_results(operation),
    )


@router.post("/actions/{id_}/cancel")
def cancel(request: Request, id_: str, back: Annotated[str, Form(max_length=2000)] = "") -> Response:
    site = site_of(request)

    def work(tx: Tx) -> Flash:
        operation = service.cancel(tx, _number(id_), site.actor_of(request))
        return Flash(text=f"Bulk action {operation.id} was cancelled: {operation.says}.", tone="warn")

    return answer(request, act(site, work), back, "/actions", id_)


def operation_title(operation: BulkOperation) -> str:
    """Return a short title."""
    count = operation.expected if operation.running else operation.changed
    return f"{VERBS[operation.action][not operation.running]} {formatters.many(count, 'job')}"


def _progress_text(operation: BulkOperation) -> str:
    verb = "was" if operation.changed == 1 else "were"
    text = f"{formatters.many(operation.changed, 'job')} {verb} {DONE[operation.action]}."
    if operation.refused:
        text += f" {formatters.many(operation.refused, 'job')} stayed as before."
    return text


def _has_all_results(operation: BulkOperation) -> bool:
    """Whether the result of every job is stored."""
    return operation.changed <= table.MAX_CHANGED and operation.refused <= table.MAX_REFUSED


def _number(id_: str) -> int:
    number = number_of(id_)
    if number is None:
        raise NotFound("there is no such bulk action")
    return number
