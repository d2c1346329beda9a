"""The sync loop of one user at one provider: runs each operation when it is due, behind its target.

There is no tick. After a failure the next call is due after its delay, after a success after the interval. A slow
provider delays no other loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from tidegate import Fault, Held, fault_of
from tidegate.apps import Db
from tidegate.guard import Hold, TargetKey
from tidegate_apps.music.client import Limiters
from tidegate_apps.music.connections import ConnectionRow, Connections
from tidegate_apps.music.health import BlockingClock, Healths, OperationStates
from tidegate_apps.music.library_writer import LibraryWriter, SyncOperation
from tidegate_apps.music.provider import Batch, Operation, Provider, ProviderKind
from tidegate_apps.music.settings import MusicSettings, of_kind, operator_values

# -- state that the loops of a process share ---------------------------------------------------------------------------
# It outlives a single run of the job.

Pair = tuple[str, str]  # user and provider


@dataclass(slots=True, kw_only=True)
class SyncContext:
    """Use it on one event loop at a time."""

    db: Db
    settings: MusicSettings
    kinds: Mapping[str, ProviderKind]
    connections: Connections
    healths: Healths
    clock: BlockingClock
    agent: str
    keeping: LibraryWriter
    states: OperationStates
    limiters: Limiters
    dues: dict[SyncOperation, float] = field(default_factory=dict)  # monotonic time; infinite: a user must act
    generations: dict[Pair, int] = field(default_factory=dict)  # of the credentials that were last used
    asked: dict[Pair, float] = field(default_factory=dict)
    # Operations that had nothing to request, in order. They made no call, so an earlier start is not too soon.
    idle: dict[SyncOperation, None] = field(default_factory=dict)
    wakes: dict[Pair, Callable[[], None]] = field(default_factory=dict)
    loaded: bool = False

    def load(self) -> None:
        """Load the state of an earlier process, once."""
        if self.loaded:
            return
        keep_health = self.settings.keep_health
        if keep_health:
            self.healths.restore(self.db)
        else:
            self.db.all("clear_all_health")
        self.states.load(forget=not keep_health)
        self.loaded = True

    def enabled(self, kind: ProviderKind) -> bool:
        return of_kind(self.settings, kind).enabled

    def values(self, kind: ProviderKind, row: ConnectionRow | None) -> dict[str, str]:
        """Return the values of operator and user. Raises BadSecret if they cannot be decrypted."""
        mine = {} if row is None else self.connections.values(row)
        defaults = {default_field.name: default_field.default for default_field in kind.fields if default_field.default}
        return {**defaults, **operator_values(self.settings, kind), **mine}

    def due(self, operation: SyncOperation) -> float:
        return self.dues.get(operation, -math.inf)

    def news(self, user: str) -> None:
        """Wake operations that had nothing to request: the library of a user has new entries."""
        for lane in [lane for lane in self.idle if lane.user == user]:
            del self.idle[lane]
            self.dues.pop(lane, None)
            self.wakes.get((lane.user, lane.provider), lambda: None)()

    def forget(self, pair: Pair) -> None:
        """Clear all state of the key after a reconnect, so that the next call is due now."""
        user, provider = pair
        self.healths.forget(user, provider)
        self.states.forget(user, provider)
        for lane in [lane for lane in self.dues if (lane.user, lane.provider) == pair]:
            del self.dues[lane]


_log = logging.getLogger("tidegate.music")
B = TypeVar("B")
_BATCH_SIZE = 25  # entries per request
_OWN_FAULT = 30.0  # seconds until a retry after a fault of ours, such as an unavailable store
_CLOCK_MARGIN = 0.01  # seconds
_STEP = 1.0  # seconds of difference that count as a step of the clock


class _Failed(Exception):
    """A call of the provider failed; *fault* is its meaning. It never leaves this module."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.code)
        self.fault = fault


