"""The page Lidarr: how full it is, when it is woken, and every entry; and the states of tracks."""

from __future__ import annotations

from typing import Any

from fastapi import Request, Response

from tidegate.apps import DbTx, Installed
from tidegate.web import number_of, page
from tidegate_apps.lidarr import looks, reading
from tidegate_apps.lidarr.badges import BADGE_STYLES
from tidegate_apps.lidarr.settings import LidarrSettings
from tidegate_apps.lidarr.states import TABS

_PAGE_SIZE = 50
_MAX_UNSENDABLE = 20
MAX_COUNTED = 10_000  # in one state; what is more shows as that with a plus
WORDS = {
    "": "All", "queued": "Queued", "artist": "Waiting for an artist", "retrying": "Retrying", "gave_up": "Gave up",
    "submitted": "Submitted", "cancelled": "Cancelled",
}  # fmt: skip


def show(request: Request, app: Installed[LidarrSettings]) -> Response:
    """The queue. Tabs and paging are plain links."""
    asked, now = request.query_params, app.queue.clock.now()
    tab = asked.get("state", "") if asked.get("state", "") in TABS else ""
    cursor = asked.get("after", "")[:80]

    def read(tx: DbTx) -> tuple[list[Any], dict[int, str], str | None, list[Any]]:
        try:
            found, following = reading.list_entries(tx, tab, cursor, _PAGE_SIZE)
        except ValueError:
            found, following = reading.list_entries(tx, tab, "", _PAGE_SIZE)
        return found, reading.causes_of(tx, found), following, tx.all("unsendable", n=_MAX_UNSENDABLE + 1)

    entries, causes, following, unsendable = app.db.read(read)
    standing = reading.submit_status(app)
    held = looks.held_words(standing.last, full=standing.full)
    return page(
        request,
        "lidarr/queue.html",
        standing=standing,
        tab=tab,
        words=WORDS,
        further=following,
        paged=bool(cursor),
        rows=[
            (
                entry,
                looks.status_label(entry, now, held, causes.get(entry.id, "")),
                BADGE_STYLES.get(entry.lidarr_status or ""),
            )
            for entry in entries
        ],
        result=None if standing.last is None else looks.woken_words(standing.last),
        looked=None if standing.look is None else looks.look_words(standing.look),
        looking=None if standing.looking is None else looks.looking_words(standing.looking[0]),
        looks=BADGE_STYLES,
        unsendable=unsendable[:_MAX_UNSENDABLE],
        more_unsendable=len(unsendable) > _MAX_UNSENDABLE,
    )


def show_tracks(request: Request, app: Installed[LidarrSettings], limit: int = MAX_COUNTED) -> Response:
    """Artists, albums and tracks with what Lidarr says of them; more than *most* in one state are not counted."""
    asked = request.query_params
    kind = asked.get("kind", "track") if asked.get("kind") in ("artist", "album") else "track"
    status = asked.get("status", "") if asked.get("status", "") in BADGE_STYLES else ""
    after = number_of(asked.get("after", "")) or 0

    def read(tx: DbTx) -> tuple[list[Any], dict[str, int]]:
        place = {"kind": kind, "after": after, "n": _PAGE_SIZE + 1}
        rows = tx.all("badges_in", status=status, **place) if status else tx.all("badges", **place)
        counts = {style: tx.all("count_in", kind=kind, status=style, n=limit + 1)[0][0] for style in BADGE_STYLES}
        return rows, {each: n for each, n in counts.items() if n}

    rows, counts = app.db.read(read)
    return page(
        request,
        "lidarr/tracks.html",
        kind=kind,
        chosen=status,
        rows=rows[:_PAGE_SIZE],
        looks=BADGE_STYLES,
        counts=counts,
        most=limit,
        further=rows[_PAGE_SIZE - 1][1] if len(rows) > _PAGE_SIZE else None,
        paged=bool(after),
    )
