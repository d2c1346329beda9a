"""Tidegate keeps a program working while the services it calls do not.

Classify a failure, put a gate before a call:

    from tidegate import Backoff, Target, classify, rules
"""

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

__version__ = "0.1.0"

subscribe = DEFAULT.subscribe

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
