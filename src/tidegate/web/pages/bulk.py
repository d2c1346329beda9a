"""`/bulk`: the same thing done to all jobs that match, after a page that says how many and what will happen."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Form, Query, Request, Response
from fastapi.responses import RedirectResponse

from tidegate.core.actor import Actor
from tidegate.errors import NotFound
from tidegate.ops import bulk
from tidegate.ops.bulk import BulkOutcome
from tidegate.ops.failures import MAX_GROUPS
from tidegate.ops.rights import Permission
from tidegate.store import failures
from tidegate.store.failures import FailureGroup
from tidegate.store.tx import Tx
from tidegate.web.access import RIGHT_OF_BULK, require
from tidegate.web.bulk import BulkRunner, run_bulk
from tidegate.web.pages import filtering
from tidegate.web.pages.filtering import Chosen
from tidegate.web.pages.rendering import page
from tidegate.web.pages.saying import Flash, answer, attempt, local_path
from tidegate.web.pages.times import many
from tidegate.web.site import site_of

# What will happen, by action; and what is said when it has.
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
MAX_AT_ONCE = 500  # more than these are done in the background, with a page that says how far it is
DONE = {"retry": "queued again", "cancel": "cancelled or asked to stop", "forget": "forgotten"}

Field = Annotated[str, Form(max_length=2000)]


router = APIRouter()


@router.get("/bulk")
def confirm(
    request: Request,
    wanted: Annotated[Chosen, Depends(filtering.chosen)],
    action: Annotated[str, Query(max_length=20)] = "",
    back: Annotated[str, Query(max_length=2000)] = "",
) -> Response:
    site = site_of(request)
    if action not in EFFECTS:
        raise NotFound(f"there is no action {action!r}; there are: {', '.join(EFFECTS)}")
    try:
        count, group = site.read(lambda tx: (bulk.preview(tx, action, wanted.wanted), _group(tx, wanted.failure)))
    except ValueError as error:
        return answer(request, Flash(text=f"Nothing was changed: {error}.", tone="bad"), back, "/queue")
    otherwise = f"{site.base}/queue?{urlencode(wanted.query)}"
    return page(
        request, "bulk.html", wanted=wanted, action=action, count=count, effects=EFFECTS[action],
        back_to=local_path(back, otherwise), group=group,
    )  # fmt: skip


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
    wanted = filtering.chosen(
        queue=queue, state=state, kind=kind, target=target, code=code, failure=failure, age=age
    )  # fmt: skip
    require(request, RIGHT_OF_BULK.get(action, Permission.MANAGE))
    by = Actor.of(site.actor_of(request)).because(reason.strip())
    begun: list[int] = []

    def work() -> Flash:
        if action not in EFFECTS or not expected.isdecimal():
            raise ValueError("action, expected: both are needed; go back and choose again")
        if int(expected) > MAX_AT_ONCE:
            one = _bulks(request).start(action, wanted.wanted, by, int(expected))
            begun.extend([] if one is None else [one.id])
            return _outcome_flash(action, BulkOutcome(0))
        outcome = run_bulk(site, action, wanted.wanted, by, int(expected))
        if outcome.refused and outcome.bulk is not None:
            begun.append(outcome.bulk)
        return _outcome_flash(action, outcome)

    said = attempt(work)
    if begun:
        return RedirectResponse(f"{site.base}/actions/{begun[0]}?{urlencode({'back': back})}", 303)
    return answer(request, said, back, f"/queue?{urlencode(wanted.query)}")


def _group(tx: Tx, failure: str) -> FailureGroup | None:
    """The group of failures that the jobs are of, if it is one of those that people see."""
    return (
        next((group for group in failures.groups(tx, MAX_GROUPS) if group.failure == failure), None)
        if failure
        else None
    )


def _bulks(request: Request) -> BulkRunner:
    found = request.app.state.bulks
    assert isinstance(found, BulkRunner)  # noqa: S101 - `build` put it there
    return found


def _outcome_flash(action: str, outcome: BulkOutcome) -> Flash:
    return Flash(text=f"{many(outcome.changed, 'job')} {'was' if outcome.changed == 1 else 'were'} {DONE[action]}.")
