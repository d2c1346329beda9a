"""The page Lidarr: how full it is, when it is woken, and every entry; and the states of tracks."""

from __future__ import annotations

from typing import Any

from fastapi import Request, Response

from tidegate.apps import DbTx, Installed
from tidegate.web import number_of, page
from tidegate_apps.lidarr import looks, reading
from tidegate_apps.lidarr.badges import LOOKS
from tidegate_apps.lidarr.settings import Settings
from tidegate_apps.lidarr.states import TABS

_PAGE = 50
_MOST_UNSENDABLE = 20
MOST_COUNTED = 10_000  # in one state; what is more shows as that with a plus
WORDS = {
    "": "All", "queued": "Queued", "artist": "Waiting for an artist", "retrying": "Retrying", "gave_up": "Gave up",
    "submitted": "Submitted", "cancelled": "Cancelled",
}  # fmt: skip


def show(request: Request, there: Installed[Settings]) -> Response:
    """The queue. Tabs and paging are plain links."""
    asked, now = request.query_params, there.queue.clock.now()
    tab = asked.get("state", "") if asked.get("state", "") in TABS else ""
    cursor = asked.get("after", "")[:80]

    def read(tx: DbTx) -> tuple[list[Any], dict[int, str], str | None, list[Any]]:
        try:
            found, following = reading.listed(tx, tab, cursor, _PAGE)
        except ValueError:
            found, following = reading.listed(tx, tab, "", _PAGE)
        return found, reading.causes_of(tx, found), following, tx.all("unsendable", n=_MOST_UNSENDABLE + 1)

    entries, causes, following, unsendable = there.db.read(read)
    standing = reading.standing(there)
    held = looks.held_words(standing.last, full=standing.full)
    return page(
        request, "lidarr/queue.html", standing=standing, tab=tab, words=WORDS, further=following, paged=bool(cursor),
        rows=[
            (each, looks.look_of(each, now, held, causes.get(each.id, "")), LOOKS.get(each.lidarr_status or ""))
            for each in entries
        ],
        result=None if standing.last is None else looks.woken_words(standing.last),
        looked=None if standing.look is None else looks.look_words(standing.look),
        looking=None if standing.looking is None else looks.looking_words(standing.looking[0]),
        looks=LOOKS, unsendable=unsendable[:_MOST_UNSENDABLE], more_unsendable=len(unsendable) > _MOST_UNSENDABLE,
    )  # fmt: skip


def show_tracks(request: Request, there: Installed[Settings], most: int = MOST_COUNTED) -> Response:
    """Artists, albums and tracks with what Lidarr says of them; more than *most* in one state are not counted."""
    asked = request.query_params
    kind = asked.get("kind", "track") if asked.get("kind") in ("artist", "album") else "track"
    status = asked.get("status", "") if asked.get("status", "") in LOOKS else ""
    after = number_of(asked.get("after", "")) or 0

    def read(tx: DbTx) -> tuple[list[Any], dict[str, int]]:
        place = {"kind": kind, "after": after, "n": _PAGE + 1}
        rows = tx.all("badges_in", status=status, **place) if status else tx.all("badges", **place)
        counts = {each: tx.all("count_in", kind=kind, status=each, n=most + 1)[0][0] for each in LOOKS}
        return rows, {each: n for each, n in counts.items() if n}

    rows, counts = there.db.read(read)
    return page(
        request, "lidarr/tracks.html", kind=kind, chosen=status, rows=rows[:_PAGE], looks=LOOKS, counts=counts,
        most=most,
        further=rows[_PAGE - 1][1] if len(rows) > _PAGE else None, paged=bool(after),
    )  # fmt: skip
