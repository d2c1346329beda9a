"""/channels: where people are told beside the page, and a test of each."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Request, Response

from tidegate.errors import NotFound
from tidegate.ops import channels
from tidegate.web.api import strict
from tidegate.web.api.answers import read, responses, shown
from tidegate.web.api.once import Acting, idempotent_later
from tidegate.web.api.shapes import Listed, Moment, ResponseModel
from tidegate.web.site import site_of

router = strict.api("channels")

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


@router.get("/channels", responses=responses(Listed[ChannelShown]))
def list_channels(request: Request) -> Response:
    """Those of the settings, in the order in which they stand in for each other."""
    items = [ChannelShown(**each.as_json()) for each in site_of(request).read(channels.channels)]
    return read(request, Listed(items=items, next_cursor=None, total=len(items)))


@router.post("/channels/{name}/test", responses=responses(TestShown, 400, 404, 409))
def test_channel(name: Named, asking: Acting) -> Response:
    """Sends a test through it now, and says how that went."""

    def work() -> Response:
        telling = asking.site.telling
        if telling is None:
            raise NotFound(f"there is no channel {name!r}")
        tested = telling.test(name, asking.by)
        code = None if tested.fault is None else tested.fault.code
        return shown(TestShown(channel=name, delivered=tested.fault is None, code=code, why=tested.why))

    return idempotent_later(asking, work)
