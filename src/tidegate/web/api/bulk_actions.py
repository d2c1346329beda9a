"""/bulk-actions: the same thing done to many jobs. Few at once are done at once, many in the background."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Path, Request, Response
from pydantic import ConfigDict, Field, model_validator
from pydantic.json_schema import SkipJsonSchema

from tidegate.errors import NotThere
from tidegate.ops import bulk
from tidegate.ops.listing import Count
from tidegate.web.access import RIGHT_OF_BULK, require
from tidegate.web.api import strict
from tidegate.web.api.answers import read, says, shown
from tidegate.web.api.job_shapes import JobFilter
from tidegate.web.api.once import Acting, Asking, long_once
from tidegate.web.api.shapes import WHOLE, Asked, Listed, Moment, Shown
from tidegate.web.bulk import Bulks, Running, carried_out
from tidegate.web.problems import Problem
from tidegate.web.refusals import wrong

router = strict.api("bulk-actions")

AT_ONCE = 200
_MOST_LEFT = 1000
_STATES = {name: ["", *action.states] for name, action in bulk.ACTIONS.items()}


def _schema(schema: dict[str, Any]) -> None:
    """What the validators below check, in the words of JSON Schema."""
    schema["allOf"] = [
        {"anyOf": [{"required": ["expected"]}, {"required": ["dry_run"], "properties": {"dry_run": {"const": True}}}]},
        {"oneOf": [
            {"properties": {"action": {"const": name}, "filter": {"properties": {"state": {"enum": states}}}}}
            for name, states in _STATES.items()
        ]},
    ]  # fmt: skip


class BulkAction(Asked):
    """*expected*: how many you mean, as a dry run said; if it is another number by then, nothing is done."""

    model_config = ConfigDict(json_schema_extra=_schema)

    action: Literal["retry", "cancel", "forget"]
    filter: JobFilter
    expected: Annotated[int, Field(ge=0, le=bulk.MOST_AT_ONCE), WHOLE] | SkipJsonSchema[None] = None
    dry_run: bool = False

    @model_validator(mode="after")
    def complete(self) -> BulkAction:
        if self.expected is None and not self.dry_run:
            raise ValueError("expected: say how many you mean; a dry run tells the number")
        if self.filter.state not in _STATES[self.action]:
            raise ValueError(f"filter.state: {bulk.ACTIONS[self.action].only}")
        return self


class BulkShown(Shown):
    """How far it is. *left* are jobs that were not changed: a twin has taken their place, or they had moved on."""

    id: str | None
    action: str
    filter: dict[str, Any]
    state: str = Field(description="dry_run, running, done, refused, failed or stopped.")
    matched: int
    matched_is_capped: bool = False
    done: int
    changed: int | None
    left: list[int]
    says: str = ""
    started_at: Moment | None
    finished_at: Moment | None
    retry_after: float | None = Field(None, description="Seconds that it still takes, while it runs.")


_BULK = {**says(BulkShown, 400, 409, 429), 202: {"model": BulkShown, "description": "It is under way."}}


@router.post("/bulk-actions", responses=_BULK)
def start(request: Request, body: BulkAction, asking: Acting) -> Response:
    """Counts the jobs that match, or does it to them all."""
    require(request, RIGHT_OF_BULK[body.action])
    return long_once(asking, lambda: _started(request, body, asking))


def _started(request: Request, body: BulkAction, asking: Asking) -> Response:
    site, wanted = asking.site, body.filter.wanted()
    about: dict[str, Any] = {"action": body.action, "filter": wanted.as_json()}
    found = site.read(lambda tx: bulk.preview(tx, body.action, wanted))
    if body.dry_run:
        return shown(BulkShown(
            **about, id=None, state="dry_run", matched=found.n, matched_is_capped=found.capped, done=0, changed=None,
            left=[], started_at=None, finished_at=None,
        ))  # fmt: skip
    expected = _agreed(body, found)
    if found.n > AT_ONCE:
        bulks: Bulks = request.app.state.bulks
        running = bulks.start(body.action, wanted, asking.by, expected)
        where = f"{site.base}/api/v1/bulk-actions/{running.id}"
        return shown(_shown(running, site.queue.clock.monotonic()), 202, {"Location": where})
    began = site.queue.clock.now()
    outcome = carried_out(site, body.action, wanted, asking.by, expected)
    return shown(BulkShown(
        **about, id=None, state="done", matched=outcome.matched, done=outcome.matched, changed=outcome.changed,
        left=list(outcome.left[:_MOST_LEFT]), started_at=began, finished_at=site.queue.clock.now(),
    ))  # fmt: skip


def _agreed(body: BulkAction, found: Count) -> int:
    if found.capped:
        raise Problem("refused", f"More than {found.n:,} jobs match; narrow it down.", matched=found.n)
    if body.expected is None:
        raise wrong("expected", "say how many you mean; a dry run tells the number")
    if body.expected != found.n:
        said = f"{found.n} match, not {body.expected}; look again before you {body.action}."
        raise Problem("refused", said, matched=found.n, expected=body.expected)
    return body.expected


@router.get("/bulk-actions", responses=says(Listed[BulkShown]))
def list_bulk_actions(request: Request) -> Response:
    """Those of this server since it started, the newest first; only some are kept."""
    bulks: Bulks = request.app.state.bulks
    now = bulks.site.queue.clock.monotonic()
    items = [_shown(each, now) for each in bulks.listed()]
    return read(request, Listed(items=items, next_cursor=None, total=len(items)))


@router.get("/bulk-actions/{id}", responses=says(BulkShown, 404))
def one_bulk_action(
    request: Request,
    id: Annotated[str, Path(min_length=1, max_length=40, pattern="^[a-z0-9-]+$")],  # noqa: A002 - its name in the address
) -> Response:
    """How far one is."""
    bulks: Bulks = request.app.state.bulks
    found = bulks.get(id)
    if found is None:
        raise NotThere(f"there is no bulk action {id}; they are kept until the server stops, and not for ever")
    return read(request, _shown(found, bulks.site.queue.clock.monotonic()))


def _shown(one: Running, now: float) -> BulkShown:
    outcome = one.outcome
    return BulkShown(
        id=one.id, action=one.action, filter=one.filter.as_json(), state=one.state,
        matched=one.expected if outcome is None else outcome.matched, done=one.done,
        changed=None if outcome is None else outcome.changed,
        left=[] if outcome is None else list(outcome.left[:_MOST_LEFT]), says=one.says, started_at=one.started_at,
        finished_at=one.finished_at, retry_after=round(one.left(now), 1) if one.state == "running" else None,
    )  # fmt: skip
