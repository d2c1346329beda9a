"""Feeds that publish, move, fail and rest: what is published is kept once, and nobody is polled before it is due."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import AsyncIterator, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import httpx2

from tests.simulation.parts.part import Part
from tidegate import Queue, net
from tidegate.apps import Installed, install
from tidegate.guard import Seconds
from tidegate.store.base import now_of
from tidegate_apps.feeds import jobs
from tidegate_apps.feeds.app import app
from tidegate_apps.feeds.models import SourceRequest
from tidegate_apps.feeds.parsing import Feed, ParseError
from tidegate_apps.feeds.parsing.parser import read
from tidegate_apps.feeds.parsing.pool import packed
from tidegate_apps.feeds.settings import FeedsSettings
from tidegate_demo.simulators.feeds import FeedSimulator

if TYPE_CHECKING:
    from tests.simulation.machines import Machine
    from tests.simulation.world import World

FEEDS, SHOWN = 5, 8
LOOK = 20.0  # seconds between two looks at what is due
AFTER_A_STEP = 660.0  # seconds in which what was due may seem to be ahead: until the new time is believed
ILLS = (
    "unavailable", "broken", "not_found", "forbidden", "throttled", "hangs", "resets", "cut", "no_feed", "page",
    "empty", "gone", "moved", "elsewhere", "circle", "drips", "malformed", "gzip", "unvalidated",
)  # fmt: skip
STATE = "select due_at, rest_at, rest_until, rest_reason from feeds_state where source_id = ?"
ITEMS = "select guid, count(*) from feeds_item where source_id = ? group by guid"


async def parse(body: bytes, content_type: str, url: str) -> Feed:
    """In this process: what a child would answer."""
    answer = read([*packed(body), content_type[:200], url])
    if "error" in answer:
        raise ParseError(answer["error"])
    for name in ("skip_hours", "skip_days"):
        answer[name] = tuple(answer[name])
    return Feed(**answer)


class Feeds(Part):
    """One simulator for all machines."""

    name = "feeds"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.sim = FeedSimulator(feeds=FEEDS, items=SHOWN, clock=world.time)
        self.newest = dict.fromkeys(range(1, FEEDS + 1), SHOWN)
        self.ids: dict[int, int] = {}  # of sources, by the number of the feed
        self.early: list[str] = []

    def install(self, queue: Queue) -> Installed[Any]:
        outside = jobs.FeedDependencies(client=self._opened, rng=self.dice.random, look=LOOK)
        changed = dataclasses.replace(app, jobs=lambda there: jobs.declare(there, parse, outside))
        return install(changed, queue, FeedsSettings(interval=Seconds("5m"), contact="https://tidegate.example"))

    # -- what happens --------------------------------------------------------------------------------------------------

    async def live(self, end: float) -> None:
        for number in self.newest:
            self.ids[number] = await self.world.acknowledged(partial(self._added, number), self.dice)
        while await self.world.rest(self.dice.expovariate(1 / 300), end):
            number = self.dice.randint(1, FEEDS)
            self.newest[number] += 1
            self.sim.publish(number)

    def _added(self, number: int, machine: Machine) -> int:
        sources = machine.there[self.name].jobs.sources
        url = f"http://site-{number}.example/feed/{number}"
        found = sources.at(url)  # perhaps the answer to the first time was not heard
        return int(sources.add(SourceRequest(feed_url=url), "ada").id if found is None else found)

    def fall_ill(self) -> str:
        ill, number = self.dice.choice(ILLS), self.dice.randint(0, FEEDS)
        for each in (number,) if number else self.newest:
            self.sim.now(each, ill)
        return f"{number} {ill}"

    def mend(self) -> None:
        for number in self.newest:
            self.sim.now(number, "well")

    # -- fetching ------------------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def _opened(self, settings: FeedsSettings) -> AsyncIterator[Any]:
        yield self

    async def get(self, url: str, *, headers: Mapping[str, str] | None = None) -> net.FetchResponse:
        """As `net.Client.get`, without sockets."""
        self._asked(url)
        place, history = httpx2.URL(url), list[tuple[int, str]]()
        extensions = {"timeout": {"read": 30.0}}
        while True:
            request = httpx2.Request("GET", place, headers=dict(headers or {}), extensions=extensions)
            try:
                answer = await self.sim.transport().handle_async_request(request)
                body = await answer.aread()
            except httpx2.TimeoutException as error:
                raise net.TooSlow("too slow") from error
            except httpx2.TransportError as error:
                raise net.Broken("broken") from error
            if answer.status_code not in (301, 302, 303, 307, 308):
                return net.FetchResponse(
                    status=answer.status_code, headers=answer.headers, body=body, url=str(place), history=tuple(history)
                )
            history.append((answer.status_code, str(place)))
            place = place.join(answer.headers["Location"])
            if len(history) > 5 or any(str(place) == seen for _, seen in history):
                raise net.TooManyRedirects("it redirects in a circle")

    def _asked(self, url: str) -> None:
        number = int(url.rpartition("/")[2])
        self.world.note("poll", url)
        rows = self.world.rows(STATE, self.ids[number]) if number in self.ids else []
        if not rows or self.clock.monotonic() < self.world.stepped_at + AFTER_A_STEP:
            return
        due, rest, until, reason = rows[0]
        if due is None or due > self.world.desk.store.read(now_of) + 1:
            self.early.append(f"feed {number} was polled before it was due at {due}: rests {rest} to {until}, {reason}")

    # -- the end -------------------------------------------------------------------------------------------------------

    def put_right(self, machine: Machine) -> None:
        for number, id_ in self.ids.items():
            if self._rests(number):
                machine.there[self.name].jobs.sources.enable(id_, "ada")

    def _rests(self, number: int) -> bool:
        found = self.world.rows("select feed_disabled_at from feeds_source where id = ?", self.ids[number])
        return bool(found) and found[0][0] is not None

    def _lacks(self, number: int) -> list[str]:
        kept = dict(self.world.rows(ITEMS, self.ids[number]))
        newest = self.newest[number]
        return [f"{number}-{n}" for n in range(newest - SHOWN + 1, newest + 1) if f"{number}-{n}" not in kept]

    def settled(self) -> bool:
        return not any(self._rests(number) or self._lacks(number) for number in self.ids)

    def wrong(self) -> Iterator[str]:
        yield from self.early
        for number, id_ in self.ids.items():
            if lacks := self._lacks(number):
                yield f"feed {number} has published {lacks}, and nobody has them"
            yield from (f"entry {guid} is kept {n} times" for guid, n in self.world.rows(ITEMS, id_) if n > 1)
            known = {f"{number}-{n}" for n in range(1, self.newest[number] + 1)}
            if odd := {guid for guid, _ in self.world.rows(ITEMS, id_)} - known:
                yield f"feed {number} never published {sorted(odd)}"
