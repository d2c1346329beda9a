"""The loop of one user at one provider: its operations one after another, each when it is due, behind its gate.

Nothing waits for a tick: after a failure the next call is due when its wait is over, after a success when the interval
is. Nobody else waits for this loop, however long its provider takes.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import replace
from typing import Any, Final, TypeVar

from tidegate import Fault, Held, fault_of
from tidegate.guard import Hold, Part
from tidegate_apps.music.contract import Batch, Operation, Provider
from tidegate_apps.music.keeping import Lane
from tidegate_apps.music.kind import Kind
from tidegate_apps.music.workshop import Workshop

_log = logging.getLogger("tidegate.music")
T = TypeVar("T")
B = TypeVar("B")
_AT_ONCE = 25  # entries that are asked for together
_OWN_FAULT = 30.0  # seconds until it is tried again when the fault was ours, such as a store that is away
_AFTER = 0.01  # seconds
_STEP = 1.0  # seconds by which two clocks may part
_END: Final = object()


class _Failed(Exception):
    """A call of the provider failed; *fault* is what it means. Never leaves this file."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.code)
        self.fault = fault


class Loop:
    """It runs until it is cancelled. A call that is cancelled is no failure."""

    def __init__(self, shop: Workshop, kind: Kind, user: str, provider: Provider) -> None:
        self._shop, self._kind, self._provider = shop, kind, provider
        self._part: Part = shop.healths.of(user, kind.name)
        self._pair = (user, kind.name)
        self._lanes = [Lane(user, kind.name, each) for each in kind.operations]
        self._holds: dict[Lane, Hold] = {}  # what each waits for
        self._wake = asyncio.Event()

    async def run(self) -> None:
        clock, shop = self._shop.clock, self._shop
        shop.wakes[self._pair] = self._wake.set
        try:
            while True:
                now = clock.monotonic()
                ready = [lane for lane in self._lanes if shop.due(lane) <= now]
                if not ready:
                    await self._rest(min(map(shop.due, self._lanes)) - now)
                for lane in ready:
                    await self._turn(lane)
        finally:
            shop.wakes.pop(self._pair, None)
            with contextlib.suppress(Exception):  # whatever it held is gone with it
                await self._provider.aclose()

    def ask(self) -> None:
        """It is wanted now: waits are over, except after refused credentials and where the service asked for one."""
        self._part.hurry()
        for lane in self._lanes:
            if self._hold(lane) is None:
                self._shop.dues.pop(lane, None)
        self._wake.set()

    def look(self, *, paused: bool) -> None:
        """Somebody may have paused or resumed it, or cleared what it waits for: then it plans anew."""
        for lane in self._lanes if paused else list(self._holds):
            if _another(self._holds.get(lane), self._hold(lane)):
                self._shop.dues.pop(lane, None)
                self._wake.set()

    async def _rest(self, wait: float) -> None:
        self._wake.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if math.isinf(wait) else wait):
                await self._wake.wait()

    # -- one operation -------------------------------------------------------------------------------------------------

    async def _turn(self, lane: Lane) -> None:
        """Asks whether it may go, goes, and says how it went."""
        shop, state = self._shop, self._shop.states.of(lane)
        self._holds.pop(lane, None)
        hold = self._hold(lane)
        if hold is not None:
            state.planned(hold, self._plan(lane, hold))
            shop.states.changed(lane)
            return
        state.begun(shop.clock.now())
        shop.states.changed(lane)
        try:
            done = await self._work(lane)
        except _Failed as failed:
            hold = self._hold(lane)
            due = self._plan(lane, hold)
            state.went_wrong(shop.clock.now(), failed.fault, self._failures(lane), hold, due)
        except Held:
            hold = self._hold(lane)
            state.planned(hold, self._plan(lane, hold))
        except Exception:  # ours, or our store's: the provider is not to blame for it
            _log.exception("music_not_synced user=%s provider=%s operation=%s", *_words(lane))
            shop.dues[lane] = shop.clock.monotonic() + _OWN_FAULT
            state.planned(None, shop.clock.now() + _OWN_FAULT)
        else:
            due = self._plan(lane, None)
            if done is None:
                state.idled(shop.clock.now(), due)  # there was nothing to ask for
                shop.idle[lane] = None
            else:
                if done[0]:
                    shop.news(lane.user)
                state.went_well(shop.clock.now(), *done, due or 0.0)
                _log.log(logging.INFO if done[0] else logging.DEBUG, _SYNCED, *_words(lane), *done)
        finally:
            state.began_at = None
            shop.states.changed(lane)

    def _hold(self, lane: Lane) -> Hold | None:
        """What holds it for longest."""
        holds = self._part.explain(str(lane.operation))
        return max(holds, key=lambda each: math.inf if each.until is None else each.until, default=None)

    def _plan(self, lane: Lane, hold: Hold | None) -> float | None:
        """When it goes next, as people read it; None when a person must act first."""
        clock = self._shop.clock
        wait = self._shop.every(self._kind)
        if hold is not None:
            self._holds[lane] = hold
            # A little more than is left: the two clocks may differ in the last digit, and it would be asked for ever.
            wait = math.inf if hold.until is None else max(0.0, hold.until - clock.now()) + _AFTER
        self._shop.dues[lane] = clock.monotonic() + wait
        return None if math.isinf(wait) else clock.now() + wait

    def _failures(self, lane: Lane) -> int:
        mine = (None, str(lane.operation))
        return max((each.failures for each in self._part.health() if each.operation in mine), default=1)

    async def _work(self, lane: Lane) -> tuple[int, int] | None:
        """How many rows it brought and how many could not be read; None when there was nothing to ask for."""
        match lane.operation:
            case Operation.PLAYS:
                return await self._plays(lane)
            case Operation.PLAYLISTS:
                return await self._playlists(lane)
            case Operation.IDS | Operation.ART | Operation.TAGS:
                return await self._enrich(lane)

    async def _plays(self, lane: Lane) -> tuple[int, int]:
        keeping = self._shop.keeping
        mark = await _elsewhere(lambda: keeping.mark(lane))
        items, bad = await self._plays_from(lane, mark)
        if await _elsewhere(lambda: keeping.is_late(lane)):
            if mark is not None:  # else that was the whole of it
                late = await self._plays_from(lane, None, moves=False)
                items, bad = items + late[0], bad + late[1]
            await _elsewhere(lambda: keeping.looked_back(lane))
        return items, bad

    async def _plays_from(self, lane: Lane, mark: str | None, *, moves: bool = True) -> tuple[int, int]:
        keeping, items, bad = self._shop.keeping, 0, 0
        async with contextlib.aclosing(self._steps(lane, lambda: self._provider.plays(mark))) as batches:
            async for batch in batches:
                kept = batch if moves else replace(batch, mark=None)
                items += await _elsewhere(lambda kept=kept: keeping.plays(lane, kept))  # type: ignore[misc]
                bad += len(batch.bad)
                if batch.gap is not None:
                    _log.warning(_MISSING, *_words(lane), batch.gap.since, batch.gap.until)
        return items, bad

    async def _playlists(self, lane: Lane) -> tuple[int, int]:
        keeping, items, seen, bad, began = self._shop.keeping, 0, 0, 0, self._shop.clock.now()
        async with contextlib.aclosing(self._steps(lane, self._provider.playlists)) as batches:
            async for batch in batches:
                items += await _elsewhere(lambda batch=batch: keeping.playlists(lane, batch))  # type: ignore[misc]
                seen += len(batch.items)
                bad += len(batch.bad)
        if not bad:  # one that could not be read is not gone
            await _elsewhere(lambda: keeping.playlists_ended(lane, began, seen))
        return items, bad

    async def _enrich(self, lane: Lane) -> tuple[int, int] | None:
        keeping, shop, items, bad, asked = self._shop.keeping, self._shop, 0, 0, False
        while True:
            before = shop.clock.now() - float(shop.settings.ask_again)
            wanted = await _elsewhere(lambda before=before: keeping.wanted(lane, before, _AT_ONCE))  # type: ignore[misc]
            if not wanted:
                return (items, bad) if asked else None
            asked, answered = True, set[int]()
            enrich = lambda wanted=wanted: self._provider.enrich(lane.operation, wanted)  # noqa: E731
            async with contextlib.aclosing(self._steps(lane, enrich)) as batches:
                async for batch in batches:
                    answered |= await _elsewhere(
                        lambda batch=batch, wanted=wanted: keeping.found(lane, wanted, batch)  # type: ignore[misc]
                    )
                    items += sum(not each.nothing for each in batch.items)
                    bad += len(batch.bad)
            if not answered:
                return items, bad  # it would be asked for the same for ever

    async def _steps(self, lane: Lane, begin: Callable[[], AsyncIterator[Batch[B]]]) -> AsyncGenerator[Batch[B]]:
        """The batches of a provider. Each step asks the gate, is judged, and counts."""
        batches: Any = begin()

        @self._part.guard(operation=str(lane.operation))
        async def step() -> Any:
            return await anext(batches, _END)

        try:
            while True:
                try:
                    batch = await step()
                except Held:
                    raise
                except Exception as error:
                    fault = fault_of(error)
                    if fault is None:
                        return  # what looked like a failure is a good answer here
                    raise _Failed(fault) from error
                if batch is _END:
                    return
                yield batch
        finally:
            if hasattr(batches, "aclose"):
                await batches.aclose()


_MISSING = "music_plays_missing user=%s provider=%s operation=%s since=%s until=%s"
_SYNCED = "music_synced user=%s provider=%s operation=%s items=%s bad=%s"


def _another(was: Hold | None, hold: Hold | None) -> bool:
    """Whether it is held for another reason than it was, or not for so long."""
    if was is None or hold is None:
        return was is not hold
    ends, ended = (math.inf if each.until is None else each.until for each in (hold, was))
    return hold.reason != was.reason or ends < ended - _STEP


def _words(lane: Lane) -> tuple[str, str, str]:
    return lane.user, lane.provider, str(lane.operation)


async def _elsewhere(work: Callable[[], T]) -> T:
    """Without blocking the loop. A write that has begun is finished, whoever is cancelled meanwhile."""
    return await asyncio.get_running_loop().run_in_executor(None, work)
