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
    from tidegate.faults.classification import classify, fault_of
    from tidegate.faults.codes import Code, CodeBook
    from tidegate.faults.confirm import Confirm
    from tidegate.faults.fault import Fault, Level, Reach, Reason
else:
    # The same names at run time. Type checkers skip this branch, so they still report an unknown name.
    from tidegate._lazy import lazy_names

    __getattr__, __dir__ = lazy_names(
        globals(),
        {
            "tidegate.faults.classification": ("classify", "fault_of"),
            "tidegate.faults.codes": ("Code", "CodeBook"),
            "tidegate.faults.confirm": ("Confirm",),
            "tidegate.faults.fault": ("Fault", "Level", "Reach", "Reason"),
        },
    )
