"""Tidegate keeps a program working while the services it calls do not.

Classify a failure, and guard the calls to a service:

    from tidegate import Target, classify, rules

Store work until the service is back:

    from tidegate import Again, Fail, Queue

This package has the names that most programs need. The others are in `tidegate.faults`, `tidegate.guard`,
`tidegate.jobs`, `tidegate.events`, `tidegate.errors`, `tidegate.apps` and `tidegate.testing`. Names are loaded on first
use, so the import is cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__version__ = "0.1.0"

__all__ = [
    "Again",
    "Backoff",
    "Breaker",
    "BreakerOpen",
    "BreakerOptions",
    "Capacity",
    "Context",
    "Cooldown",
    "Done",
    "Fail",
    "Fault",
    "Held",
    "Job",
    "JobCancelled",
    "JobFailed",
    "JobForgotten",
    "Queue",
    "Rate",
    "Retry",
    "Target",
    "TidegateError",
    "TooManyRequests",
    "classify",
    "fault_of",
    "rules",
    "sinks",
    "subscribe",
]

if TYPE_CHECKING:
    from tidegate import rules
    from tidegate.errors import TidegateError
    from tidegate.events import subscribe
    from tidegate.faults import Fault, classify, fault_of
    from tidegate.guard import (
        Backoff,
        Breaker,
        BreakerOpen,
        BreakerOptions,
        Capacity,
        Cooldown,
        Held,
        Rate,
        Retry,
        Target,
        TooManyRequests,
    )
    from tidegate.guard.sinks import sinks
    from tidegate.jobs import Again, Context, Done, Fail, Job, JobCancelled, JobFailed, JobForgotten, Queue
else:
    # The same names at run time. Type checkers skip this branch, so they still report an unknown name.
    from tidegate._lazy import lazy_names

    __getattr__, __dir__ = lazy_names(
        globals(),
        {
            "tidegate.errors": ("TidegateError",),
            "tidegate.events": ("subscribe",),
            "tidegate.faults": ("Fault", "classify", "fault_of"),
            "tidegate.guard": (
                "Backoff",
                "Breaker",
                "BreakerOpen",
                "BreakerOptions",
                "Capacity",
                "Cooldown",
                "Held",
                "Rate",
                "Retry",
                "Target",
                "TooManyRequests",
            ),
            "tidegate.guard.sinks": ("sinks",),
            "tidegate.jobs": (
                "Again",
                "Context",
                "Done",
                "Fail",
                "Job",
                "JobCancelled",
                "JobFailed",
                "JobForgotten",
                "Queue",
            ),
        },
        submodules=("rules",),
    )
