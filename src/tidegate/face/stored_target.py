"""A target whose state is in the store: what people ask of it and do to it, for all workers at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from tidegate.core.until import Until
from tidegate.face.job_function import lane_of
from tidegate.machine.filling import CapacityLimits, FillLevel, own_sends
from tidegate.ops import actions, explain
from tidegate.ops.whys import WaitReason
from tidegate.store import gate_rows
from tidegate.store.gate_rows import TargetEvent
from tidegate.store.now import now_of
from tidegate.store.tx import Tx

if TYPE_CHECKING:
    from tidegate.face.acting import QueueAdmin

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityStatus:
    """What a target with a capacity said of itself: *depth* of *cap*, and *own* sends that do not show there yet."""

    depth: int
    own: int
    cap: int
    at: float


class QueueTargetKey:
    """One key of a target of jobs."""

    def __init__(self, target: QueueTarget, key: Hashable) -> None:
        self._target, self._key = target, lane_of(key)

    def explain(self) -> list[WaitReason]:
        """What stands before its jobs; empty when nothing does."""
        return self._target.ask(lambda tx: explain.target(tx, self._target.name, self._key))

    def clear(self, by: str = "person", *, noted: bool = True) -> bool:
        """Forgets all state of the key, as after new credentials: its jobs go at once. False when there was none.

        *noted*: whether it is an action of its own on the page Activity, and not a part of one.
        """
        return self._target.act(lambda tx: actions.clear_key(tx, self._target.name, self._key, by, noted=noted))

    def disable(self, until: Until | None = None, by: str = "person", reason: str = "manual") -> None:
        """No job of this key until then, or until `enable()`."""
        self._target.act(lambda tx: actions.disable_key(tx, self._target.name, self._key, by, until, reason))

    def enable(self, by: str = "person") -> bool:
        """Ends a rest, whoever ordered it; False when there was none."""
        return self._target.act(lambda tx: actions.enable_key(tx, self._target.name, self._key, by))


class QueueTarget:
    """A target of jobs, by name.

    q.target("spotify").pause("2h", by="ada")
    q.target("spotify").key(7).clear()
    """

    def __init__(self, queue: QueueAdmin, name: str, *, declared: bool) -> None:
        self._queue, self.name, self._declared = queue, name, declared

    def key(self, key: Hashable) -> QueueTargetKey:
        """The part of it that the jobs with this key belong to."""
        return QueueTargetKey(self, key)

    def explain(self) -> list[WaitReason]:
        """What stands before all of its jobs, and those without a key; empty when nothing does."""
        return self.ask(lambda tx: explain.target(tx, self.name, ""))

    def fullness(self) -> CapacityStatus | None:
        """How full it was when it was last asked, and what was sent since; None when it was never asked."""

        def read(tx: Tx) -> CapacityStatus | None:
            row = gate_rows.target(tx, self.name)
            known = FillLevel.load(None if row is None else row.capacity)
            limits = None if row is None or not row.rules else json.loads(row.rules).get("capacity")
            if known.depth is None or limits is None:
                return None
            own = own_sends(known, CapacityLimits(**limits), now_of(tx))
            return CapacityStatus(depth=known.depth, own=len(own), cap=int(limits["cap"]), at=known.at)

        return self.ask(read)

    def pause(self, until: Until, by: str = "person") -> float:
        """No job of it is claimed until then; returns when that is."""
        return self.act(lambda tx: actions.pause_target(tx, self.name, until, by))

    def resume(self, by: str = "person") -> bool:
        """Ends a pause; False when there was none."""
        return self.act(lambda tx: actions.resume_target(tx, self.name, by))

    def force(self, state: str, until: Until | None = None, by: str = "person") -> str:
        """Opens its breaker until a time, or closes it now; returns the state that it had."""
        return self.act(lambda tx: actions.force_breaker(tx, self.name, state, by, until))

    def reset(self, by: str = "person") -> str:
        """Closes its breaker and forgets its counts; returns the state that it had."""
        return self.act(lambda tx: actions.reset_breaker(tx, self.name, by))

    def events(self, limit: int = 100) -> list[TargetEvent]:
        """What happened to it, the newest first."""
        return self.ask(lambda tx: gate_rows.events(tx, "target", self.name, limit))

    def ask(self, work: Callable[[Tx], T]) -> T:
        self._known()
        return self._queue.store.read(work)

    def act(self, work: Callable[[Tx], T]) -> T:
        self._known()
        return self._queue.run_in_transaction(work)

    def _known(self) -> None:
        """One that is declared here exists, even if no worker has been there yet."""
        name, store = self.name, self._queue.store
        if self._declared and store.read(lambda tx: gate_rows.target(tx, name)) is None:
            store.write(lambda tx: tx.query("target_new", {"name": name}))
