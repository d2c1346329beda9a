"""The verdict on an exception that came through a guard."""

from __future__ import annotations

from tidegate.core.classify import classify
from tidegate.core.fault import Fault
from tidegate.errors import Held


def fault_of(error: BaseException) -> Fault | None:
    """What the guard said of *error*, or what `classify` says when it came through none; None for a call not made."""
    if isinstance(error, Held):
        return None
    # A guarded transport leaves its verdict on the answer, which `raise_for_status()` puts on its exception.
    for source in (error, getattr(error, "response", None)):
        found = getattr(source, "__tidegate_fault__", None)
        if isinstance(found, Fault):
            return found
    return classify(error)
