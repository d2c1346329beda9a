"""Tidegate keeps a program working while the services it calls do not.

Classify a failure, put a gate before a call:

    from tidegate import Backoff, Target, classify, rules

Importing the package loads none of its parts: each name is fetched from its module when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__version__ = "0.1.0"

__all__ = [
    "Add",
    "Answer",
    "Backoff",
    "Breaker",
    "BreakerOpen",
    "Bus",
    "Code",
    "CodeBook",
    "Confirm",
    "Cooldown",
    "Counts",
    "Event",
    "EventKind",
    "Fault",
    "Health",
    "Held",
    "Hold",
    "Level",
    "Notice",
    "NoticeKind",
    "Part",
    "Permit",
    "Rate",
    "Reach",
    "Reason",
    "SelfGuard",
    "Subscription",
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
    from tidegate.core.backoff import Add, Backoff
    from tidegate.core.classify import classify
    from tidegate.core.codes import Code, CodeBook
    from tidegate.core.events import Event, EventKind, Notice, NoticeKind
    from tidegate.core.fault import Fault, Level, Reach, Reason
    from tidegate.core.policy import Confirm, Cooldown
    from tidegate.core.rate import Rate
    from tidegate.errors import BreakerOpen, Held, TidegateError, TooManyRequests
    from tidegate.face.faults import fault_of
    from tidegate.face.health import Health
    from tidegate.face.target import Part, Target
    from tidegate.machine.breaker import Breaker
    from tidegate.machine.epoch import Counts
    from tidegate.machine.gate import Hold
    from tidegate.machine.own_link import SelfGuard
    from tidegate.machine.permit import Permit
    from tidegate.runtime.bus import DEFAULT, Bus, Subscription
    from tidegate.runtime.sinks import sinks
    from tidegate.runtime.stale import Answer

    subscribe = DEFAULT.subscribe
else:
    # The same once more for the running program. Type checkers do not see it, so that they still refuse a wrong name.
    _NAMES_OF = {
        "core.backoff": ("Add", "Backoff"),
        "core.classify": ("classify",),
        "core.codes": ("Code", "CodeBook"),
        "core.events": ("Event", "EventKind", "Notice", "NoticeKind"),
        "core.fault": ("Fault", "Level", "Reach", "Reason"),
        "core.policy": ("Confirm", "Cooldown"),
        "core.rate": ("Rate",),
        "errors": ("BreakerOpen", "Held", "TidegateError", "TooManyRequests"),
        "face.faults": ("fault_of",),
        "face.health": ("Health",),
        "face.target": ("Part", "Target"),
        "machine.breaker": ("Breaker",),
        "machine.epoch": ("Counts",),
        "machine.gate": ("Hold",),
        "machine.own_link": ("SelfGuard",),
        "machine.permit": ("Permit",),
        "runtime.bus": ("Bus", "Subscription"),
        "runtime.sinks": ("sinks",),
        "runtime.stale": ("Answer",),
    }
    _MODULE_OF = {name: module for module, names in _NAMES_OF.items() for name in names}

    def _load(name: str) -> object:
        from importlib import import_module

        if name == "rules":
            return import_module("tidegate.rules")
        if name == "subscribe":
            return import_module("tidegate.runtime.bus").DEFAULT.subscribe
        if name in _MODULE_OF:
            return getattr(import_module(f"tidegate.{_MODULE_OF[name]}"), name)
        raise AttributeError(f"module 'tidegate' has no attribute {name!r}", name=name)

    def __getattr__(name: str) -> object:
        value = globals()[name] = _load(name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
