"""The poller's side of the source manager: in this process, or another server behind a gate.

Here, a feed that rests is written with the poll that led to it, in one transaction. There, the poll puts in a job that
tells the other server, in one transaction too: it waits behind a gate for as long as that server is away.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import httpx2

from tidegate import Db, DbTx, Held, Target, classify
from tidegate_apps.feeds import dues
from tidegate_apps.feeds.dues import Why
from tidegate_apps.feeds.sources import AUTO, Sources
from tidegate_apps.feeds.verdicts import FeedState, host_of

_log = logging.getLogger("tidegate.feeds")
_PAGE = 500


class Here:
    """The sources are in this database."""

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


class There:
    """The sources are at another server. *tell* puts in a job that brings it up to date with one feed."""

    elsewhere = True

    def __init__(
        self,
        db: Db,
        target: Target,
        client: Callable[[], httpx2.AsyncClient],
        now: Callable[[], float],
        tell: Callable[[DbTx, FeedState], object],
    ) -> None:
        self._db, self._target, self._client, self._now, self._tell = db, target, client, now, tell

    def disabled(self, tx: DbTx, state: FeedState, reason: str) -> None:
        self._tell(tx, state)

    def enabled(self, tx: DbTx, state: FeedState) -> None:
        self._tell(tx, state)

    def moved(self, tx: DbTx, state: FeedState, url: str) -> bool:
        self._tell(tx, state)
        return True

    async def refresh(self) -> None:
        """Reads the list of what may be polled. While the other server is away, what it said last counts."""
        try:
            listed = await self._target.acall(self._list)
        except Held:
            return
        except Exception as error:
            fault = classify(error)
            code = "unexpected" if fault is None else fault.code
            _log.warning("sources_not_listed error_type=%s error=%s", code, str(error)[:200])
            return
        await self._db.awrite(lambda tx: self._adopt(tx, listed))

    async def _list(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        cursor: str | None = None
        while True:
            query = {"feed_active": "true", "limit": str(_PAGE), **({"cursor": cursor} if cursor else {})}
            answer = await self._client().get("/api/v1/sources", params=query)
            answer.raise_for_status()
            page = answer.json()
            found += page["items"]
            cursor = page["next_cursor"]
            if cursor is None:
                return found

    def _adopt(self, tx: DbTx, listed: list[dict[str, Any]]) -> None:
        """The list becomes what is polled: new ones are due, those that are not on it any more are not."""
        at = self._now()
        known = {row[0]: row for row in _known(tx)}
        new = [each for each in listed if each["id"] not in known]
        if new:
            tx.many("add_state", [_state(each, at, place, len(new)) for place, each in enumerate(new)])
        for each in listed:
            row = known.get(each["id"])
            if row is not None:
                self._follow(tx, row, each, at)
        there = {each["id"] for each in listed}
        for row in known.values():
            resting = row[5] is not None and row[6] is not None and row[6] > at
            if row[0] not in there and row[4] is not None and not resting and row[7]:
                tx.all("parked", source_id=row[0])

    def _follow(self, tx: DbTx, row: tuple[Any, ...], there: dict[str, Any], at: float) -> None:
        id_, url, interval, name, due_at, rest_at, _, told = row
        if there["feed_url"] != url and told:
            tx.all(
                "set_address", source_id=id_, feed_url=there["feed_url"], host=host_of(there["feed_url"]), due_at=at,
                due_why=str(Why.NEW),
            )  # fmt: skip
        if (there["interval"], there["name"]) != (interval, name):
            tx.many("add_state", [_state(there, at, 0, 1)])
        if told and rest_at is not None and there["feed_disabled_at"] is None:
            # A person enabled it there.
            tx.all(
                "set_state_rest", source_id=id_, rest_at=None, rest_until=None, rest_reason=None, rest_by=None,
                due_at=0.0, due_why=str(Why.ASKED),
            )  # fmt: skip
        elif due_at is None:
            tx.all("set_due", source_id=id_, due_at=at, due_why=str(Why.NEW))


def _known(tx: DbTx) -> Iterator[tuple[Any, ...]]:
    after = 0
    while rows := tx.all("known_states", after=after, n=_PAGE):
        yield from rows
        after = rows[-1][0]


def _state(there: dict[str, Any], at: float, place: int, of: int) -> dict[str, Any]:
    due_at, why = dues.first(at, there["interval"], place, of)
    return {
        "source_id": there["id"], "name": there["name"], "feed_url": there["feed_url"],
        "host": host_of(there["feed_url"]), "interval_s": there["interval"], "due_at": due_at, "due_why": str(why),
    }  # fmt: skip
