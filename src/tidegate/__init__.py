"""Tidegate keeps a program working while the services it calls do not.

Classify a failure, put a gate before a call:

    from tidegate import Backoff, Target, classify, rules

Keep work until the service is back:

    from tidegate import Again, Fail, Queue

Importing the package loads none of its parts: each name is fetched from its module when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__version__ = "0.1.0"

__all__ = [
    "Add",
    "Again",
    "Answer",
    "App",
    "Backoff",
    "BoundStatement",
    "Breaker",
    "BreakerOpen",
    "BreakerOptions",
    "Bus",
    "Capacity",
    "Code",
    "CodeBook",
    "ConfiguredJob",
    "Confirm",
    "Context",
    "Cooldown",
    "Counts",
    "Db",
    "DbTx",
    "Depth",
    "Done",
    "Drained",
    "Enqueued",
    "Event",
    "EventKind",
    "Every",
    "Fail",
    "Fault",
    "Health",
    "Held",
    "Hold",
    "Installed",
    "Job",
    "JobCancelled",
    "JobEvent",
    "JobFailed",
    "JobForgotten",
    "JobFunction",
    "JobState",
    "LeaseLost",
    "Level",
    "NotThere",
    "Notice",
    "NoticeKind",
    "OwnLink",
    "Page",
    "Part",
    "Permit",
    "Place",
    "Queue",
    "Rate",
    "Reach",
    "Reason",
    "Refused",
    "Rest",
    "RestChange",
    "Retry",
    "Seconds",
    "SelfGuard",
    "Simulated",
    "Strip",
    "Subscription",
    "Target",
    "TidegateError",
    "TooManyRequests",
    "Tuning",
    "address_of",
    "children",
    "classify",
    "fault_of",
    "install",
    "rules",
    "sinks",
    "subscribe",
]

if TYPE_CHECKING:
    from tidegate import children, rules
    from tidegate.core.backoff import Add, Backoff
    from tidegate.core.classify import classify
    from tidegate.core.codes import Code, CodeBook
    from tidegate.core.events import Event, EventKind, Notice, NoticeKind
    from tidegate.core.fault import Fault, Level, Reach, Reason
    from tidegate.core.job import Job, JobEvent, JobState
    from tidegate.core.policy import Confirm, Cooldown
    from tidegate.core.rate import Rate
    from tidegate.core.retry import Retry
    from tidegate.errors import (
        BreakerOpen,
        Held,
        JobCancelled,
        JobFailed,
        JobForgotten,
        LeaseLost,
        NotThere,
        Refused,
        TidegateError,
        TooManyRequests,
    )
    from tidegate.face.app import App, Every, Installed, Page, Simulated, Strip, install
    from tidegate.face.db import Db, DbTx
    from tidegate.face.enqueued import Enqueued
    from tidegate.face.faults import fault_of
    from tidegate.face.health import Health
    from tidegate.face.job_function import ConfiguredJob, JobFunction
    from tidegate.face.part import Part
    from tidegate.face.profiles import BreakerOptions, Tuning
    from tidegate.face.queue import Queue
    from tidegate.face.target import Target
    from tidegate.face.working import Drained
    from tidegate.face.written import Seconds, address_of
    from tidegate.machine.breaker import Breaker
    from tidegate.machine.cooldown import Rest, RestChange
    from tidegate.machine.epoch import Counts
    from tidegate.machine.filling import Depth
    from tidegate.machine.gate import Hold
    from tidegate.machine.lifecycle import Again, Done, Fail
    from tidegate.machine.own_link import OwnLink, Place, SelfGuard
    from tidegate.machine.permit import Permit
    from tidegate.runtime.bus import DEFAULT, Bus, Subscription
    from tidegate.runtime.capacity import Capacity
    from tidegate.runtime.context import Context
    from tidegate.runtime.sinks import sinks
    from tidegate.runtime.stale import Answer
    from tidegate.store.tx import BoundStatement

    subscribe = DEFAULT.subscribe
else:
    # The same once more for the running program. Type checkers do not see it, so that they still refuse a wrong name.
    _NAMES_OF = {
        "core.backoff": ("Add", "Backoff"),
        "core.classify": ("classify",),
        "core.codes": ("Code", "CodeBook"),
        "core.events": ("Event", "EventKind", "Notice", "NoticeKind"),
        "core.fault": ("Fault", "Level", "Reach", "Reason"),
        "core.job": ("Job", "JobEvent", "JobState"),
        "core.policy": ("Confirm", "Cooldown"),
        "core.rate": ("Rate",),
        "core.retry": ("Retry",),
        "errors": (
            "BreakerOpen",
            "Held",
            "JobCancelled",
            "JobFailed",
            "JobForgotten",
            "LeaseLost",
            "NotThere",
            "Refused",
            "TidegateError",
            "TooManyRequests",
        ),
        "face.app": ("App", "Every", "Installed", "Page", "Simulated", "Strip", "install"),
        "face.db": ("Db", "DbTx"),
        "face.enqueued": ("Enqueued",),
        "face.faults": ("fault_of",),
        "face.health": ("Health",),
        "face.job_function": ("ConfiguredJob", "JobFunction"),
        "face.queue": ("Queue",),
        "face.working": ("Drained",),
        "face.part": ("Part",),
        "face.profiles": ("BreakerOptions", "Tuning"),
        "face.target": ("Target",),
        "machine.breaker": ("Breaker",),
        "machine.cooldown": ("Rest", "RestChange"),
        "machine.epoch": ("Counts",),
        "machine.filling": ("Depth",),
        "machine.gate": ("Hold",),
        "machine.lifecycle": ("Again", "Done", "Fail"),
        "machine.own_link": ("OwnLink", "Place", "SelfGuard"),
        "machine.permit": ("Permit",),
        "runtime.bus": ("Bus", "Subscription"),
        "runtime.capacity": ("Capacity",),
        "runtime.context": ("Context",),
        "runtime.sinks": ("sinks",),
        "runtime.stale": ("Answer",),
        "face.written": ("Seconds", "address_of"),
        "store.tx": ("BoundStatement",),
    }
    _MODULE_OF = {name: module for module, names in _NAMES_OF.items() for name in names}

    def _load(name: str) -> object:
        from importlib import import_module

        if name in ("children", "rules"):
            return import_module(f"tidegate.{name}")
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
