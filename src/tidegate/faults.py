"""Faults: what a failure means.

    from tidegate.faults import Code, Reason, classify

`classify` reads an exception or a response and returns a `Fault`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = [
    "Code",
    "CodeBook",
    "Confirm",
    "Fault",
    "Level",
    "Reach",
    "Reason",
    "classify",
    "fault_of",
]

if TYPE_CHECKING:
    from tidegate.core.classify import classify
    from tidegate.core.codes import Code, CodeBook
    from tidegate.core.fault import Fault, Level, Reach, Reason
    from tidegate.core.policy import Confirm
    from tidegate.face.faults import fault_of
else:
    # The same for the running program. Type checkers do not read it, so they still report an unknown name.
    from tidegate._lazy import lazy_names

    __getattr__, __dir__ = lazy_names(
        globals(),
        {
            "tidegate.core.classify": ("classify",),
            "tidegate.core.codes": ("Code", "CodeBook"),
            "tidegate.core.fault": ("Fault", "Level", "Reach", "Reason"),
            "tidegate.core.policy": ("Confirm",),
            "tidegate.face.faults": ("fault_of",),
        },
    )
