"""Probes of targets: the depth before a send, and the health while a breaker is open."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from tidegate.errors import StoreError
from tidegate.faults.classification import classify
from tidegate.faults.fault import Fault
from tidegate.guard import capacity
from tidegate.guard.breaker_policy import OpenedBy
from tidegate.guard.breaker_state import CLOSED, OPEN
from tidegate.guard.capacity import DEPTH_TIMEOUT, FillLevel, QueueDepth
from tidegate.guard.policy import TargetRules
from tidegate.jobs.gates import ClaimGates, ClaimGateTx, DepthRequest
from tidegate.jobs.threads import InlineExecutors
from tidegate.targets import breaker, table
from tidegate.targets.breaker import StoredBreaker
from tidegate.threads import DaemonPool

if TYPE_CHECKING:
    from tidegate.events import Event
    from tidegate.jobs.worker import Worker
    from tidegate.store.base import Tx

_log = logging.getLogger("tidegate.worker")
_PROBER = "probe"


class Prober:
    """Runs the probes of one worker. A lease in the store lets only one worker probe a target at a time."""

    def __init__(self, worker: Worker, gates: ClaimGates) -> None:
        self._worker, self._gates = worker, gates
        self._tasks: set[asyncio.Task[None]] = set()
        self._next_suspicion: dict[str, float] = {}
        # Each probe has a thread, so that one that hangs does not block the others.
        questions = [probe for rules in gates.rules.values() for probe in (rules.probe, rules.capacity) if probe]
        self._pool = DaemonPool(max(1, len(questions)), "tidegate-ask")
        self._hanging: set[str] = set()  # probes whose threads have not returned

    @property
    def busy(self) -> bool:
        """Whether a probe is running."""
        return bool(self._tasks)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._pool.shutdown()

    # -- depth ---------------------------------------------------------------------------------------------------

    def ask(self, asks: Iterable[DepthRequest]) -> None:
        for ask in asks:
            self._start(self._depth(ask))

    async def _depth(self, ask: DepthRequest) -> None:
        policy = self._gates.rules[ask.target].capacity
        if policy is None:
            return
        try:
            answer = _checked(await self._call(policy.depth, f"depth {ask.target}"))
        except Exception as error:
            _log.warning("depth_unknown target=%s error=%s", ask.target, _short(error))
            await self._fill(
                ask.target, lambda filling, now: capacity.depth_failed(filling, policy.limits, ask.who, now)
            )
        else:
            await self._fill(
                ask.target, lambda filling, now: capacity.depth_observed(filling, policy.limits, ask.who, answer, now)
            )

    async def _fill(self, target: str, change: Callable[[FillLevel, float], FillLevel]) -> None:
        await self._at_gates(lambda gates: gates.fill(target, change))

    # -- health --------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Probes targets whose breaker is open, for ever."""
        await asyncio.gather(*(self._watch(rules) for rules in self._probed()))
        await asyncio.Event().wait()

    async def once(self) -> None:
        """Probes targets whose breaker is open, once, for a drain."""
        await asyncio.gather(*(self._probe(rules) for rules in self._probed()))

    def _probed(self) -> list[TargetRules]:
        return [rules for rules in self._gates.rules.values() if rules.probe is not None and rules.breaker is not None]

    async def _watch(self, rules: TargetRules) -> None:
        while True:
            await self._worker.clock.asleep(rules.probe_every)
            await self._probe(rules)

    async def _probe(self, rules: TargetRules) -> None:
        try:
            if await self._worker.at_store(partial(self._try_lead, rules)) and await self._answers(rules):
                await self._at_gates(lambda gates: gates.move(rules.name, _half_open(gates), _PROBER))
        except StoreError as error:
            _log.warning("probe_not_recorded target=%s error=%s", rules.name, type(error).__name__)

    def _try_lead(self, rules: TargetRules, tx: Tx) -> bool:
        row = table.target(tx, rules.name)
        if row is None or row.breaker.state != OPEN or row.breaker.by is not None:
            return False
        lease = rules.probe_every * 2 + DEPTH_TIMEOUT
        return bool(tx.query("lead", {"name": f"probe:{rules.name}", "holder": self._worker.id, "lease": lease}))

    async def _answers(self, rules: TargetRules) -> bool:
        """Whether the probe succeeds. It may raise, hang or return an error response."""
        if rules.probe is None:
            return False
        try:
            answer = await self._call(rules.probe, f"probe {rules.name}")
            fault = classify(answer, rules.rule_pack) if hasattr(answer, "status_code") else None
        except Exception as error:
            _log.info("probe_failed name=%s error=%s", rules.name, _short(error))
            return False
        if fault is not None:
            _log.info("probe_failed name=%s code=%s", rules.name, fault.code)
        return fault is None

    def on_fault(self, target: str, fault: Fault) -> None:
        """Probes a target after a failed job if its policy says so. No job of it is claimed meanwhile."""
        rules = self._gates.rules.get(target)
        if rules is None or not rules.suspects(fault) or target in self._gates.probing_targets:
            return
        now = self._worker.clock.monotonic()
        if now < self._next_suspicion.get(target, now):
            return
        self._next_suspicion[target] = now + min(rules.probe_every, 1.0)
        self._gates.probing_targets.add(target)
        self._start(self._suspect(rules))

    async def _suspect(self, rules: TargetRules) -> None:
        try:
            if not await self._answers(rules):
                await self._at_gates(lambda gates: gates.move(rules.name, _tripped(rules, gates), _PROBER))
        finally:
            self._gates.probing_targets.discard(rules.name)
            self._worker.wake.signal_new_work()

    # -- running probes ------------------------------------------------------------------------------------------

    def _start(self, question: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(self._finished(question))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _finished(self, question: Coroutine[Any, Any, None]) -> None:
        try:
            await question
        except StoreError as error:
            _log.warning("answer_not_recorded error=%s", type(error).__name__)
        self._worker.wake.signal_new_work()

    async def _at_gates(self, change: Callable[[ClaimGateTx], None]) -> None:
        worker = self._worker

        def work(tx: Tx) -> list[Event]:
            gates = self._gates.turn(tx, worker.id, worker.heartbeat.store_now())
            change(gates)
            return gates.events

        self._gates.tell(await worker.at_store(work))
        worker.store.announce()
        worker.wake.signal_new_work()

    async def _call(self, fn: Callable[[], Any], question: str) -> Any:
        """Calls a probe function of the user, `def` or `async def`, with a timeout."""
        async with asyncio.timeout(DEPTH_TIMEOUT * 0.8):
            if inspect.iscoroutinefunction(fn):
                return await fn()
            if isinstance(self._worker.executors, InlineExecutors):
                answer = fn()
            else:
                answer = await self._in_thread(fn, question)
            return await answer if inspect.isawaitable(answer) else answer

    async def _in_thread(self, fn: Callable[[], Any], question: str) -> Any:
        if question in self._hanging:
            raise TimeoutError("its last answer is still awaited")

        def asked() -> Any:
            try:
                return fn()
            finally:
                self._hanging.discard(question)

        self._hanging.add(question)
        return await asyncio.get_running_loop().run_in_executor(self._pool, asked)


def _half_open(gates: ClaimGateTx) -> Callable[[StoredBreaker], StoredBreaker]:
    return lambda row: breaker.record_probe(row, gates.now)


def _tripped(rules: TargetRules, gates: ClaimGateTx) -> Callable[[StoredBreaker], StoredBreaker]:
    def change(row: StoredBreaker) -> StoredBreaker:
        if row.state != CLOSED or rules.breaker is None:
            return row
        return breaker.trip(row, rules.breaker, gates.now, OpenedBy.PROBE)

    return change


def _checked(answer: Any) -> QueueDepth:
    found = answer if isinstance(answer, QueueDepth) else QueueDepth(answer)
    total: object = found.total
    if not isinstance(total, int) or isinstance(total, bool) or total < 0:
        raise TypeError(f"depth: {total!r} is no number of things")
    return found


def _short(error: BaseException) -> str:
    return type(error).__name__
