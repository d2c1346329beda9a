"""The page "Plays": charts, most played, recent plays, and how current they are."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from fastapi import Request, Response

from tidegate.apps import DbTx, Installed
from tidegate.web import Permission, page, requires
from tidegate_apps.tautulli import charts, store
from tidegate_apps.tautulli.api import MAX_ID
from tidegate_apps.tautulli.charts import RANGES
from tidegate_apps.tautulli.settings import TautulliSettings, next_time
from tidegate_apps.tautulli.store import Freshness

_LATEST_PLAYS = 10
_TITLES = {"person": "Users", "show": "Titles", "platform": "Platforms"}
_NEWEST = {
    "started": MAX_ID,
    "row_id": 0,
    "since": -MAX_ID,
    "person": "",
    "show": "",
    "platform": "",
    "media_type": "",
    "n": _LATEST_PLAYS,
}


@requires(Permission.SEE)
def show(request: Request, there: Installed[TautulliSettings]) -> Response:
    chosen = RANGES.get(request.query_params.get("range", ""), RANGES["30d"])
    now, settings = there.queue.clock.now(), there.settings

    def read(
        tx: DbTx,
    ) -> tuple[Freshness, tuple[int, int], int | None, charts.Charts | None, Sequence[tuple[object, ...]]]:
        ((total, seconds),) = tx.all("total")
        return (
            store.freshness(tx, settings, now),
            (int(total), int(seconds)),
            tx.scalar_or_none(int, "oldest"),
            charts.charts(tx, chosen, now) if total else None,
            tx.all("plays", **_NEWEST) if total else [],
        )

    fresh, (total, seconds), oldest, drawn, last = there.db.read(read)
    return page(
        request,
        "tautulli/plays.html",
        fresh=fresh,
        total=total,
        hours_played=seconds // 3600,
        since="" if oldest is None else f"{datetime.fromtimestamp(oldest).astimezone():%Y-%m-%d}",
        charts=drawn,
        last=last,
        settings=settings,
        chosen=chosen,
        ranges=RANGES,
        titles=_TITLES,
        picture=charts,
        next_sync=next_time(settings, now),
    )
