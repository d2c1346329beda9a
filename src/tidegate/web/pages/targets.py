"""`/targets`: every target, those that need attention first."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from tidegate.ops import history, listing, overview
from tidegate.ops.listing import ResultPage
from tidegate.ops.target_reports import TargetReport
from tidegate.ops.words import TARGETS
from tidegate.store.now import now_of
from tidegate.store.tx import Tx
from tidegate.web.pages import charts
from tidegate.web.pages.overview import shown_store
from tidegate.web.pages.paging import cursor_of
from tidegate.web.pages.rendering import page
from tidegate.web.site import site_of

_PAGE_SIZE = 50


router = APIRouter()


@router.get("/targets")
def show(
    request: Request,
    state: Annotated[str, Query(max_length=20)] = "",
    name: Annotated[str, Query(max_length=200)] = "",
    cursor: Annotated[str, Query(max_length=500)] = "",
) -> Response:
    site = site_of(request)
    chosen = state if state in TARGETS else ""

    def work(tx: Tx) -> tuple[ResultPage[TargetReport], dict[str, int], dict[str, charts.Chart]]:
        at = cursor_of(
            cursor, lambda given: listing.targets(tx, state=chosen, name=name, cursor=given, limit=_PAGE_SIZE)
        )
        beats, now = history.beats(tx, [item.name for item in at.items]), now_of(tx)
        return at, overview.target_states(tx), {beat: charts.beat_bar(beats[beat], now) for beat in beats}

    listed, states, beats = site.read(work)
    shown = [token for token in TARGETS if states.get(token) or token == chosen]
    return page(
        request, "targets.html", listed=listed, states=states, tokens=shown, state_now=chosen, name=name,
        total=sum(states.values()), paged=bool(cursor), beats=beats, store_url=shown_store(site.queue.url),
    )  # fmt: skip
