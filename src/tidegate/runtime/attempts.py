"""The state of one guarded call over its attempts; the shells in `calling` do what it decides."""

from __future__ import annotations

import logging
import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import NoReturn

from tidegate.core.evidence import Evidence
from tidegate.core.fault import Fault, Reason
from tidegate.core.retry import ONCE, Retry
from tidegate.errors import Held
from tidegate.runtime.admission import Admission
from tidegate.runtime.caller import CANCELLED, CallPipeline

_log = logging.getLogger("tidegate.target")


@dataclass(frozen=True, slots=True)
class CallSpec:
    """Where a call belongs, and how often it is tried at once."""

    key: Hashable = None
    operation: str | None = None
    retry: Retry = ONCE


class CallAttempts:
    """Decides whether to go again, and records how it ended: one outcome for all attempts, whatever happens."""

    __slots__ = ("_deadline", "_owed", "_tries", "call", "pipeline", "spec", "pause")

    def __init__(self, pipeline: CallPipeline, spec: CallSpec, call: Admission | None = None) -> None:
        allowed = pipeline.policy.deadline
        self.pipeline = pipeline
        self.spec = spec
        self.call = call  # the one that is under way
        self.pause = 0.0  # seconds until the next one
        self._tries = 0
        self._owed: tuple[Admission, Fault] | None = None  # settled, and on record only if no other attempt follows
        self._deadline = math.inf if allowed is None else pipeline.clock.monotonic() + allowed

    def left(self) -> float:
        """Seconds until the deadline of all the attempts together."""
        return self._deadline - self.pipeline.clock.monotonic()

    def admit(self) -> Admission | Held:
        """The next attempt, which is under way now; or why it may not go."""
        found = self.pipeline.admit(self.spec.key, self.spec.operation, self.left())
        if not isinstance(found, Held):
            self.call = found
        return found

    def succeeded(self) -> None:
        if self.call is not None:
            self.pipeline.succeed(self.call)
        self.call = self._owed = None

    def failed(self, what: object, fault: Fault | None, *, may_repeat: bool = True) -> bool:
        """Whether to go again after `pause`; if not, the outcome is on record.

        *what* is an exception or the evidence of a response; without *may_repeat* this was the last attempt.
        """
        call, self.call = self.call, None
        if call is None:
            return False
        if fault is None:
            self._owed = None
            self.pipeline.succeed(call)  # a good answer inside an exception
            return False
        mark(what, fault)
        own = self.pipeline.settle(call, fault, what)
        pause = None if own or not may_repeat else self._pause(call, fault)
        if pause is not None:
            self._owed, self.pause = (call, fault), pause
            self._tries += 1
            return True
        self.pipeline.record(call, fault, own=own)
        if fault.reason is Reason.CANCELLED or self.pipeline.passes(fault):
            self.close()  # this attempt says nothing about the service, so the failure before it is the outcome
        self._owed = None
        return False

    def close(self) -> None:
        """Leaves nothing behind: of an attempt that was broken off, or of one that no other has followed."""
        call, self.call = self.call, None
        if call is not None:
            self.pipeline.record(call, CANCELLED, own=self.pipeline.settle(call, CANCELLED, None))
        if self._owed is not None:
            owed, self._owed = self._owed, None
            self.pipeline.record(*owed, own=False)

    def _pause(self, call: Admission, fault: Fault) -> float | None:
        if self.spec.retry is ONCE or fault.fatal or fault.reason is Reason.CANCELLED or self.pipeline.passes(fault):
            return None
        if math.isfinite(call.probe_until):
            return None  # a probe is one call
        pause = self.spec.retry.pause(self._tries + 1, self.pipeline.roll(), fault.retry_after or 0.0)
        return None if pause is None or pause > self.left() else pause


def mark(what: object, fault: Fault) -> None:
    """Leaves the verdict on an exception or an answer, for `fault_of`; one that takes no attributes goes without."""
    if isinstance(what, Evidence):
        what = what.response
    if what is None:
        return
    try:
        what.__tidegate_fault__ = fault  # type: ignore[attr-defined]
    except Exception:  # a stranger's class: whatever it says, the caller gets its own exception
        _log.debug("fault_not_kept type=%s", type(what).__name__)


def raise_again(error: BaseException) -> NoReturn:
    """Raises what an earlier attempt raised, as the user's code left it."""
    context, trace = error.__context__, error.__traceback__
    try:
        # The first entry is the frame that is about to be entered again.
        raise error.with_traceback(None if trace is None else trace.tb_next)
    finally:
        error.__context__ = context
        del error, context, trace  # a traceback holds this frame: a cycle that only the collector would end
