"""/targets/{name}/pause, test, reset and the others: what people do to targets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from fastapi import Response
from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.json_schema import SkipJsonSchema

from tidegate.machine.states import OPEN
from tidegate.ops import actions, trials
from tidegate.store.now import now_of
from tidegate.store.tx import Tx
from tidegate.web.api import once, strict
from tidegate.web.api.answers import responses
from tidegate.web.api.ends import Ending, Time, moment
from tidegate.web.api.once import Acting, IdempotentRequest
from tidegate.web.api.shapes import Key, Moment, Reason, RequestModel, ResponseModel, Seconds, Why
from tidegate.web.api.targets import Named

router = strict.api("targets")


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
            raise ValueError("a breaker is forced open until a time: give either until or for")
        if self.state == "closed" and ends:
            raise ValueError("a breaker is closed now: leave out until and for")
        return self


_ACTION = responses(TargetChanged, 400, 404, 409)


@router.post("/targets/{name:path}/pause", responses=_ACTION)
def pause(name: Named, body: Ending, asking: Acting) -> Response:
    """Claims no job of it until a time."""

    def work(tx: Tx) -> TargetChanged:
        end = actions.pause_target(tx, name, body.moment(now_of(tx)), asking.because(body.reason))
        return TargetChanged(target=name, action="pause", changed=True, until=end)

    return _act(asking, name, work)


@router.post("/targets/{name:path}/resume", responses=_ACTION)
def resume(name: Named, asking: Acting) -> Response:
    """Ends a pause."""

    def work(tx: Tx) -> TargetChanged:
        return TargetChanged(target=name, action="resume", changed=actions.resume_target(tx, name, asking.by))

    return _act(asking, name, work)


@router.post("/targets/{name:path}/test", responses=responses(Tested, 400, 404, 409))
def test(name: Named, asking: Acting, body: AnyKey = AnyKey()) -> Response:  # noqa: B008, PT028 - it never changes
    """Tests it now: one job that waits behind it goes at once. Refused when nothing holds it, or no job waits."""

    def work(tx: Tx) -> Tested:
        found = trials.begin(tx, name, asking.by, body.key)
        waits = [Reason(**why.as_json()) for why in found.waits]
        return Tested(
            target=name, action="test", changed=True, breaker=found.breaker, key=found.key, job=found.job,
            says=found.says, waits_for=waits,
        )  # fmt: skip

    return _act(asking, name, work)


@router.post("/targets/{name:path}/reset", responses=_ACTION)
def reset(name: Named, asking: Acting) -> Response:
    """Closes its breaker and forgets its counts: everything may go at once."""

    def work(tx: Tx) -> TargetChanged:
        was = actions.reset_breaker(tx, name, asking.by)
        return TargetChanged(target=name, action="reset", changed=was != "closed", breaker="closed")

    return _act(asking, name, work)


@router.post("/targets/{name:path}/force", responses=_ACTION)
def force(name: Named, body: Force, asking: Acting) -> Response:
    """Opens its breaker until a time, or closes it now."""

    def work(tx: Tx) -> TargetChanged:
        end = moment(body.until, body.for_, now_of(tx)) if body.state == OPEN else None
        was = actions.force_breaker(tx, name, body.state, asking.because(body.reason), end)
        return TargetChanged(target=name, action="force", changed=was != body.state, breaker=body.state, until=end)

    return _act(asking, name, work)


@router.post("/targets/{name:path}/clear", responses=_ACTION)
def clear(name: Named, asking: Acting, body: OneKey = OneKey()) -> Response:  # noqa: B008 - it never changes
    """Forgets all state of a key, as after new credentials: its jobs go at once."""

    def work(tx: Tx) -> TargetChanged:
        was = actions.clear_key(tx, name, body.key, asking.by)
        return TargetChanged(target=name, action="clear", changed=was)

    return _act(asking, name, work)


@router.post("/targets/{name:path}/enable", responses=_ACTION)
def enable(name: Named, asking: Acting, body: OneKey = OneKey()) -> Response:  # noqa: B008 - it never changes
    """Ends the rest of a key, whoever ordered it."""

    def work(tx: Tx) -> TargetChanged:
        was = actions.enable_key(tx, name, body.key, asking.by)
        return TargetChanged(target=name, action="enable", changed=was)

    return _act(asking, name, work)


@router.post("/targets/{name:path}/disable", responses=_ACTION)
def disable(name: Named, body: Rest, asking: Acting) -> Response:
    """Claims no job of a key until a time."""

    def work(tx: Tx) -> TargetChanged:
        end = body.moment(now_of(tx))
        actions.disable_key(tx, name, body.key, asking.because(body.reason), end)
        return TargetChanged(target=name, action="disable", changed=True, until=end)

    return _act(asking, name, work)


def _act(asking: IdempotentRequest, name: str, work: Callable[[Tx], BaseModel]) -> Response:
    # One that is declared here exists, even if no worker has met it yet.
    return once.idempotent(asking, work, asking.site.queue.target(name).act)
