"""The page "Plays": charts, most played, recent plays, and how current they are."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from fastapi import Request, Response

from tidegate.apps import DbTx, Installed
from tidegate.web import Permission, page, requires
from tidegate_apps.tautulli import charts, store
from tidegate_apps.tautulli.api import MAX_ID
from tidegate_apps.tautulli.charts import RANGES
from tidegate_apps.tautulli.settings import TautulliSettings, next_time

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

    def read(tx: DbTx) -> dict[str, Any]:
        total, seconds = tx.all("total")[0]
        first = tx.one("oldest")
        return {
            "fresh": store.freshness(tx, settings, now),
            "total": int(total),
            "hours_played": int(seconds) // 3600,
            "since": "" if first is None else f"{datetime.fromtimestamp(first[0]).astimezone():%Y-%m-%d}",
            "charts": charts.charts(tx, chosen, now) if total else None,
            "last": tx.all("plays", **_NEWEST) if total else [],
        }

    return page(
        request,
        "tautulli/plays.html",
        **there.db.read(read),
        settings=settings,
        chosen=chosen,
        ranges=RANGES,
        titles=_TITLES,
        picture=charts,
        next_sync=next_time(settings, now),
    )
