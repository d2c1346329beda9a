"""The verdict on an exception that came through a guard."""

from __future__ import annotations

from tidegate.core.classify import classify
from tidegate.core.fault import Fault
from tidegate.core.reading import is_a, read
from tidegate.errors import Held


def fault_of(error: BaseException) -> Fault | None:
    """What the guard said of *error*, or what `classify` says when it came through none; None for a call not made."""
    if is_a(error, Held):
        return None
    # A guarded transport leaves its verdict on the answer, which `raise_for_status()` puts on its exception.
    for source in (error, read(error, "response")):
        found = read(source, "__tidegate_fault__")
        if isinstance(found, Fault):
            return found
    return classify(error)
