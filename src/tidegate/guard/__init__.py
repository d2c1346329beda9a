"""Targets and breakers: their options, their health, and the exceptions for calls that were not made.

from tidegate.guard import Health, Target, Tuning
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = [
    "Add",
    "Answer",
    "Backoff",
    "Breaker",
    "BreakerOpen",
    "BreakerOptions",
    "Capacity",
    "Cooldown",
    "CooldownChange",
    "CooldownState",
    "Counts",
    "Endpoint",
    "Health",
    "Held",
    "Hold",
    "NetworkGuard",
    "NetworkGuardPolicy",
    "Permit",
    "QueueDepth",
    "Rate",
    "Retry",
    "Seconds",
    "Target",
    "TargetKey",
    "TooManyRequests",
    "Tuning",
]

if TYPE_CHECKING:
    from tidegate.durations import Seconds
    from tidegate.errors import BreakerOpen, Held, TooManyRequests
    from tidegate.guard.backoff import Add, Backoff, Retry
    from tidegate.guard.breaker import Breaker, Permit
    from tidegate.guard.breaker_counts import Counts
    from tidegate.guard.capacity import Capacity, QueueDepth
    from tidegate.guard.cooldown import Cooldown, CooldownChange, CooldownState
    from tidegate.guard.health import Health
    from tidegate.guard.hold import Hold
    from tidegate.guard.limits import Rate
    from tidegate.guard.network_guard import Endpoint, NetworkGuard, NetworkGuardPolicy
    from tidegate.guard.profiles import BreakerOptions, Tuning
    from tidegate.guard.stale import Answer
    from tidegate.guard.target import Target, TargetKey
else:
    # The same names at run time. Type checkers skip this branch, so they still report an unknown name.
    from tidegate._lazy import lazy_names

    __getattr__, __dir__ = lazy_names(
        globals(),
        {
            "tidegate.durations": ("Seconds",),
            "tidegate.errors": ("BreakerOpen", "Held", "TooManyRequests"),
            "tidegate.guard.backoff": ("Add", "Backoff", "Retry"),
            "tidegate.guard.breaker": ("Breaker", "Permit"),
            "tidegate.guard.breaker_counts": ("Counts",),
            "tidegate.guard.capacity": ("Capacity", "QueueDepth"),
            "tidegate.guard.cooldown": ("Cooldown", "CooldownChange", "CooldownState"),
            "tidegate.guard.health": ("Health",),
            "tidegate.guard.hold": ("Hold",),
            "tidegate.guard.limits": ("Rate",),
            "tidegate.guard.network_guard": ("Endpoint", "NetworkGuard", "NetworkGuardPolicy"),
            "tidegate.guard.profiles": ("BreakerOptions", "Tuning"),
            "tidegate.guard.stale": ("Answer",),
            "tidegate.guard.target": ("Target", "TargetKey"),
        },
    )
