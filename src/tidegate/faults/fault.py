"""A classified failure as a value, and the enums of its fields."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

UNKNOWN = "unknown"  # the rule of a fault that no rule matched
OWN_BUG = "own_bug"  # the same, raised by the program's own code; "own_bug:bad_url" if the kind is known


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
    """How far a fault reaches, from one item to our own machine."""

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
    """The log level: WARN for expected failures of services, ERROR if an operator must act."""

    DEBUG = "DEBUG"
    INFO = "INFO"
    WARN = "WARN"
    ERROR = "ERROR"

    @property
    def number(self) -> int:
        """The level number of `logging`."""
        return _NUMBERS[self]


_NUMBERS = {Level.DEBUG: 10, Level.INFO: 20, Level.WARN: 30, Level.ERROR: 40}


def breaker_verdict(reason: Reason, reach: Reach) -> bool | None:
    """What a fault means for the health of its target: True a failure, False a success, None neither.

    Throttling, credentials, quota and configuration do not mean that the service is failing. A rejected item proves
    that the service responds. A fault of our own machine says nothing about the service.
    """
    if reach is Reach.SELF:
        return None
    if reason is Reason.ITEM:
        return False
    return True if reason in _FAILURES else None


class CodeRow(Protocol):
    """The row of a code in the code book."""

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
    """The meaning of a failure: whether to retry, who caused it, and the message for users.

    fault = classify(error)
    if fault is not None and fault.fatal: alert(fault.message)
    """

    code: str
    reason: Reason
    reach: Reach
    level: Level
    message: str  # for users, from the code book
    advice: str  # what users can do, from the code book
    rule: str  # the rule that decided
    status: int = 0  # HTTP status, 0 without one
    retry_after: float | None = None  # seconds, as the service asked; not limited
    detail: str = ""  # for the log: redacted and truncated

    @property
    def fatal(self) -> bool:
        return self.reason in _FATAL

    @property
    def retriable(self) -> bool:
        return self.reason not in _FATAL

    @property
    def counts_as_failure(self) -> bool | None:
        """For a breaker: True a failure, False a success (the service responded), None neither."""
        return None if self.own_bug else breaker_verdict(self.reason, self.reach)

    @property
    def unclassified(self) -> bool:
        """Whether no rule matched. It is retried, and should get a rule."""
        return self.rule in (UNKNOWN, OWN_BUG)

    @property
    def own_bug(self) -> bool:
        """Whether a bug of the program raised it, such as a KeyError. It says nothing about the service."""
        return self.rule.startswith(OWN_BUG)

    def as_json(self) -> dict[str, object]:
        """Returns the fault for JSON, without the detail, which is only for the log."""
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
    """Creates a fault from one row of the code book.

    Every failed call creates one. Setting the slots takes a third of the time of the frozen `__init__`.
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
