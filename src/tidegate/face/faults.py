"""The verdict on an exception that came through a guard."""

from __future__ import annotations

from tidegate.core.classify import classify
from tidegate.core.fault import Fault
from tidegate.errors import Held


def fault_of(error: BaseException) -> Fault | None:
    """What the guard said of *error*, or what `classify` says when it came through none; None for a call not made."""
    if isinstance(error, Held):
        return None
    found = getattr(error, "__tidegate_fault__", None)
    return found if isinstance(found, Fault) else classify(error)
