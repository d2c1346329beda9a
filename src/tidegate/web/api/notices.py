"""/notices and /channels: notices, acknowledging them, delivery channels and their tests."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Path, Query, Request, Response

from tidegate.errors import NotFound
from tidegate.notices import deliveries, inbox
from tidegate.notices.deliveries import Delivery
from tidegate.notices.inbox import NoticeLine
from tidegate.store.base import ResultPage, Tx
from tidegate.web.api import routing
from tidegate.web.api.idempotent import Acting, idempotent, idempotent_later
from tidegate.web.api.models import JobId, Listed, Moment, RequestModel, ResponseModel
from tidegate.web.api.routing import next_link, read, responses, shown
from tidegate.web.problems import Problem
from tidegate.web.site import site_of

router = routing.api("notices")


class DeliveryShown(ResponseModel):
    """What one channel was told of a notice: queued, delivered or failed, and why it failed."""

    channel: str
    state: str
    instead_of: str | None
    created_at: Moment
    ended_at: Moment | None
    why: str | None


class NoticeShown(ResponseModel):
    """One notice. *open*: what it tells of goes on. *why*: channels are not told, or not before *waits_until*."""

    id: int
    kind: str
    level: str
    subject: str
    name: str
    key: str
    operation: str
    code: str | None
    title: str
    message: str
    advice: str
    user: str | None
    open: bool
    unread: bool
    created_at: Moment
    ended_at: Moment | None
    acked_at: Moment | None
    acked_by: str | None
    told_at: Moment | None
    waits_until: Moment | None
    why: str | None
    snoozed_until: Moment | None
    snoozed_by: str | None
    deliveries: list[DeliveryShown]


class Notices(Listed[NoticeShown]):
    unread: int


class Snooze(RequestModel):
    """For how long."""

    lasts: Literal["15m", "1h", "4h", "1d"]


class Snoozed(ResponseModel):
    id: int
    action: str
    until: Moment


class Acked(ResponseModel):
    id: int
    action: str
    changed: bool


@router.get("/notices", responses=responses(Notices, 400))
def list_notices(
    request: Request,
    unread: Annotated[bool, Query(description="Only unread notices.")] = False,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    cursor: Annotated[str, Query(pattern="^(n[0-9a-f]{1,16})?$")] = "",
) -> Response:
    """The newest first."""
    try:
        notices, sent, n = site_of(request).read(lambda tx: _load_notices(tx, unread, cursor, limit))
    except ValueError as error:
        raise Problem("bad_cursor") from error
    page = Notices(items=[_shown(item, sent[item.id]) for item in notices.items], next_cursor=notices.next, unread=n)
    return read(request, page, next_link(request, notices.next))


@router.post("/notices/{id}/ack", responses=responses(Acked, 400, 404, 409))
def acknowledge(id: Annotated[JobId, Path()], asking: Acting) -> Response:  # noqa: A002 - its name in the address
    """Marks a notice as read."""
    return idempotent(asking, lambda tx: Acked(id=id, action="ack", changed=inbox.acknowledge(tx, id, asking.by)))


@router.post("/notices/{id}/snooze", responses=responses(Snoozed, 400, 404, 409))
def snooze(id: Annotated[JobId, Path()], body: Snooze, asking: Acting) -> Response:  # noqa: A002 - the same
    """Silences a notice for a time; sent again afterwards if the problem persists."""

    def work(tx: Tx) -> Snoozed:
        return Snoozed(id=id, action="snooze", until=inbox.snooze(tx, id, body.lasts, asking.by))

    return idempotent(asking, work)


def _load_notices(
    tx: Tx, unread: bool, cursor: str, limit: int
) -> tuple[ResultPage[NoticeLine], dict[int, list[Delivery]], int]:
    notices = inbox.list_notices(tx, unread_only=unread, cursor=cursor or None, limit=limit)
    return notices, deliveries.deliveries(tx, [line.id for line in notices.items]), inbox.unread(tx)


def _shown(line: NoticeLine, sent: list[Delivery]) -> NoticeShown:
    deliveries = [DeliveryShown.model_validate(delivery) for delivery in sent]
    return NoticeShown.model_validate({**line.as_json(), "deliveries": deliveries})


# -- /channels ---------------------------------------------------------------------------------------------------------

channels_router = routing.api("channels")

Named = Annotated[str, Path(pattern="^[a-z][a-z0-9_-]{0,39}$", description="The name of a channel.")]


class ChannelShown(ResponseModel):
    """One channel. *leads_to* has no secret; *state* is ok, new, failing or off; *standby*: told what others cannot."""

    name: str
    kind: str
    leads_to: str
    level: str
    order: int
    standby: bool
    state: str
    word: str
    reason: str
    last_at: Moment | None
    last_ok: bool | None
    tested_at: Moment | None
    tested_ok: bool | None
    disabled_at: Moment | None


class TestShown(ResponseModel):
    """How a test went; *why* is empty when it was delivered."""

    channel: str
    delivered: bool
    code: str | None
    why: str


@channels_router.get("/channels", responses=responses(Listed[ChannelShown]))
def list_channels(request: Request) -> Response:
    """Lists the channels of the settings, in their order."""
    items = [ChannelShown.model_validate(channel.as_json()) for channel in site_of(request).read(deliveries.channels)]
    return read(request, Listed.whole(items))


@channels_router.post("/channels/{name}/test", responses=responses(TestShown, 400, 404, 409))
def test_channel(name: Named, asking: Acting) -> Response:
    """Sends a test message now, and returns the result."""

    def work() -> Response:
        telling = asking.site.telling
        if telling is None:
            raise NotFound(f"there is no channel {name!r}")
        tested = telling.test(name, asking.by)
        code = None if tested.fault is None else tested.fault.code
        return shown(TestShown(channel=name, delivered=tested.fault is None, code=code, why=tested.why))

    return idempotent_later(asking, work)
