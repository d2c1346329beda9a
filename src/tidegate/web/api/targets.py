"""/targets: the list, one target, and its actions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from fastapi import Path, Query, Request, Response
from pydantic import ConfigDict, Field, model_validator
from pydantic.json_schema import SkipJsonSchema

from tidegate.guard.breaker_policy import OpenedBy
from tidegate.guard.breaker_state import OPEN
from tidegate.jobs import explain, listing
from tidegate.store.base import Tx, now_of
from tidegate.targets import actions, reports
from tidegate.targets.reports import TargetReport
from tidegate.web.api import idempotent, routing
from tidegate.web.api.idempotent import Acting, IdempotentRequest
from tidegate.web.api.models import (
    Ending,
    GateEventShown,
    Key,
    Listed,
    Moment,
    Name,
    Reason,
    RequestModel,
    ResponseModel,
    Seconds,
    Time,
    Why,
    moment,
)
from tidegate.web.api.routing import next_link, read, responses
from tidegate.web.problems import Problem
from tidegate.web.site import site_of

router = routing.api("targets")
routing.register("target", "pause", "resume", "test", "reset", "force", "clear", "enable", "disable")

Token = Literal[
    "action", "paused", "open", "probing", "disabled", "limited", "degraded", "silent", "full", "ok", "new", ""
]
Named = Annotated[Name, Path(description="The name of a target.")]


class TargetItem(ResponseModel):
    """One target. `token` is its state, `word` and `reason` say it to people."""

    name: str
    token: str
    word: str
    reason: str
    next_try_at: Moment | None
    breaker: str
    breaker_since: Moment | None
    breaker_until: Moment | None
    breaker_opened_by: OpenedBy | None
    paused_until: Moment | None
    paused_by: str | None
    held_keys: int
    running: int


class KeyShown(ResponseModel):
    """A key of a target that is held."""

    key: str
    reason: str
    since: Moment
    until: Moment | None
    failures: int
    code: str | None
    message: str | None


class TargetShown(TargetItem):
    rules: dict[str, Any]
    programs: dict[str, Any]
    waits_for: list[Reason]
    keys: list[KeyShown]
    events: list[GateEventShown]


@router.get("/targets", responses=responses(Listed[TargetItem], 400))
def list_targets(
    request: Request,
    state: Annotated[Token, Query(description="Those that stand so.")] = "",
    name: Annotated[Key, Query(description="A part of the name.")] = "",
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    cursor: Annotated[str, Query(max_length=1000)] = "",
) -> Response:
    """Lists targets: those that need attention first, then by name."""
    site = site_of(request)
    try:
        targets = site.read(lambda tx: listing.targets(tx, state=state, name=name, cursor=cursor or None, limit=limit))
    except ValueError as error:
        raise Problem("bad_cursor") from error
    items = [shown(report) for report in targets.items]
    return read(request, Listed(items=items, next_cursor=targets.next), next_link(request, targets.next))


@router.get("/targets/{name:target}", responses=responses(TargetShown, 404))
def one_target(request: Request, name: Named) -> Response:
    """One target: what holds it, its failing keys, its last events."""
    detail = site_of(request).read(lambda tx: reports.one(tx, name))
    report = detail.report
    return read(
        request,
        TargetShown(
            **_columns(report),
            rules=dict(report.rules),
            programs=dict(report.programs),
            waits_for=[Reason(**reason.as_json()) for reason in detail.reasons],
            keys=[
                KeyShown(
                    key=row.lane,
                    reason=row.reason,
                    since=row.since,
                    until=row.until,
                    failures=row.failures,
                    code=row.code,
                    message=row.message,
                )
                for row in detail.keys
            ],
            events=[GateEventShown.of(event) for event in detail.events],
        ),
    )


def shown(report: TargetReport) -> TargetItem:
    """Build the list entry of a target."""
    return TargetItem(**_columns(report))


def _columns(report: TargetReport) -> dict[str, Any]:
    return {
        "name": report.name,
        "token": report.token,
        "word": report.word,
        "reason": report.reason,
        "next_try_at": report.next_try,
        "breaker": report.breaker,
        "breaker_since": report.since or None,
        "breaker_until": report.until,
        "breaker_opened_by": report.opened_by,
        "paused_until": report.paused_until,
        "paused_by": report.paused_by,
        "held_keys": report.held_keys,
        "running": report.running,
    }


class TargetChanged(ResponseModel):
    """What came of it: *changed* is false when it was so already."""

    target: str
    action: str
    changed: bool
    until: Moment | None = None
    breaker: str | None = None


class Tested(TargetChanged):
    """The job that tries it; `waits_for` is what still stands before that one."""

    key: str
    job: int
    says: str
    waits_for: list[Reason]


class AnyKey(RequestModel):
    """Without `key`, a job of any key will do."""

    key: Key | SkipJsonSchema[None] = None


class OneKey(RequestModel):
    key: Key = ""


class Rest(Ending):
    """Give `until` or `for`."""

    model_config = ConfigDict(title="Rest")

    key: Key = ""


_NO_END = {"not": {"anyOf": [{"required": ["until"]}, {"required": ["for"]}]}}
_OPEN_ENDS: dict[str, Any] = {
    "oneOf": [
        {"properties": {"state": {"const": "open"}}, "required": ["until"]},
        {"properties": {"state": {"const": "open"}}, "required": ["for"]},
        {"properties": {"state": {"const": "closed"}}, **_NO_END},
    ]
}


class Force(RequestModel):
    """Open until a time, or closed now; give `until` or `for` with open, neither with closed."""

    model_config = ConfigDict(json_schema_extra=_OPEN_ENDS)

    state: Literal["open", "closed"]
    until: Time | SkipJsonSchema[None] = None
    for_: Seconds | SkipJsonSchema[None] = Field(None, alias="for")
    reason: Why = ""

    @model_validator(mode="after")
    def open_ends(self) -> Force:
        ends = (self.until is not None) + (self.for_ is not None)
        if self.state == "open" and ends != 1:
            raise ValueError("the end is missing; give either until or for")
        if self.state == "closed" and ends:
            raise ValueError("a closed breaker has no end; leave out until and for")
        return self


_ACTION = responses(TargetChanged, 400, 404, 409)


@router.post("/targets/{name:path}/pause", responses=_ACTION)
def pause(name: Named, body: Ending, asking: Acting) -> Response:
    """Claims no job of it until a time."""

    def work(tx: Tx) -> dict[str, Any]:
        return {"until": actions.pause_target(tx, name, body.moment(now_of(tx)), asking.because(body.reason))}

    return _act(asking, name, "pause", work)


@router.post("/targets/{name:path}/resume", responses=_ACTION)
def resume(name: Named, asking: Acting) -> Response:
    """Ends a pause."""
    return _act(asking, name, "resume", lambda tx: {"changed": actions.resume_target(tx, name, asking.by)})


@router.post("/targets/{name:path}/test", responses=responses(Tested, 400, 404, 409))
def test(name: Named, asking: Acting, body: AnyKey = AnyKey()) -> Response:  # noqa: B008, PT028 - it never changes
    """Tests it now: one waiting job runs immediately. Refused if nothing holds it, or no job waits."""

    def work(tx: Tx) -> dict[str, Any]:
        trial = explain.begin(tx, name, asking.by, body.key)
        waits = [Reason(**reason.as_json()) for reason in trial.waits]
        return {"breaker": trial.breaker, "key": trial.key, "job": trial.job, "says": trial.says, "waits_for": waits}

    return _act(asking, name, "test", work, Tested)


@router.post("/targets/{name:path}/reset", responses=_ACTION)
def reset(name: Named, asking: Acting) -> Response:
    """Closes its breaker and clears its counts: all jobs may run immediately."""

    def work(tx: Tx) -> dict[str, Any]:
        return {"changed": actions.reset_breaker(tx, name, asking.by) != "closed", "breaker": "closed"}

    return _act(asking, name, "reset", work)


@router.post("/targets/{name:path}/force", responses=_ACTION)
def force(name: Named, body: Force, asking: Acting) -> Response:
    """Opens its breaker until a time, or closes it now."""

    def work(tx: Tx) -> dict[str, Any]:
        end = moment(body.until, body.for_, now_of(tx)) if body.state == OPEN else None
        was = actions.force_breaker(tx, name, body.state, asking.because(body.reason), end)
        return {"changed": was != body.state, "breaker": body.state, "until": end}

    return _act(asking, name, "force", work)


@router.post("/targets/{name:path}/clear", responses=_ACTION)
def clear(name: Named, asking: Acting, body: OneKey = OneKey()) -> Response:  # noqa: B008 - it never changes
    """Clears all state of a key, as after new credentials: its jobs run immediately."""
    return _act(asking, name, "clear", lambda tx: {"changed": actions.clear_key(tx, name, body.key, asking.by)})


@router.post("/targets/{name:path}/enable", responses=_ACTION)
def enable(name: Named, asking: Acting, body: OneKey = OneKey()) -> Response:  # noqa: B008 - it never changes
    """Enables a suspended or disabled key."""
    return _act(asking, name, "enable", lambda tx: {"changed": actions.enable_key(tx, name, body.key, asking.by)})


@router.post("/targets/{name:path}/disable", responses=_ACTION)
def disable(name: Named, body: Rest, asking: Acting) -> Response:
    """Claims no job of a key until a time."""

    def work(tx: Tx) -> dict[str, Any]:
        end = body.moment(now_of(tx))
        actions.disable_key(tx, name, body.key, asking.because(body.reason), end)
        return {"until": end}

    return _act(asking, name, "disable", work)


def _act(
    asking: IdempotentRequest,
    name: str,
    action: str,
    work: Callable[[Tx], dict[str, Any]],
    model: type[TargetChanged] = TargetChanged,
) -> Response:
    # A target that is declared here exists, even before a worker reports it.
    act = asking.site.queue.target(name).act
    return idempotent.idempotent(
        asking, lambda tx: model(**{"target": name, "action": action, "changed": True, **work(tx)}), act
    )
