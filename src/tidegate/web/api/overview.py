"""/overview: whether anything is wrong, whether it is getting better, and what a person must do."""

from __future__ import annotations

from fastapi import Request, Response

from tidegate.ops import notices
from tidegate.ops.overview import overview
from tidegate.web.api import strict, targets
from tidegate.web.api.answers import read, responses
from tidegate.web.api.queues import QueueShown
from tidegate.web.api.shapes import GateEventShown, Moment, ResponseModel
from tidegate.web.api.targets import TargetItem
from tidegate.web.site import site_of

router = strict.api("overview")


class NeedShown(ResponseModel):
    """One thing that a person should do. `href` is the page where it is done."""

    kind: str
    title: str
    message: str
    subject: str
    href: str
    action: str
    count: int


class OverviewShown(ResponseModel):
    """How everything is. `targets` says how many stand how; `attention` are the first of those that are not well."""

    sentence: str
    healthy: bool
    needs: list[NeedShown]
    targets: dict[str, int]
    attention: list[TargetItem]
    queues: list[QueueShown]
    workers: int
    last_tick_at: Moment | None
    unread_notices: int
    events: list[GateEventShown]


@router.get("/overview", responses=responses(OverviewShown))
def show_overview(request: Request) -> Response:
    """How everything is: in one sentence, what a person should do, and the numbers behind it."""
    seen, unread = site_of(request).read(lambda tx: (overview(tx), notices.unread(tx)))
    base = str(request.scope.get("root_path", ""))
    return read(request, OverviewShown(
        sentence=seen.sentence, healthy=seen.healthy,
        needs=[NeedShown(**{**need.as_json(), "href": f"{base}{need.href}"}) for need in seen.needs],
        targets=seen.targets, attention=[targets.shown(each) for each in seen.attention],
        queues=[QueueShown(**queue.as_json()) for queue in seen.queues],
        workers=sum(worker.there for worker in seen.workers), last_tick_at=seen.tick, unread_notices=unread,
        events=[GateEventShown.of(event) for event in seen.events],
    ))  # fmt: skip
