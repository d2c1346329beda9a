"""Supervises the sync loops: one per user and provider, started, stopped and replaced as connections change."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import httpx2

from tidegate.faults import Code
from tidegate.secrets import BadSecret
from tidegate_apps.music import registry
from tidegate_apps.music.connections import ConnectionRow
from tidegate_apps.music.health import UNREADABLE, UNUSABLE
from tidegate_apps.music.library_writer import SyncOperation
from tidegate_apps.music.provider import ProviderConnection, ProviderContext, ProviderKind
from tidegate_apps.music.registry import WrongValue, by_itself
from tidegate_apps.music.settings import addresses, declared, operator_values
from tidegate_apps.music.sync_loop import Pair, SyncContext, SyncLoop

_log = logging.getLogger("tidegate.music")
_OWN_FAULT = 30.0  # seconds until a loop that failed to start or crashed is restarted
_END_SECONDS = 0.25  # seconds to wait for a loop to end
_STOP_SECONDS = 5.0  # seconds that a stop waits for all loops


@dataclass(slots=True)
class _Running:
    loop: SyncLoop
    task: asyncio.Task[None]
    generation: int


class SyncSupervisor:
    """Stops promptly. Interrupted work is repeated from the last mark."""

    def __init__(self, context: SyncContext, transport: httpx2.AsyncBaseTransport) -> None:
        self._context, self._transport = context, transport
        self._running: dict[Pair, _Running] = {}
        self._closing: dict[Pair, asyncio.Task[None]] = {}  # cancelled; one that renews a token may need a while
        self._again: dict[Pair, float] = {}  # not running, and when they are restarted
        self._rows: dict[Pair, ConnectionRow] = {}
        self._version = 0

    async def run(self, stop: Callable[[], bool]) -> None:
        context = self._context
        await asyncio.to_thread(self._begin)
        try:
            while not stop():
                changed = await asyncio.to_thread(context.connections.changed, self._version)
                if changed:
                    await self._changed(changed)
                await self._revive()
                self._look()
                await self._write()
                await context.clock.asleep(float(context.settings.look_every))
        finally:
            await self._end(list(self._running), _STOP_SECONDS)
            for task in self._closing.values():
                task.cancel()  # do not wait for calls in flight
            await self._end([], _END_SECONDS)
            await self._write()

    # -- connections ---------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        context = self._context
        for (user, provider), values in declared(context.settings).items():
            kind = context.kinds.get(provider)
            if kind is None:
                _log.error("music_not_connected user=%s provider=%s reason=unknown_provider", user, provider)
            else:
                try:
                    context.connections.declare(user, kind, values)
                except WrongValue as error:
                    _log.error("music_not_connected user=%s provider=%s reason=%s", user, provider, error)
        context.load()

    async def _changed(self, rows: list[ConnectionRow]) -> None:
        for row in rows:
            self._rows[row.user, row.provider] = row
            self._version = max(self._version, row.version)
        wanted = self._wanted()
        gone = [
            pair
            for pair, running in self._running.items()
            if pair not in wanted or running.generation != _generation(wanted[pair])
        ]
        await self._end(gone, _END_SECONDS)
        for row in rows:
            self._again.pop((row.user, row.provider), None)
            if not row.there and (row.user, row.provider) not in wanted:
                await self._forgotten((row.user, row.provider))
        await asyncio.to_thread(self._context.healths.caught_up, {provider for _, provider in wanted})
        for pair, row_or_none in wanted.items():
            if pair not in self._running and pair not in self._again:
                self._start(pair, row_or_none)
            asked = 0.0 if row_or_none is None else row_or_none.asked_at
            # The first call serves requests from before the start of this process.
            if pair in self._running and asked > self._context.asked.get(pair, asked):
                self._running[pair].loop.ask()
            self._context.asked[pair] = asked

    def _wanted(self) -> dict[Pair, ConnectionRow | None]:
        """Return every user with every connected provider; some providers need no connection."""
        context = self._context
        there = {pair: row for pair, row in self._rows.items() if row.there}
        alone = [kind for kind in context.kinds.values() if by_itself(kind, operator_values(context.settings, kind))]
        users = {user for user, _ in there}
        pairs: dict[Pair, ConnectionRow | None] = {
            (user, kind.name): None for user in users for kind in alone if (user, kind.name) not in self._rows
        }
        pairs.update(there)
        return {
            pair: row
            for pair, row in pairs.items()
            if pair[1] in context.kinds and context.enabled(context.kinds[pair[1]])
        }

    async def _forgotten(self, pair: Pair) -> None:
        self._context.forget(pair)
        self._context.generations.pop(pair, None)
        user, provider = pair
        await asyncio.to_thread(lambda: self._context.db.all("forget_states", user_id=user, provider=provider))

    # -- loops ---------------------------------------------------------------------------------------------------------

    async def _revive(self) -> None:
        """Restart loops that crashed, failed to start, or had to wait for their predecessor."""
        now = self._context.clock.monotonic()
        for pair in [pair for pair, running in self._running.items() if running.task.done()]:
            _log.warning("music_loop_begins_again user=%s provider=%s", *pair)
            del self._running[pair]
            self._again[pair] = now + _OWN_FAULT
        due = [pair for pair, at in self._again.items() if at <= now]
        for pair in due:
            # The predecessor may have saved new credentials, which no change reports.
            row = await asyncio.to_thread(self._context.connections.get, *pair)
            if row is not None:
                self._rows[pair] = row
        wanted = self._wanted() if due else {}
        for pair in due:
            del self._again[pair]
            if pair in wanted:
                self._start(pair, wanted[pair])

    def _start(self, pair: Pair, row: ConnectionRow | None) -> None:
        if pair in self._closing:
            if not self._closing[pair].done():
                self._again[pair] = self._context.clock.monotonic()
                return
            del self._closing[pair]
        try:
            self._begin_loop(pair, row)
        except BadSecret:
            self._refused(pair, UNREADABLE, None)
        except Exception:  # perhaps third-party code: the other loops continue
            _log.exception("music_not_begun user=%s provider=%s", *pair)
            self._again[pair] = self._context.clock.monotonic() + _OWN_FAULT
            self._refused(pair, UNUSABLE, self._context.clock.now() + _OWN_FAULT)

    def _begin_loop(self, pair: Pair, row: ConnectionRow | None) -> None:
        context, (user, provider) = self._context, pair
        kind, generation = context.kinds[provider], _generation(row)
        if context.generations.get(pair, generation) != generation:
            context.forget(pair)
        context.generations[pair] = generation
        values = context.values(kind, row)
        there = ProviderContext(
            transport=self._transport,
            clock=context.clock,
            paces=context.limiters,
            save=_Save(context, kind, row),
            agent=context.agent,
            addresses=addresses(context.settings, kind),
            loopback=row is not None and context.connections.loopback(row),
        )
        made = registry.make_provider(kind, ProviderConnection(user=user, provider=provider, values=values), there)
        if made is None:
            return  # a required value is missing
        loop = SyncLoop(context, kind, user, made)
        task = asyncio.create_task(loop.run(), name=f"music {provider} of {user}")
        task.add_done_callback(_ended)
        self._running[pair] = _Running(loop, task, generation)

    def _look(self) -> None:
        """Check whether an operator paused a provider or cleared the state of a user."""
        paused = self._context.healths.paused()
        for (_, provider), running in self._running.items():
            running.loop.look(paused=provider in paused)

    def _refused(self, pair: Pair, code: Code, due: float | None) -> None:
        """Record that the entered values cannot be used. *due*: the next try; None: after a user has acted."""
        context, fault = self._context, code.fault("connection")
        for operation in context.kinds[pair[1]].operations:
            lane = SyncOperation(*pair, operation)
            context.states.of(lane).fail(context.clock.now(), fault, 1, None, due)
            context.states.of(lane).held = "fatal" if due is None else "backoff"
            context.states.changed(lane)

    async def _end(self, pairs: list[Pair], limit: float) -> None:
        """Cancel loops and wait up to *limit* seconds. They clean up in the background."""
        for pair in pairs:
            task = self._closing[pair] = self._running.pop(pair).task
            task.cancel()
        if self._closing:
            await asyncio.wait(self._closing.values(), timeout=limit)
        self._closing = {pair: task for pair, task in self._closing.items() if not task.done()}

    async def _write(self) -> None:
        """Write the states for display, and for the next process if the settings say so."""
        context = self._context
        if not context.states.waiting:
            return
        rows = context.states.taken()
        pairs = {(str(row["user_id"]), str(row["provider"])) for row in rows}

        def write() -> None:
            context.states.write(rows)
            if context.settings.keep_health:
                context.healths.keep(context.db, pairs)

        try:
            await asyncio.to_thread(write)
        except Exception:  # the store is unavailable: the next write has the newer state
            _log.exception("music_states_not_written")
            context.states.put_back(rows)


def _ended(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("music_loop_ended name=%s", task.get_name(), exc_info=error)


def _generation(row: ConnectionRow | None) -> int:
    return 0 if row is None else row.generation


class _Save:
    """Saves rotated credentials of one connection, durably."""

    def __init__(self, context: SyncContext, kind: ProviderKind, row: ConnectionRow | None) -> None:
        self._context, self._kind, self._row = context, kind, row

    async def __call__(self, changes: Mapping[str, str]) -> None:
        row, context, kind = self._row, self._context, self._kind
        if row is not None:
            await asyncio.to_thread(lambda: context.connections.save(row, kind, changes))
