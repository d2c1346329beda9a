"""A classified failure, as a value, and the closed sets it is made of."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

UNKNOWN = "unknown"  # the rule of a fault that no rule knew
OWN_BUG = "own_bug"  # the same, raised by the program's own code


class Reason(StrEnum):
    """Why it failed. The first four are retriable, the others fatal."""

    TRANSIENT = "transient"
    THROTTLED = "throttled"
    OVERLOADED = "overloaded"
    CANCELLED = "cancelled"
    AUTH = "auth"
    QUOTA = "quota"
    CONFIG = "config"
    CONTRACT = "contract"
    ITEM = "item"

    @property
    def fatal(self) -> bool:
        return self in _FATAL


_FATAL = frozenset({Reason.AUTH, Reason.QUOTA, Reason.CONFIG, Reason.CONTRACT, Reason.ITEM})
_FAILURES = frozenset({Reason.TRANSIENT, Reason.OVERLOADED, Reason.CONTRACT})


class Reach(StrEnum):
    """How far a fault spreads, from one entity to our own machine."""

    ITEM = "item"
    OPERATION = "operation"
    CREDENTIAL = "credential"
    TARGET = "target"
    SELF = "self"

    @property
    def rank(self) -> int:
        return _RANKS[self]


_RANKS = {reach: rank for rank, reach in enumerate(Reach)}


class Level(StrEnum):
    """How loud the log line is: WARN for what is expected of the outside world, ERROR when a person must act."""

    DEBUG = "DEBUG"
    INFO = "INFO"
    WARN = "WARN"
    ERROR = "ERROR"

    @property
    def number(self) -> int:
        """The level of the standard library's logging."""
        return _NUMBERS[self]


_NUMBERS = {Level.DEBUG: 10, Level.INFO: 20, Level.WARN: 30, Level.ERROR: 40}


def breaker_verdict(reason: Reason, reach: Reach) -> bool | None:
    """What a fault says about the health of its target: True a failure, False a success, None nothing.

    Throttling, credentials, money and configuration are not the service being ill; an item that is refused proves that
    it answers; a fault of our own machine says nothing about anybody else.
    """
    if reach is Reach.SELF:
        return None
    if reason is Reason.ITEM:
        return False
    return True if reason in _FAILURES else None


class CodeRow(Protocol):
    """What the code book says about a code."""

    @property
    def name(self) -> str: ...
    @property
    def reason(self) -> Reason: ...
    @property
    def reach(self) -> Reach: ...
    @property
    def level(self) -> Level: ...
    @property
    def message(self) -> str: ...
    @property
    def advice(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What a failure means: whether to go again, whose fault it is, and what to tell a person.

    fault = classify(error)
    if fault is not None and fault.fatal: tell_somebody(fault.message)
    """

    code: str
    reason: Reason
    reach: Reach
    level: Level
    message: str  # for people, from the code book
    advice: str  # what they can do, from the code book
    rule: str  # which rule decided
    status: int = 0  # HTTP status, 0 when there was none
    retry_after: float | None = None  # seconds, as the service asked; not clamped
    detail: str = ""  # for the log: redacted and cut

    @property
    def fatal(self) -> bool:
        return self.reason in _FATAL

    @property
    def retriable(self) -> bool:
        return self.reason not in _FATAL

    @property
    def counts_as_failure(self) -> bool | None:
        """For a breaker: True a failure, False a success (it answered), None neither."""
        return None if self.rule == OWN_BUG else breaker_verdict(self.reason, self.reach)

    @property
    def unclassified(self) -> bool:
        """Nobody knew this failure; it is retried, and deserves a rule of its own."""
        return self.rule in (UNKNOWN, OWN_BUG)

    @property
    def own_bug(self) -> bool:
        """The program's own code raised it by mistake, as a KeyError: it says nothing about the service."""
        return self.rule == OWN_BUG

    def as_json(self) -> dict[str, Any]:
        """The fault as JSON shows it; the detail is left to the log."""
        return {
            "code": self.code,
            "class": "fatal" if self.fatal else "retriable",
            "reason": str(self.reason),
            "reach": str(self.reach),
            "level": str(self.level),
            "status": self.status,
            "retry_after": self.retry_after,
            "message": self.message,
            "advice": self.advice,
            "rule": self.rule,
        }


_FIELDS = vars(Fault)
_set_code, _set_reason, _set_reach = _FIELDS["code"].__set__, _FIELDS["reason"].__set__, _FIELDS["reach"].__set__
_set_level, _set_message, _set_advice = _FIELDS["level"].__set__, _FIELDS["message"].__set__, _FIELDS["advice"].__set__
_set_rule, _set_status, _set_detail = _FIELDS["rule"].__set__, _FIELDS["status"].__set__, _FIELDS["detail"].__set__
_set_retry_after = _FIELDS["retry_after"].__set__


def fault_from(
    row: CodeRow, rule: str, reach: Reach | None, status: int, retry_after: float | None, detail: str
) -> Fault:
    """A fault of one row of the code book.

    One is made for every failed call, and setting the slots takes a third of the time of the frozen `__init__`.
    """
    made = object.__new__(Fault)
    _set_code(made, row.name)
    _set_reason(made, row.reason)
    _set_reach(made, reach or row.reach)
    _set_level(made, row.level)
    _set_message(made, row.message)
    _set_advice(made, row.advice)
    _set_rule(made, rule)
    _set_status(made, status)
    _set_retry_after(made, retry_after)
    _set_detail(made, detail)
    return made
