"""/targets: how they stand."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Path, Query, Request, Response

from tidegate.machine.opened import OpenedBy
from tidegate.ops import listing, target_reports
from tidegate.ops.target_reports import TargetReport
from tidegate.web.api import names, strict
from tidegate.web.api.answers import next_link, read, responses
from tidegate.web.api.shapes import GateEventShown, Key, Listed, Moment, Name, Reason, ResponseModel
from tidegate.web.problems import Problem
from tidegate.web.site import site_of

router = strict.api("targets")
names.register("target", "pause", "resume", "test", "reset", "force", "clear", "enable", "disable")

Token = Literal[
    "action", "paused", "open", "probing", "disabled", "limited", "degraded", "silent", "full", "ok", "new", ""
]  # fmt: skip
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
    """Those that need attention first, then by name."""
    site = site_of(request)
    try:
        found = site.read(lambda tx: listing.targets(tx, state=state, name=name, cursor=cursor or None, limit=limit))
    except ValueError as error:
        raise Problem("bad_cursor") from error
    items = [shown(report) for report in found.items]
    return read(request, Listed(items=items, next_cursor=found.next), next_link(request, found.next))


@router.get("/targets/{name:target}", responses=responses(TargetShown, 404))
def one_target(request: Request, name: Named) -> Response:
    """One target: what holds it, its keys that are not well, its last events."""
    found = site_of(request).read(lambda tx: target_reports.one(tx, name))
    report = found.report
    return read(request, TargetShown(
        **_columns(report), rules=report.rules, programs=report.programs,
        waits_for=[Reason(**why.as_json()) for why in found.reasons],
        keys=[
            KeyShown(key=row.lane, reason=row.reason, since=row.since, until=row.until, failures=row.failures,
                     code=row.code, message=row.message)
            for row in found.keys
        ],
        events=[GateEventShown.of(event) for event in found.events],
    ))  # fmt: skip


def shown(report: TargetReport) -> TargetItem:
    """One target in a list."""
    return TargetItem(**_columns(report))


def _columns(report: TargetReport) -> dict[str, Any]:
    return {
        "name": report.name, "token": report.token, "word": report.word, "reason": report.reason,
        "next_try_at": report.next_try, "breaker": report.breaker,
        "breaker_since": report.since or None, "breaker_until": report.until,
        "breaker_opened_by": report.opened_by,
        "paused_until": report.paused_until, "paused_by": report.paused_by, "held_keys": report.held_keys,
        "running": report.running,
    }  # fmt: skip
