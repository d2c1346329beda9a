"""The poller's access to the source manager: in this database, or on another server.

Local: a suspension is written in the transaction of the poll that caused it. Remote: that transaction inserts a job
that updates the other server. The job waits behind a target while that server is unavailable.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

import httpx2

from tidegate import Held, Target, classify
from tidegate.apps import Db, DbTx
from tidegate.faults import Level
from tidegate_apps.feeds import state as feed_state
from tidegate_apps.feeds.codes import MANUAL
from tidegate_apps.feeds.models import AUTO
from tidegate_apps.feeds.sources import Sources
from tidegate_apps.feeds.state import DueReason, FeedState, host_of

_log = logging.getLogger("tidegate.feeds")
_PAGE_SIZE = 500


class LocalSources:
    """Sources in this database."""

    elsewhere = False

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    async def refresh(self) -> None:
        return None

    def disabled(self, tx: DbTx, state: FeedState, reason: str) -> None:
        self._sources.disable_in(tx, state.source_id, reason, AUTO, recorded=True)

    def enabled(self, tx: DbTx, state: FeedState) -> None:
        self._sources.enable_in(tx, state.source_id, AUTO, recorded=True)

    def moved(self, tx: DbTx, state: FeedState, url: str) -> bool:
        return self._sources.moved_in(tx, state.source_id, url)


class RemoteSources:
    """Sources on another server. *tell* inserts a job that updates one feed there."""

    elsewhere = True

    def __init__(
        self,
        db: Db,
        target: Target,
        client: Callable[[], httpx2.AsyncClient],
        now: Callable[[], float],
        tell: Callable[[DbTx, FeedState, str], object],
    ) -> None:
        self._db, self._target, self._client, self._now, self._tell = db, target, client, now, tell

    def disabled(self, tx: DbTx, state: FeedState, reason: str) -> None:
        self._tell(tx, state, "")

    def enabled(self, tx: DbTx, state: FeedState) -> None:
        self._tell(tx, state, "")

    def moved(self, tx: DbTx, state: FeedState, url: str) -> bool:
        self._tell(tx, state, state.feed_url)
        return True

    async def refresh(self) -> None:
        """Fetch the list of feeds to poll. While the other server is unavailable, the last list applies."""
        before = await self._known()
        try:
            listed = await self._target.acall(self._list)
        except Held:
            return
        except Exception as error:
            fault = classify(error)
            code = "unexpected" if fault is None else fault.code
            level = logging.ERROR if fault is None or fault.level is Level.ERROR else logging.WARNING
            _log.log(level, "sources_not_listed error_type=%s error=%s", code, str(error)[:200])
            return
        await self._db.awrite(lambda tx: self._adopt(tx, listed, before))

    async def _known(self) -> dict[int, tuple[Any, ...]]:
        states: dict[int, tuple[Any, ...]] = {}
        after = 0
        while rows := await self._db.aall("known_states", after=after, n=_PAGE_SIZE):
            states.update((row[0], row) for row in rows)
            after = rows[-1][0]
        return states

    async def _list(self) -> list[dict[str, Any]]:
        sources: list[dict[str, Any]] = []
        cursor: str | None = None
        while True:
            query = {"feed_active": "true", "limit": str(_PAGE_SIZE), **({"cursor": cursor} if cursor else {})}
            answer = await self._client().get("/api/v1/sources", params=query)
            answer.raise_for_status()
            page = answer.json()
            sources += page["items"]
            cursor = page["next_cursor"]
            if cursor is None:
                return sources

    def _adopt(self, tx: DbTx, listed: list[dict[str, Any]], before: dict[int, tuple[Any, ...]]) -> None:
        """Apply the list: poll new feeds, stop polling those that are no longer listed.

        *before* is the state when the list was requested. The list may lack updates that were sent since then.
        """
        at = self._now()
        known = _known(tx)
        new = [source for source in listed if source["id"] not in known]
        if new:
            tx.many("add_state", [_state(source, at, place, len(new)) for place, source in enumerate(new)])
        for source in new:
            if source["feed_disabled_at"] is not None:
                _rest_over(tx, source, at)
        for source in listed:
            row = known.get(source["id"])
            if row is not None and _same(row, before.get(row[0])):
                self._follow(tx, row, source, at)
        there = {source["id"] for source in listed}
        for row in known.values():
            resting = row[5] is not None and row[6] is not None and row[6] > at
            if row[0] not in there and row[4] is not None and not resting and _same(row, before.get(row[0])):
                tx.all("parked", source_id=row[0])

    def _follow(self, tx: DbTx, row: tuple[Any, ...], there: dict[str, Any], at: float) -> None:
        id_, url, interval, name, due_at, rest_at, _, _ = row
        if there["feed_url"] != url:
            tx.all(
                "set_address",
                source_id=id_,
                feed_url=there["feed_url"],
                host=host_of(there["feed_url"]),
                due_at=at,
                due_why=str(DueReason.NEW),
            )
        if (there["interval"], there["name"]) != (interval, name):
            tx.many("add_state", [_state(there, at, 0, 1)])
        if rest_at is not None and there["feed_disabled_at"] is None:
            # An operator enabled it there.
            tx.all(
                "set_state_rest",
                source_id=id_,
                rest_at=None,
                rest_until=None,
                rest_reason=None,
                rest_by=None,
                due_at=0.0,
                due_why=str(DueReason.ASKED),
            )
        elif rest_at is None and there["feed_disabled_at"] is not None:
            # It was suspended and is enabled again there. Only the owner of the suspension can end it.
            _rest_over(tx, there, at if due_at is None else due_at)
        elif due_at is None:
            tx.all("set_due", source_id=id_, due_at=at, due_why=str(DueReason.NEW))


def _known(tx: DbTx) -> dict[int, tuple[Any, ...]]:
    """Return the stored state of each feed, by source."""
    states: dict[int, tuple[Any, ...]] = {}
    after = 0
    while rows := tx.all("known_states", after=after, n=_PAGE_SIZE):
        states.update((row[0], row) for row in rows)
        after = rows[-1][0]
    return states


def _same(row: tuple[Any, ...], before: tuple[Any, ...] | None) -> bool:
    """Return whether the other server already had all of this at the request: URL, suspension and last update."""
    return before is not None and bool(row[7] and before[7]) and (row[1], row[5]) == (before[1], before[5])


def _rest_over(tx: DbTx, there: dict[str, Any], due_at: float) -> None:
    """Take over a suspension that expired, as all on the list have. The next poll is the probe."""
    began = datetime.fromisoformat(there["feed_disabled_at"]).timestamp()
    tx.all(
        "set_state_rest",
        source_id=there["id"],
        rest_at=began,
        rest_until=began,
        due_at=due_at,
        rest_reason=there["feed_disable_reason"],
        rest_by=there["disabled_by"],
        due_why=str(DueReason.COOLDOWN),
    )


def _state(there: dict[str, Any], at: float, place: int, of: int) -> dict[str, Any]:
    due_at, why = feed_state.first(at, there["interval"], place, of)
    return {
        "source_id": there["id"],
        "name": there["name"],
        "feed_url": there["feed_url"],
        "host": host_of(there["feed_url"]),
        "interval_s": there["interval"],
        "due_at": due_at,
        "due_why": str(why),
    }


def source_event_fields(state: FeedState) -> dict[str, Any]:
    """Return what the other server knows, in the form of `told`."""
    rest_at = state.rest.disabled_at
    return {"source_id": state.source_id, "rest_at": -1.0 if rest_at is None else rest_at, "feed_url": state.feed_url}


async def tell_there(client: httpx2.AsyncClient, state: FeedState, moved_from: str) -> None:
    """Send the new URL of a feed that moved, and whether the feed is suspended.

    A URL that a user set there has priority. Results of the old URL are then ignored.
    """
    base = f"/api/v1/sources/{state.source_id}"
    there = await _answer(client.get(base))
    if moved_from and there.get("feed_url") == moved_from != state.feed_url:
        there = await _answer(client.patch(base, json={"feed_url": state.feed_url}))
    if there.get("feed_url") != state.feed_url:
        return
    if state.rest.disabled and state.rest.reason != MANUAL:
        await _answer(client.patch(f"{base}/feed-disable", json={"reason": state.rest.reason or ""}))
    else:
        await _answer(client.patch(f"{base}/feed-enable"))


async def _answer(asked: Awaitable[httpx2.Response]) -> dict[str, Any]:
    """Return the source on the other server; None if it was deleted or another source has that URL."""
    answer = await asked
    if answer.status_code in (404, 409):
        return {}
    answer.raise_for_status()
    source: dict[str, Any] = answer.json()
    return source
