"""The code book: every kind of fault, its meaning, and the message for users."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tidegate.faults.fault import Fault, Level, Reach, Reason, breaker_verdict, fault_from
from tidegate.validation import is_code


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """One row of the code book. Reason and reach decide whether it is retriable and whether a breaker counts it."""

    name: str
    reason: Reason
    reach: Reach
    level: Level = Level.WARN
    message: str
    advice: str

    @property
    def fatal(self) -> bool:
        return self.reason.fatal

    @property
    def counts_as_failure(self) -> bool | None:
        return breaker_verdict(self.reason, self.reach)

    def fault(
        self,
        rule: str,
        *,
        reach: Reach | None = None,
        status: int = 0,
        retry_after: float | None = None,
        detail: str = "",
    ) -> Fault:
        """Returns a fault with this code, decided by *rule*."""
        return fault_from(self, rule, reach, status, retry_after, detail)


class CodeBook(Mapping[str, Code]):
    """Codes by name. It is immutable: `extend` returns a larger one."""

    __slots__ = ("_codes",)

    def __init__(self, codes: Iterable[Code]) -> None:
        self._codes: dict[str, Code] = {}
        for code in codes:
            _check(code)
            if code.name in self._codes:
                raise ValueError(f"code {code.name!r} stands twice in the book")
            self._codes[code.name] = code

    def extend(self, *codes: Code) -> CodeBook:
        """Returns this book with the codes of an application. ValueError for a duplicate name or an invalid row."""
        return CodeBook((*self._codes.values(), *codes))

    def __getitem__(self, name: str) -> Code:
        return self._codes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._codes)

    def __len__(self) -> int:
        return len(self._codes)

    def __repr__(self) -> str:
        return f"<CodeBook of {len(self)} codes>"


def _check(code: Code) -> None:
    if not isinstance(code, Code):
        raise TypeError(f"{code!r} is no Code")
    if not is_code(code.name):
        raise ValueError(f"code {code.name!r}: a name has 2 to 64 letters, digits and underscores")
    for field in ("message", "advice"):
        text = getattr(code, field)
        if not text.strip() or not text.rstrip().endswith((".", "?", "!")):
            raise ValueError(f"code {code.name!r}: its {field} must be a whole sentence, with a full stop")
    if why := wrong_reach(code.reason, code.reach):
        raise ValueError(f"code {code.name!r}: {why}")


def wrong_reach(reason: Reason, reach: Reach) -> str:
    """Returns why *reason* and *reach* do not fit together. Empty if they do."""
    if reason is Reason.ITEM and reach.rank > Reach.OPERATION.rank:
        return f"a fault of one item cannot reach {reach}"
    if reason is Reason.AUTH and reach in (Reach.ITEM, Reach.SELF):
        return f"a refused credential cannot reach only {reach}"
    return ""


CodeSpec = tuple[str, str, str, str, str, str]

_AGAIN = "Nothing to do: it is retried automatically."
_RECONNECT = "Connect the account again, or enter new credentials."
_OPERATOR = "The operator must correct the settings of this service."

_ROWS = (
    # name, reason, reach, level, message, advice
    ("network", "transient", "target", "WARN", "The service could not be reached.", _AGAIN),
    ("timeout", "transient", "target", "WARN", "The service did not answer in time.", _AGAIN),
    ("cut_short", "transient", "target", "WARN", "The answer of the service broke off.", _AGAIN),
    ("upstream_failure", "transient", "target", "WARN", "The service reported an error of its own.", _AGAIN),
    ("overloaded", "overloaded", "target", "WARN", "The service is overloaded right now.", _AGAIN),
    ("html_answer", "transient", "target", "WARN", "The service answered with a web page instead of data.",
     "If this stays, check the address: it may point at a login page or a wrong path."),
    ("conflict", "transient", "item", "WARN", "The service was changing the same thing at that moment.", _AGAIN),
    ("rate_limited", "throttled", "credential", "WARN", "The service asked us to slow down.", _AGAIN),
    ("cancelled", "cancelled", "self", "DEBUG", "The call was stopped from our side.", "Nothing to do."),
    ("unexpected", "transient", "target", "ERROR", "Something went wrong that we do not know yet.",
     "It is tried again; if it stays, please report it with the log."),
    ("unauthorized", "auth", "credential", "ERROR", "The service refused the credentials.", _RECONNECT),
    ("forbidden", "auth", "operation", "WARN", "The service does not allow this.",
     "Check what the account may do, and connect it again with the rights it needs."),
    ("quota_exhausted", "quota", "target", "ERROR", "The plan or the balance at the service is used up.",
     "Raise the limit or wait for the next period; it is asked again about once an hour."),
    ("misconfigured", "config", "target", "ERROR", "The service is not set up the way we call it.", _OPERATOR),
    ("bad_address", "config", "target", "ERROR", "The address of the service is not valid.", _OPERATOR),
    ("certificate", "config", "target", "ERROR", "The certificate of the service is not valid.",
     "Renew or trust the certificate, or correct the address."),
    ("redirected", "config", "target", "ERROR", "The service keeps sending us to another address.", _OPERATOR),
    ("not_supported", "config", "operation", "ERROR", "The service does not offer this call.",
     "A newer version of the service, or of this program, may be needed."),
    ("bad_answer", "contract", "operation", "ERROR", "The service answered in a form we do not understand.",
     "A newer version of this program may be needed; please report it with the log."),
    ("parse_error", "contract", "item", "WARN", "What the service sent could not be read.",
     "Check that the address still points at the right thing."),
    ("bad_request", "item", "item", "WARN", "The service refused this one request.",
     "Check the entry; the others go on."),
    ("not_found", "item", "item", "WARN", "The service does not have this.", "Check the entry; the others go on."),
    ("gone", "item", "item", "WARN", "The service has removed this for good.",
     "Remove the entry, or replace its address."),
    ("own_disk", "transient", "self", "ERROR", "There is no room left on our own disk.",
     "Free some space; work then continues."),
    ("worker_lost", "transient", "self", "ERROR", "The worker stopped each time while this job ran alone.",
     "Look at the log of the workers; then retry it."),
    ("expired", "item", "item", "WARN", "It waited too long to be of use.", "Start it again if it is still wanted."),
    ("parent_failed", "item", "item", "WARN", "What it waits for will not be done.",
     "Retry what it waits for; if that is gone, retry this alone."),
    ("arguments_mismatch", "contract", "self", "ERROR",
     "This version of the program does not take the arguments that were stored.",
     "Deploy a version that does; then retry it."),
    ("child_died", "transient", "self", "ERROR", "The work broke off in the middle.",
     "It is tried again; if it stays, look at the log of the workers for what it was given."),
    ("child_time", "transient", "self", "WARN", "The work took longer than it may.",
     "It is tried again; if it stays, give it more time, or less to do."),
    ("child_memory", "transient", "self", "WARN", "The work needed more memory than it may use.",
     "It is tried again; if it stays, give it more memory, or less to do."),
    ("own_pool", "overloaded", "self", "WARN", "Too many of our own calls are waiting.", _AGAIN),
)  # fmt: skip


def from_rows(*rows: CodeSpec) -> tuple[Code, ...]:
    """Creates codes from rows of name, reason, reach, level, message and advice."""
    return tuple(
        Code(name=name, reason=Reason(reason), reach=Reach(reach), level=Level(level), message=message, advice=advice)
        for name, reason, reach, level, message, advice in rows
    )


CORE = CodeBook(from_rows(*_ROWS))
