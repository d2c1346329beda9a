"""One turn of syncing: a loop for every user at every provider, begun, ended and replaced as connections change."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import httpx2

from tidegate.faults import Code
from tidegate.secrets import BadSecret
from tidegate_apps.music import factory
from tidegate_apps.music.codes import UNREADABLE, UNUSABLE
from tidegate_apps.music.connections import Row
from tidegate_apps.music.contract import Connection, Surroundings
from tidegate_apps.music.entering import WrongValue, by_itself
from tidegate_apps.music.keeping import Lane
from tidegate_apps.music.kind import Kind
from tidegate_apps.music.loop import Loop
from tidegate_apps.music.settings import declared
from tidegate_apps.music.workshop import Pair, Workshop

_log = logging.getLogger("tidegate.music")
_OWN_FAULT = 30.0  # seconds until one that could not begin, or ended by itself, is begun again
_GRACE = 0.25  # seconds that others wait for one that ends
_LAST = 5.0  # seconds that a stop waits for all of them


@dataclass(slots=True)
class _Running:
    loop: Loop
    task: asyncio.Task[None]
    generation: int


class Syncer:
    """Ends promptly when it is told to; whatever it was in the middle of is done again from the last mark."""

    def __init__(self, shop: Workshop, transport: httpx2.AsyncBaseTransport) -> None:
        self._shop, self._transport = shop, transport
        self._running: dict[Pair, _Running] = {}
        self._closing: dict[Pair, asyncio.Task[None]] = {}  # told to end; one that renews a token may need a while
        self._again: dict[Pair, float] = {}  # not running although they should, and when they are begun again
        self._rows: dict[Pair, Row] = {}
        self._version = 0

    async def run(self, stop: Callable[[], bool]) -> None:
        shop = self._shop
        await asyncio.to_thread(self._begin)
        try:
            while not stop():
                changed = await asyncio.to_thread(shop.connections.changed, self._version)
                if changed:
                    await self._changed(changed)
                await self._revive()
                self._look()
                await self._write()
                await shop.clock.asleep(float(shop.settings.look_every))
        finally:
            await self._end(list(self._running), _LAST)
            for task in self._closing.values():
                task.cancel()  # it does not even wait for what is under way
            await self._end([], _GRACE)
            await self._write()

    # -- connections ---------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        shop = self._shop
        for (user, provider), values in declared(shop.settings).items():
            kind = shop.kinds.get(provider)
            if kind is None:
                _log.error("music_not_connected user=%s provider=%s reason=unknown_provider", user, provider)
            else:
                try:
                    shop.connections.declare(user, kind, values)
                except WrongValue as error:
                    _log.error("music_not_connected user=%s provider=%s reason=%s", user, provider, error)
        shop.load()

    async def _changed(self, rows: list[Row]) -> None:
        for row in rows:
            self._rows[row.user, row.provider] = row
            self._version = max(self._version, row.version)
        wanted = self._wanted()
        gone = [
            pair
            for pair, running in self._running.items()
            if pair not in wanted or running.generation != _generation(wanted[pair])
        ]
        await self._end(gone, _GRACE)
        for row in rows:
            self._again.pop((row.user, row.provider), None)
            if not row.there and (row.user, row.provider) not in wanted:
                await self._forgotten((row.user, row.provider))
        await asyncio.to_thread(self._shop.healths.caught_up, {provider for _, provider in wanted})
        for pair, row_or_none in wanted.items():
            if pair not in self._running and pair not in self._again:
                self._start(pair, row_or_none)
            asked = 0.0 if row_or_none is None else row_or_none.asked_at
            # Who asked before this process began is served by its first call.
            if pair in self._running and asked > self._shop.asked.get(pair, asked):
                self._running[pair].loop.ask()
            self._shop.asked[pair] = asked

    def _wanted(self) -> dict[Pair, Row | None]:
        """Every user at every provider that they are connected to; some need no connection of their own."""
        shop = self._shop
        there = {pair: row for pair, row in self._rows.items() if row.there}
        alone = [kind for kind in shop.kinds.values() if by_itself(kind, shop.operator(kind))]
        users = {user for user, _ in there}
        found: dict[Pair, Row | None] = {
            (user, kind.name): None for user in users for kind in alone if (user, kind.name) not in self._rows
        }
        found.update(there)
        return {pair: row for pair, row in found.items() if pair[1] in shop.kinds and shop.enabled(shop.kinds[pair[1]])}

    async def _forgotten(self, pair: Pair) -> None:
        self._shop.forget(pair)
        self._shop.generations.pop(pair, None)
        user, provider = pair
        await asyncio.to_thread(lambda: self._shop.db.all("forget_states", user_id=user, provider=provider))

    # -- loops ---------------------------------------------------------------------------------------------------------

    async def _revive(self) -> None:
        """Begins again what ended by itself, what could not begin, and what had to wait for the one before it."""
        now = self._shop.clock.monotonic()
        for pair in [pair for pair, running in self._running.items() if running.task.done()]:
            _log.warning("music_loop_begins_again user=%s provider=%s", *pair)
            del self._running[pair]
            self._again[pair] = now + _OWN_FAULT
        due = [pair for pair, at in self._again.items() if at <= now]
        for pair in due:
            # The one before may have saved other credentials, of which no change tells.
            row = await asyncio.to_thread(self._shop.connections.get, *pair)
            if row is not None:
                self._rows[pair] = row
        wanted = self._wanted() if due else {}
        for pair in due:
            del self._again[pair]
            if pair in wanted:
                self._start(pair, wanted[pair])

    def _start(self, pair: Pair, row: Row | None) -> None:
        if pair in self._closing:
            if not self._closing[pair].done():
                self._again[pair] = self._shop.clock.monotonic()
                return
            del self._closing[pair]
        try:
            self._begin_loop(pair, row)
        except BadSecret:
            self._refused(pair, UNREADABLE, None)
        except Exception:  # a provider's own, perhaps somebody else's: the others go on
            _log.exception("music_not_begun user=%s provider=%s", *pair)
            self._again[pair] = self._shop.clock.monotonic() + _OWN_FAULT
            self._refused(pair, UNUSABLE, self._shop.clock.now() + _OWN_FAULT)

    def _begin_loop(self, pair: Pair, row: Row | None) -> None:
        shop, (user, provider) = self._shop, pair
        kind, generation = shop.kinds[provider], _generation(row)
        if shop.generations.get(pair, generation) != generation:
            shop.forget(pair)
        shop.generations[pair] = generation
        values = shop.values(kind, row)
        there = Surroundings(
            transport=self._transport, clock=shop.clock, paces=shop.limiters, save=_Save(shop, kind, row),
            agent=shop.agent, addresses=shop.addresses(kind),
            loopback=row is not None and shop.connections.loopback(row),
        )  # fmt: skip
        made = factory.made(kind, Connection(user=user, provider=provider, values=values), there)
        if made is None:
            return  # something that it needs has not been entered
        loop = Loop(shop, kind, user, made)
        task = asyncio.create_task(loop.run(), name=f"music {provider} of {user}")
        task.add_done_callback(_ended)
        self._running[pair] = _Running(loop, task, generation)

    def _look(self) -> None:
        """People may have paused a provider, or cleared what was held against a user."""
        paused = self._shop.healths.paused()
        for (_, provider), running in self._running.items():
            running.loop.look(paused=provider in paused)

    def _refused(self, pair: Pair, code: Code, due: float | None) -> None:
        """Nothing can be called with what was entered. *due*: when it is tried again; None: when a person has acted."""
        shop, fault = self._shop, code.fault("connection")
        for operation in shop.kinds[pair[1]].operations:
            lane = Lane(*pair, operation)
            shop.states.of(lane).went_wrong(shop.clock.now(), fault, 1, None, due)
            shop.states.of(lane).held = "fatal" if due is None else "backoff"
            shop.states.changed(lane)

    async def _end(self, pairs: list[Pair], most: float) -> None:
        """Tells them to end, and waits for that, but not for ever: they close by themselves."""
        for pair in pairs:
            task = self._closing[pair] = self._running.pop(pair).task
            task.cancel()
        if self._closing:
            await asyncio.wait(self._closing.values(), timeout=most)
        self._closing = {pair: task for pair, task in self._closing.items() if not task.done()}

    async def _write(self) -> None:
        """How all of them are, for people, and for the next process where the settings want that."""
        shop = self._shop
        if not shop.states.waiting:
            return
        rows = shop.states.taken()
        pairs = {(str(row["user_id"]), str(row["provider"])) for row in rows}

        def write() -> None:
            shop.states.write(rows)
            if shop.settings.keep_health:
                shop.healths.keep(shop.db, pairs)

        try:
            await asyncio.to_thread(write)
        except Exception:  # the store is away: the next look writes what is true then
            _log.exception("music_states_not_written")
            shop.states.put_back(rows)


def _ended(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("music_loop_ended name=%s", task.get_name(), exc_info=error)


def _generation(row: Row | None) -> int:
    return 0 if row is None else row.generation


class _Save:
    """Keeps rotated credentials of one connection; they are on disk when it returns."""

    def __init__(self, shop: Workshop, kind: Kind, row: Row | None) -> None:
        self._shop, self._kind, self._row = shop, kind, row

    async def __call__(self, changes: Mapping[str, str]) -> None:
        row, shop, kind = self._row, self._shop, self._kind
        if row is not None:
            await asyncio.to_thread(lambda: shop.connections.save(row, kind, changes))
