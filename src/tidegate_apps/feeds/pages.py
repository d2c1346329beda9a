"""The page of all feeds, and the page of one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from fastapi import Request, Response

from tidegate.apps import DbTx, Installed
from tidegate.errors import NotFound
from tidegate.web import number_of, page, problem
from tidegate_apps.feeds import looks, telling
from tidegate_apps.feeds.looks import DAY, FeedStatusLabel, Piece
from tidegate_apps.feeds.recording import state_of
from tidegate_apps.feeds.settings import FeedsSettings
from tidegate_apps.feeds.source import Source, public
from tidegate_apps.feeds.source_rows import matching
from tidegate_apps.feeds.verdicts import FeedState, name_of

_PAGE_SIZE = 50
_MAX_BEATS = 500
_TABS = ("", "failing", "disabled", "unclassified")


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedRow:
    """One feed as the pages show it."""

    source: Source
    state: FeedState | None
    look: FeedStatusLabel
    why_then: str
    bar: list[Piece]
    bar_words: str
    title: str | None
    link: str | None
    malformed: str | None
    items: int
    last_new_at: float | None

    @property
    def path(self) -> str:
        """What tells it from others that are called after the same host; empty when it has a name of its own."""
        url = self.source.feed_url or ""
        return urlsplit(url).path if self.source.name == name_of(url) else ""


def show_all(request: Request, app: Installed[FeedsSettings]) -> Response:
    """The list. Tabs, search and paging are plain links."""
    asked = request.query_params
    tab = asked.get("state", "") if asked.get("state", "") in _TABS else ""
    like = asked.get("q", "")[:200].strip()
    return _list(request, app, tab, like, number_of(asked.get("after", "")) or 0)


def _list(request: Request, app: Installed[FeedsSettings], tab: str, like: str, after: int = 0) -> Response:
    now, elsewhere = app.queue.clock.now(), bool(app.settings.source_manager_url)

    def read(tx: DbTx) -> dict[str, Any]:
        found = _sources(tx, tab, like, after, elsewhere=elsewhere)
        total, disabled = tx.all("count_sources")[0]
        failing, unclassified, items, unpolled, known = tx.all("count_states")[0]
        if elsewhere:
            total, disabled = known, tx.all("count_resting")[0][0]
        return {
            "lines": [_line(tx, each, now) for each in found[:_PAGE_SIZE]],
            "more_after": found[_PAGE_SIZE - 1].id if len(found) > _PAGE_SIZE else None,
            "total": total, "items": items,
            "unpolled": unpolled, "known": known,
            "counts": {"": total, "failing": failing, "disabled": disabled, "unclassified": unclassified},
        }  # fmt: skip

    seen = app.db.read(read)
    return page(
        request, "feeds/all.html", **seen, tab=tab, tabs=_TABS, like=like, paged=bool(after), start=now - DAY, end=now,
        elsewhere=app.settings.source_manager_url, polls=app.settings.poll,
        simulated=app.settings.simulated,
    )  # fmt: skip


def show_one(request: Request, app: Installed[FeedsSettings]) -> Response:
    """One feed: how it is, what it brought, what happened to it."""
    given = request.path_params["key"]
    # What notices speak of: all that are unclassified, or a host.
    if given == telling.UNCLASSIFIED:
        return _list(request, app, "unclassified", "")
    if given.startswith(telling.HOST):
        return _list(request, app, "", given.removeprefix(telling.HOST).partition(":")[0])
    now = app.queue.clock.now()

    def read(tx: DbTx) -> dict[str, Any]:
        number = number_of(given)
        if number is None:
            raise NotFound("there is no such feed")
        source = _source(tx, number)
        return {
            "line": _line(tx, source, now),
            "items": tx.all("items", source_id=source.id, before=2**53, n=30),
            "beats": tx.all("beats", source_id=source.id, since=0.0, n=50),
            "events": tx.all("events", source_id=source.id, n=30),
        }

    try:
        seen = app.db.read(read)
    except NotFound as error:
        return problem(404, "not_there", detail=f"{error}.")
    return page(
        request,
        "feeds/one.html",
        **seen,
        start=now - DAY,
        end=now,
        tone_of=looks.tone_of,
        words=looks.WORDS,
        public=public,
        happened=looks.describe_event,
        elsewhere=app.settings.source_manager_url,
        polls=app.settings.poll,
    )


def _sources(tx: DbTx, tab: str, like: str, after: int, *, elsewhere: bool) -> list[Source]:
    n = _PAGE_SIZE + 1
    if like:
        known = (
            (lambda **asked: [_source(tx, row[0]) for row in tx.all("states_found", **asked)]) if elsewhere else None
        )
        return matching(tx, like, after, n, read=known)
    if tab == "disabled" and elsewhere:
        return [_source(tx, row[0]) for row in tx.all("states_disabled", after=after, n=n)]
    if tab == "disabled":
        return [Source(*row) for row in tx.all("sources_disabled", after=after, n=n)]
    if tab == "failing":
        return [_source(tx, row[0]) for row in tx.all("feeds_failing", after=after, n=n)]
    if tab == "unclassified":
        return [_source(tx, row[0]) for row in tx.all("feeds_by_error", type="unexpected", after=after, n=n)]
    found = [Source(*row) for row in tx.all("sources", after=after, n=n)]
    return found or [_source(tx, row[0]) for row in tx.all("known_states", after=after, n=n)]


def _source(tx: DbTx, id_: int) -> Source:
    """The source of a feed; where another server keeps the sources, what the poller knows of it."""
    row = tx.one("source", id=id_)
    if row is not None:
        return Source(*row)
    known = tx.one("states", source_id=id_)
    if known is None:
        raise NotFound(f"there is no feed {id_}")
    state = state_of(known)
    rest = state.rest
    return Source(
        id_, state.name, state.feed_url, state.interval, 1, rest.disabled_at, rest.reason, rest.by,
        rest.until if rest.disabled else 0.0, 0.0,
    )  # fmt: skip


def _line(tx: DbTx, source: Source, now: float) -> FeedRow:
    row, more = tx.one("states", source_id=source.id), tx.one("details", source_id=source.id)
    state = None if row is None else state_of(row)
    beats = tx.all("beats", source_id=source.id, since=now - DAY, n=_MAX_BEATS)
    _, _, title, link, malformed, items, last_new_at = more or (0, 0, None, None, None, 0, None)
    return FeedRow(
        source=source, state=state, look=looks.status_label(source, state, now), why_then=looks.next_poll(state),
        bar=looks.day_bar(beats, now), bar_words=looks.bar_words(beats), title=title, link=link, malformed=malformed,
        items=items, last_new_at=last_new_at,
    )  # fmt: skip
