"""Sources that another server manages: its list of feeds, and updates of what polls found.

The transaction of a poll inserts a job that updates the other server. The job waits behind a target while that server
is unavailable.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, NamedTuple

import httpx2

from tidegate import Held, Target, classify
from tidegate.apps import Db, DbTx
from tidegate.faults import Level
from tidegate_apps.feeds.codes import MANUAL
from tidegate_apps.feeds.state import DueReason, FeedState, first, host_of, new_row

_log = logging.getLogger("tidegate.feeds")
_PAGE_SIZE = 500


class KnownState(NamedTuple):
    """What the poller stores of a feed that another server manages."""

    source_id: int
    feed_url: str
    interval_s: float
    name: str
    due_at: float | None
    rest_at: float | None
    rest_until: float | None
    reported: int  # whether the other server has the current state

    def same(self, before: KnownState | None) -> bool:
        """Return whether the other server already had all of this at the request: URL, suspension and last update."""
        if before is None or not (self.reported and before.reported):
            return False
        return (self.feed_url, self.rest_at) == (before.feed_url, before.rest_at)


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
        before = await asyncio.get_running_loop().run_in_executor(None, self._db.read, _known)
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
        await self._db.awrite(lambda tx: _adopt(tx, listed, before, self._now()))

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


def _known(tx: DbTx) -> dict[int, KnownState]:
    """Return the stored state of each feed, by source."""
    states: dict[int, KnownState] = {}
    after = 0
    while page := tx.query_as(KnownState, "known_states", after=after, n=_PAGE_SIZE):
        states.update((state.source_id, state) for state in page)
        after = page[-1].source_id
    return states


def _adopt(tx: DbTx, listed: list[dict[str, Any]], before: dict[int, KnownState], at: float) -> None:
    """Apply the list: poll new feeds, stop polling those that are no longer listed.

    *before* is the state when the list was requested. The list may lack updates that were sent since then.
    """
    known = _known(tx)
    new = [source for source in listed if source["id"] not in known]
    if new:
        tx.many("add_state", [_new_row(source, at, place, len(new)) for place, source in enumerate(new)])
    for source in new:
        if source["feed_disabled_at"] is not None:
            _rest_over(tx, source, at)
    for source in listed:
        state = known.get(source["id"])
        if state is not None and state.same(before.get(state.source_id)):
            _follow(tx, state, source, at)
    there = {source["id"] for source in listed}
    for state in known.values():
        resting = state.rest_at is not None and state.rest_until is not None and state.rest_until > at
        planned = state.due_at is not None and not resting
        if state.source_id not in there and planned and state.same(before.get(state.source_id)):
            tx.all("parked", source_id=state.source_id)


def _follow(tx: DbTx, state: KnownState, there: dict[str, Any], at: float) -> None:
    if there["feed_url"] != state.feed_url:
        tx.all(
            "set_address",
            source_id=state.source_id,
            feed_url=there["feed_url"],
            host=host_of(there["feed_url"]),
            due_at=at,
            due_why=str(DueReason.NEW),
        )
    if (there["interval"], there["name"]) != (state.interval_s, state.name):
        tx.many("add_state", [_new_row(there, at, 0, 1)])
    if state.rest_at is not None and there["feed_disabled_at"] is None:
        # An operator enabled it there.
        tx.all(
            "set_state_rest",
            source_id=state.source_id,
            rest_at=None,
            rest_until=None,
            rest_reason=None,
            rest_by=None,
            due_at=0.0,
            due_why=str(DueReason.ASKED),
        )
    elif state.rest_at is None and there["feed_disabled_at"] is not None:
        _rest_over(tx, there, at if state.due_at is None else state.due_at)
    elif state.due_at is None:
        tx.all("set_due", source_id=state.source_id, due_at=at, due_why=str(DueReason.NEW))


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


def _new_row(there: dict[str, Any], at: float, place: int, of: int) -> dict[str, object]:
    interval = there["interval"]
    return new_row(there["id"], there["name"], there["feed_url"], interval, first(at, interval, place, of))


def source_event_fields(state: FeedState) -> dict[str, object]:
    """Return what the other server knows, in the form of `told`."""
    rest_at = -1.0 if state.rest_at is None else state.rest_at
    return {"source_id": state.source_id, "rest_at": rest_at, "feed_url": state.feed_url}


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
    """Return the source on the other server; empty if it was deleted or another source has that URL."""
    answer = await asked
    if answer.status_code in (404, 409):
        return {}
    answer.raise_for_status()
    source: dict[str, Any] = answer.json()
    return source
