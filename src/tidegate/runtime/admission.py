"""One call that was let through, until its outcome is recorded."""

from __future__ import annotations

import math
from collections.abc import Hashable

from tidegate.core.fault import Fault
from tidegate.machine.breaker import AdmitToken, Breaker


class Admission:
    """How things stood when the call was let through, and what must be given back after it."""

    __slots__ = (
        "breaker",
        "clears",
        "doubted",
        "fault",
        "host",
        "key",
        "operation",
        "part_fault",
        "probe_until",
        "ticket",
        "wait",
    )

    def __init__(
        self, key: Hashable, operation: str | None, *, clears: int = 0, ticket: AdmitToken | None = None
    ) -> None:
        self.key = key
        self.operation = operation
        self.clears = clears  # of the target: tells a call that used replaced credentials
        # The last faults of the key and of the operation when it began: they tell a late result from a new one.
        self.fault: Fault | None = None
        self.part_fault: Fault | None = None
        self.probe_until = -math.inf  # it is the one probe of a rest or of a fatal fault, reserved until then
        self.ticket = ticket  # of the breaker
        self.breaker: Breaker | None = None  # of its key, if the key had one when the call began
        self.doubted = False  # a good answer only by our own patience, or a fault that is not believed yet
        self.host = ""  # that was called, where it is known
        self.wait = 0.0  # seconds before it may go, as the rate says
