"""Targets and breakers: their options, what they report, and the exceptions of a call that was not made.

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
    from tidegate.core.backoff import Add, Backoff
    from tidegate.core.policy import Cooldown
    from tidegate.core.rate import Rate
    from tidegate.core.retry import Retry
    from tidegate.errors import BreakerOpen, Held, TooManyRequests
    from tidegate.face.health import Health
    from tidegate.face.part import TargetKey
    from tidegate.face.profiles import BreakerOptions, Tuning
    from tidegate.face.target import Target
    from tidegate.face.written import Seconds
    from tidegate.machine.breaker import Breaker
    from tidegate.machine.cooldown import CooldownChange, CooldownState
    from tidegate.machine.epoch import Counts
    from tidegate.machine.filling import QueueDepth
    from tidegate.machine.gate import Hold
    from tidegate.machine.own_link import Endpoint, NetworkGuard, NetworkGuardPolicy
    from tidegate.machine.permit import Permit
    from tidegate.runtime.capacity import Capacity
    from tidegate.runtime.stale import Answer
else:
    # The same for the running program. Type checkers do not read it, so they still report an unknown name.
    from tidegate._lazy import lazy_names

    __getattr__, __dir__ = lazy_names(
        globals(),
        {
            "tidegate.core.backoff": ("Add", "Backoff"),
            "tidegate.core.policy": ("Cooldown",),
            "tidegate.core.rate": ("Rate",),
            "tidegate.core.retry": ("Retry",),
            "tidegate.errors": ("BreakerOpen", "Held", "TooManyRequests"),
            "tidegate.face.health": ("Health",),
            "tidegate.face.part": ("TargetKey",),
            "tidegate.face.profiles": ("BreakerOptions", "Tuning"),
            "tidegate.face.target": ("Target",),
            "tidegate.face.written": ("Seconds",),
            "tidegate.machine.breaker": ("Breaker",),
            "tidegate.machine.cooldown": ("CooldownState", "CooldownChange"),
            "tidegate.machine.epoch": ("Counts",),
            "tidegate.machine.filling": ("QueueDepth",),
            "tidegate.machine.gate": ("Hold",),
            "tidegate.machine.own_link": ("NetworkGuard", "Endpoint", "NetworkGuardPolicy"),
            "tidegate.machine.permit": ("Permit",),
            "tidegate.runtime.capacity": ("Capacity",),
            "tidegate.runtime.stale": ("Answer",),
        },
    )
