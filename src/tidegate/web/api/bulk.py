"""/bulk-actions: one action for many jobs. Small ones run in the request, large ones in the background."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Path, Query, Request, Response
from pydantic import ConfigDict, Field, model_validator
from pydantic.json_schema import SkipJsonSchema

from tidegate.audit import Actor
from tidegate.jobs.bulk import service
from tidegate.jobs.bulk.service import MAX_LEFT, OtherNumber
from tidegate.jobs.bulk.table import BulkOperation
from tidegate.store.base import Tx, now_of
from tidegate.web.api import routing
from tidegate.web.api.idempotent import Acting, IdempotentRequest, idempotent, idempotent_later
from tidegate.web.api.job_models import JobFilter
from tidegate.web.api.models import WHOLE, Listed, Moment, RequestModel, ResponseModel, Why
from tidegate.web.api.routing import next_link, read, responses, shown
from tidegate.web.auth import RIGHT_OF_BULK, require
from tidegate.web.bulk_runner import BulkRunner, run_bulk
from tidegate.web.problems import Problem, wrong
from tidegate.web.site import site_of

router = routing.api("bulk-actions")

AT_ONCE = 200
_STATES = {name: ["", *action.states] for name, action in service.ACTIONS.items()}


def _schema(schema: dict[str, Any]) -> None:
    """Express the checks of the validators below in JSON Schema."""
    schema["allOf"] = [
        {"anyOf": [{"required": ["expected"]}, {"required": ["dry_run"], "properties": {"dry_run": {"const": True}}}]},
        {
            "oneOf": [
                {"properties": {"action": {"const": name}, "filter": {"properties": {"state": {"enum": states}}}}}
                for name, states in _STATES.items()
            ]
        },
    ]


class BulkAction(RequestModel):
    """*expected*: how many you mean, as a dry run said; if it is another number by then, nothing is done."""

    model_config = ConfigDict(json_schema_extra=_schema)

    action: Literal["retry", "cancel", "forget"]
    filter: JobFilter
    expected: Annotated[int, Field(ge=0, le=service.MAX_AT_ONCE), WHOLE] | SkipJsonSchema[None] = None
    dry_run: bool = False
    reason: Why = ""

    @model_validator(mode="after")
    def complete(self) -> BulkAction:
        if self.expected is None and not self.dry_run:
            raise ValueError("expected: it is missing; give the number of a dry run")
        if self.filter.state not in _STATES[self.action]:
            raise ValueError(f"filter.state: {service.ACTIONS[self.action].only}")
        return self


class BulkShown(ResponseModel):
    """How far it is.

    *left* are jobs that were refused, the first of them: a twin has taken their place, or they had moved on. The items
    say why.
    """

    id: int | None = Field(description="None of a dry run, and when nothing matched.")
    action: str
    filter: dict[str, Any]
    state: str = Field(description="dry_run, running, done, cancelled or failed.")
    actor: str | None = None
    origin: str | None = Field(None, description="page, api, cli or program.")
    reason: str = ""
    matched: int
    matched_is_capped: bool = False
    done: int
    changed: int | None
    refused: int | None = None
    left: list[int]
    says: str = ""
    started_at: Moment | None
    finished_at: Moment | None
    ended_by: str | None = Field(None, description="Who cancelled it.")
    retry_after: float | None = Field(None, description="Seconds that it still takes, while it runs.")


class BulkItemShown(ResponseModel):
    """What became of one job; *why* it was refused, or what else there is to say of it."""

    job: int
    outcome: str = Field(description="changed or refused.")
    why: str


_BULK = {**responses(BulkShown, 400, 409, 429), 202: {"model": BulkShown, "description": "It is under way."}}
BulkId = Annotated[int, Path(ge=1, le=2**53 - 1)]


@router.post("/bulk-actions", responses=_BULK)
def start(request: Request, body: BulkAction, asking: Acting) -> Response:
    """Counts the matching jobs, or applies the action to all of them."""
    require(request, RIGHT_OF_BULK[body.action])
    return idempotent_later(asking, lambda: _started(request, body, asking))


def _started(request: Request, body: BulkAction, asking: IdempotentRequest) -> Response:
    site, wanted = asking.site, body.filter.wanted()
    if body.dry_run:
        preview = site.read(lambda tx: service.preview(tx, body.action, wanted))
        return shown(_without_id(body, "dry_run", preview.n, capped=preview.capped))
    if body.expected is None:
        raise wrong("expected", "say how many you mean; a dry run tells the number")
    by = asking.because(body.reason)
    try:
        id_ = _begin_or_run(request, body, body.expected, by)
    except OtherNumber as error:
        raise Problem("refused", f"{_capital(error)}.", matched=error.matched, expected=error.expected) from error
    if id_ is None:
        now = site.queue.clock.now()
        return shown(_without_id(body, "done", 0, at=now))
    document = site.read(lambda tx: _shown(tx, service.require(tx, id_)))
    where = f"{site.base}/api/v1/bulk-actions/{id_}"
    return shown(document, 202 if document.state == "running" else 200, {"Location": where})


def _begin_or_run(request: Request, body: BulkAction, expected: int, by: Actor) -> int | None:
    """Start the action, or run it if it is small. Return its id, or None if nothing matches."""
    wanted = body.filter.wanted()
    if expected <= AT_ONCE:
        return run_bulk(site_of(request), body.action, wanted, by, expected).bulk
    bulks: BulkRunner = request.app.state.bulks
    begun = bulks.start(body.action, wanted, by, expected)
    return None if begun is None else begun.id


def _without_id(
    body: BulkAction, state: str, matched: int, *, capped: bool = False, at: float | None = None
) -> BulkShown:
    """Return the result of a dry run or of an action without matches."""
    counted = None if at is None else 0
    return BulkShown(
        id=None,
        action=body.action,
        filter=body.filter.wanted().as_json(),
        state=state,
        matched=matched,
        matched_is_capped=capped,
        done=0,
        changed=counted,
        refused=counted,
        left=[],
        started_at=at,
        finished_at=at,
        origin=None,
        ended_by=None,
        retry_after=None,
    )


def _capital(error: Exception) -> str:
    text = str(error)
    return text[:1].upper() + text[1:]


@router.get("/bulk-actions", responses=responses(Listed[BulkShown]))
def list_bulk_actions(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    cursor: Annotated[str, Query(pattern="^(b[0-9a-f]{1,15})?$")] = "",
) -> Response:
    """Lists the bulk actions of the last 30 days, newest first."""

    def look(tx: Tx) -> Listed[BulkShown]:
        operations = service.list_operations(tx, cursor=cursor or None, limit=limit)
        return Listed(items=[_shown(tx, item) for item in operations.items], next_cursor=operations.next)

    operations = site_of(request).read(look)
    return read(request, operations, next_link(request, operations.next_cursor))


@router.get("/bulk-actions/{id}", responses=responses(BulkShown, 404))
def one_bulk_action(request: Request, id: BulkId) -> Response:  # noqa: A002 - its name in the address
    """The progress of one bulk action."""
    return read(request, site_of(request).read(lambda tx: _shown(tx, service.require(tx, id))))


@router.get("/bulk-actions/{id}/items", responses=responses(Listed[BulkItemShown], 404))
def list_items(
    request: Request,
    id: BulkId,  # noqa: A002 - its name in the address
    outcome: Annotated[Literal["", "refused"], Query(description="Only those that were refused.")] = "",
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
    cursor: Annotated[str, Query(pattern="^(i[0-9a-f]{1,15})?$")] = "",
) -> Response:
    """What became of its jobs. Of very many only the first that were changed are kept, and those that were refused."""

    def look(tx: Tx) -> Listed[BulkItemShown]:
        result = service.items(tx, id, refused_only=outcome == "refused", cursor=cursor or None, limit=limit)
        items = [BulkItemShown.model_validate(item) for item in result.items]
        return Listed(items=items, next_cursor=result.next)

    result = site_of(request).read(look)
    return read(request, result, next_link(request, result.next_cursor))


@router.post("/bulk-actions/{id}/cancel", responses=responses(BulkShown, 400, 404, 409))
def cancel(id: BulkId, asking: Acting) -> Response:  # noqa: A002 - its name in the address
    """Ends it after the current batch; jobs that are already processed stay processed."""
    return idempotent(asking, lambda tx: _shown(tx, service.cancel(tx, id, asking.by)))


def _shown(tx: Tx, operation: BulkOperation) -> BulkShown:
    left = operation.refused and service.outcome(tx, operation).left[:MAX_LEFT]
    return BulkShown(
        id=operation.id,
        action=operation.action,
        filter=dict(operation.filter),
        state=operation.state,
        actor=operation.actor,
        origin=operation.origin,
        reason=operation.reason,
        matched=operation.expected,
        done=operation.done,
        changed=operation.changed,
        refused=operation.refused,
        left=list(left or ()),
        says=operation.says,
        started_at=operation.started_at,
        finished_at=operation.ended_at,
        ended_by=operation.ended_by,
        retry_after=round(operation.left(now_of(tx)), 1) if operation.running else None,
    )