class SyncLoop:
    """Runs until it is cancelled. A cancelled call is not a failure."""

    def __init__(self, context: SyncContext, kind: ProviderKind, user: str, provider: Provider) -> None:
        self._context, self._kind, self._provider = context, kind, provider
        self._part: TargetKey = context.healths.of(user, kind.name)
        self._pair = (user, kind.name)
        self._operations = [SyncOperation(user, kind.name, operation) for operation in kind.operations]
        self._holds: dict[SyncOperation, Hold] = {}  # by operation
        self._wake = asyncio.Event()

    async def run(self) -> None:
        clock, context = self._context.clock, self._context
        context.wakes[self._pair] = self._wake.set
        try:
            while True:
                now = clock.monotonic()
                ready = [lane for lane in self._operations if context.due(lane) <= now]
                if not ready:
                    await self._rest(min(map(context.due, self._operations)) - now)
                for lane in ready:
                    await self._turn(lane)
        finally:
            context.wakes.pop(self._pair, None)
            with contextlib.suppress(Exception):  # its resources are gone either way
                await self._provider.aclose()

    def ask(self) -> None:
        """Sync now: ends delays, except after rejected credentials and for Retry-After."""
        self._part.retry_now()
        for lane in self._operations:
            if self._hold(lane) is None:
                self._context.dues.pop(lane, None)
        self._wake.set()

    def look(self, *, paused: bool) -> None:
        """Plan again if an operator paused, resumed or cleared it."""
        for lane in self._operations if paused else list(self._holds):
            if _another(self._holds.get(lane), self._hold(lane)):
                self._context.dues.pop(lane, None)
                self._wake.set()

    async def _rest(self, wait: float) -> None:
        self._wake.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if math.isinf(wait) else wait):
                await self._wake.wait()

    # -- one operation -------------------------------------------------------------------------------------------------

    async def _turn(self, operation: SyncOperation) -> None:
        """Run the operation if nothing holds it, and record the outcome."""
        context, state = self._context, self._context.states.of(operation)
        self._holds.pop(operation, None)
        hold = self._hold(operation)
        if hold is not None:
            state.plan(hold, self._plan(operation, hold))
            context.states.changed(operation)
            return
        state.begin(context.clock.now())
        context.states.changed(operation)
        try:
            done = await self._work(operation)
        except _Failed as failed:
            hold = self._hold(operation)
            due = self._plan(operation, hold)
            state.fail(context.clock.now(), failed.fault, self._failures(operation), hold, due)
        except Held:
            hold = self._hold(operation)
            state.plan(hold, self._plan(operation, hold))
        except Exception:  # a fault of ours or of our store, not of the provider
            _log.exception("music_not_synced user=%s provider=%s operation=%s", *_words(operation))
            context.dues[operation] = context.clock.monotonic() + _OWN_FAULT
            state.plan(None, context.clock.now() + _OWN_FAULT)
        else:
            due = self._plan(operation, None)
            if done is None:
                state.idle(context.clock.now(), due)  # there was nothing to request
                context.idle[operation] = None
            else:
                if done[0]:
                    context.news(operation.user)
                state.succeed(context.clock.now(), *done, due or 0.0)
                _log.log(logging.INFO if done[0] else logging.DEBUG, _SYNCED, *_words(operation), *done)
        finally:
            state.began_at = None
            context.states.changed(operation)

    def _hold(self, operation: SyncOperation) -> Hold | None:
        """Return the longest hold."""
        holds = self._part.explain(str(operation.operation))
        return max(holds, key=lambda each: math.inf if each.until is None else each.until, default=None)

    def _plan(self, operation: SyncOperation, hold: Hold | None) -> float | None:
        """Return when it runs next, for display; None if a user must act first."""
        clock = self._context.clock
        wait = float(of_kind(self._context.settings, self._kind).every)
        if hold is not None:
            self._holds[operation] = hold
            # A little longer than what remains: the two clocks may differ in the last digit, which would cause a busy
            # loop.
            wait = math.inf if hold.until is None else max(0.0, hold.until - clock.now()) + _CLOCK_MARGIN
        self._context.dues[operation] = clock.monotonic() + wait
        return None if math.isinf(wait) else clock.now() + wait

    def _failures(self, operation: SyncOperation) -> int:
        mine = (None, str(operation.operation))
        return max((health.failures for health in self._part.health() if health.operation in mine), default=1)

    async def _work(self, operation: SyncOperation) -> tuple[int, int] | None:
        """Return the number of rows and of rejected rows; None if there was nothing to request."""
        match operation.operation:
            case Operation.PLAYS:
                return await self._plays(operation)
            case Operation.PLAYLISTS:
                return await self._playlists(operation)
            case Operation.IDS | Operation.ART | Operation.TAGS:
                return await self._enrich(operation)

    async def _plays(self, operation: SyncOperation) -> tuple[int, int]:
        keeping = self._context.keeping
        mark = await asyncio.to_thread(keeping.mark, operation)
        items, bad = await self._plays_from(operation, mark)
        if await asyncio.to_thread(keeping.is_late, operation):
            if mark is not None:  # otherwise it was the full history
                late = await self._plays_from(operation, None, moves=False)
                items, bad = items + late[0], bad + late[1]
            await asyncio.to_thread(keeping.looked_back, operation)
        return items, bad

    async def _plays_from(self, operation: SyncOperation, mark: str | None, *, moves: bool = True) -> tuple[int, int]:
        keeping, items, bad = self._context.keeping, 0, 0
        async with contextlib.aclosing(self._steps(operation, lambda: self._provider.plays(mark))) as batches:
            async for batch in batches:
                partial_batch = batch if moves else replace(batch, mark=None)
                items += await asyncio.to_thread(keeping.plays, operation, partial_batch)
                bad += len(batch.bad)
                if batch.gap is not None:
                    _log.warning(_MISSING, *_words(operation), batch.gap.since, batch.gap.until)
        return items, bad

    async def _playlists(self, operation: SyncOperation) -> tuple[int, int]:
        keeping, items, seen, bad, began = self._context.keeping, 0, 0, 0, self._context.clock.now()
        async with contextlib.aclosing(self._steps(operation, self._provider.playlists)) as batches:
            async for batch in batches:
                items += await asyncio.to_thread(keeping.playlists, operation, batch)
                seen += len(batch.items)
                bad += len(batch.bad)
        if not bad:  # a playlist that could not be read is not gone
            await asyncio.to_thread(keeping.playlists_ended, operation, began, seen)
        return items, bad

    async def _enrich(self, operation: SyncOperation) -> tuple[int, int] | None:
        keeping, context, items, bad, asked = self._context.keeping, self._context, 0, 0, False
        while True:
            before = context.clock.now() - float(context.settings.ask_again)
            wanted = await asyncio.to_thread(keeping.wanted, operation, before, _BATCH_SIZE)
            if not wanted:
                return (items, bad) if asked else None
            asked, answered = True, set[int]()
            enrich = lambda wanted=wanted: self._provider.enrich(operation.operation, wanted)  # noqa: E731
            async with contextlib.aclosing(self._steps(operation, enrich)) as batches:
                async for batch in batches:
                    answered |= await asyncio.to_thread(keeping.found, operation, wanted, batch)
                    items += sum(not item.nothing for item in batch.items)
                    bad += len(batch.bad)
            if not answered:
                return items, bad  # otherwise it would request the same entries forever

    async def _steps(
        self, operation: SyncOperation, begin: Callable[[], AsyncIterator[Batch[B]]]
    ) -> AsyncGenerator[Batch[B]]:
        """Yield the batches of a provider. Each step is guarded, classified and counted."""
        batches = begin()

        @self._part.guard(operation=str(operation.operation))
        async def step() -> Batch[B] | None:
            return await anext(batches, None)

        try:
            while True:
                try:
                    batch = await step()
                except Held:
                    raise
                except Exception as error:
                    fault = fault_of(error)
                    if fault is None:
                        return  # this error counts as a successful response here
                    raise _Failed(fault) from error
                if batch is None:
                    return
                yield batch
        finally:
            if isinstance(batches, AsyncGenerator):
                await batches.aclose()


_MISSING = "music_plays_missing user=%s provider=%s operation=%s since=%s until=%s"
_SYNCED = "music_synced user=%s provider=%s operation=%s items=%s bad=%s"


def _another(was: Hold | None, hold: Hold | None) -> bool:
    """Return whether the hold has another reason or ends earlier."""
    if was is None or hold is None:
        return was is not hold
    ends, ended = (math.inf if side.until is None else side.until for side in (hold, was))
    return hold.reason != was.reason or ends < ended - _STEP


def _words(operation: SyncOperation) -> tuple[str, str, str]:
    return operation.user, operation.provider, str(operation.operation)
