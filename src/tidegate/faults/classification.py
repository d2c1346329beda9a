"""Classification of failures. `classify` is pure: it never raises, and reads neither clock nor network."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import isfinite

from tidegate.errors import Held
from tidegate.faults import heuristics
from tidegate.faults.attribution import has_readable_text, is_own_bug, never_sent, reads_own_certificate
from tidegate.faults.codes import CORE, CodeBook
from tidegate.faults.evidence import Evidence, collect_evidence
from tidegate.faults.exceptions import CODE_OF_KIND, OURS, UNSENT, ExceptionKind
from tidegate.faults.fault import OWN_BUG, UNKNOWN, Fault, Reach
from tidegate.faults.heuristics import retry_after
from tidegate.faults.introspection import is_a, message_of, read, type_name
from tidegate.faults.redaction import MAX_REDACTED, redact
from tidegate.faults.rule import Pack, Rule, pack_of

_HALF = MAX_REDACTED // 2 - 2  # of the detail, if two exceptions share it

# If no rule of the service matched.
_CODE_OF_STATUS = {
    304: None,
    401: "unauthorized",
    402: "quota_exhausted",
    403: "forbidden",
    404: "not_found",
    407: "misconfigured",
    408: "timeout",
    409: "conflict",
    410: "gone",
    425: "upstream_failure",
    429: "rate_limited",
    501: "not_supported",
    503: "overloaded",
}
_CODE_OF_HUNDRED = {2: None, 3: "redirected", 4: "bad_request", 5: "upstream_failure"}


def classify(what: object, rules: Pack | Iterable[Rule] | None = None, *, now: float | None = None) -> Fault | None:
    """Returns the fault of an exception or a response. None for a good response, and for None.

        fault = classify(error, rules.spotify)

    *rules* come before the general rules. *now* (UNIX time) is used only for a `Retry-After` date in a response without
    a `Date` header. An exception with a good response in it (such as a 404 that means "no art") gives None.
    """
    if what is None:
        return None
    pack = pack_of(rules, "own")
    evidence = collect_evidence(what)
    code_book = CORE if pack is None else pack.code_book
    # `faults={Exception: ...}` does not apply to calls that an inner gate held, nor to cancelled calls.
    if pack is not None and pack.faults and (named := pack.named(what, broad=evidence.kind not in OURS)) is not None:
        return _fault(code_book, *named, evidence, now=now)
    if pack is not None and not _our_own(evidence) and (rule := pack.first(evidence)) is not None:
        if rule.code is None:
            return None
        fault = _fault(code_book, rule.code, f"{pack.name}:{rule.name}", evidence, reach=rule.reach, now=now)
        hinted = rule.asks_to_wait(evidence)
        return fault if hinted is None else replace(fault, retry_after=max(hinted, fault.retry_after or 0.0))
    code, decided = _general(evidence)
    return None if code is None else _fault(code_book, code, _attributed(what, evidence, decided), evidence, now=now)


def _attributed(what: object, evidence: Evidence, decided: str) -> str:
    """Returns what decided, marked if it was a bug of the program: no request was sent, and no response was read."""
    if decided == UNKNOWN:
        return OWN_BUG if is_own_bug(what) else UNKNOWN
    error, kind = evidence.error, evidence.kind
    if error is None or evidence.status:
        return decided
    if (
        (kind in UNSENT and never_sent(error))
        or (kind is ExceptionKind.TLS and reads_own_certificate(error))
        or (kind is None and is_own_bug(error))
    ):
        return f"{OWN_BUG}:{decided.partition(':')[2]}"
    return decided


def _general(evidence: Evidence) -> tuple[str | None, str]:
    # A good response inside an exception: the target did its part, whatever the program did with it.
    if evidence.status and (evidence.kind is None or evidence.status >= 300):
        if evidence.status == 503 and heuristics.is_throttled(evidence.body):
            return "rate_limited", "status:503"
        return status_code(evidence.status), f"status:{evidence.status}"
    if evidence.kind is not None:
        return CODE_OF_KIND[evidence.kind], f"kind:{evidence.kind}"
    if not _our_own(evidence) and (text := evidence.text):
        if number := heuristics.lastfm_in(text):
            return heuristics.LASTFM_CODES[number], f"text:lastfm-{number}"
        if status := said_status(text):
            return status_code(status), f"text:{status}"
        if match := heuristics.code_in(text):
            return match[0], f"text:{match[1]}"
    return "unexpected", UNKNOWN


def _our_own(evidence: Evidence) -> bool:
    """Whether our side stopped it, or no service wrote its message, whatever words it has."""
    if evidence.kind is not None or evidence.status or evidence.error is None:
        return evidence.kind in OURS
    return not has_readable_text(evidence.error)


def status_code(status: int) -> str | None:
    """Returns the code of an HTTP status. None for a good one."""
    if status in _CODE_OF_STATUS:
        return _CODE_OF_STATUS[status]
    return _CODE_OF_HUNDRED.get(status // 100, "unexpected")


def said_status(text: str) -> int:
    """Returns the failure status in a message. A message with a 200 is about something else."""
    status = heuristics.status_in(text)
    return status if status and status_code(status) is not None else 0


def _fault(
    code_book: CodeBook,
    name: str,
    decided: str,
    evidence: Evidence,
    *,
    reach: Reach | None = None,
    now: float | None = None,
) -> Fault:
    status = evidence.status
    if not status and evidence.kind is None and not _our_own(evidence):
        status = said_status(evidence.text)
    return code_book[name].fault(
        decided, reach=reach, status=status, retry_after=_asked_to_wait(evidence, now), detail=_detail(evidence)
    )


def _asked_to_wait(evidence: Evidence, now: float | None) -> float | None:
    if evidence.kind is ExceptionKind.HELD:
        held = read(evidence.error, "retry_after")
        return held if type(held) is float and isfinite(held) else None
    if not evidence.status:
        return None
    after, millis = evidence.headers("retry-after", "retry-after-ms")
    if after is None and millis is None:
        return None
    return retry_after(after, milliseconds=millis, date=evidence.header("date"), now=now)


def _detail(evidence: Evidence) -> str:
    if evidence.error is None:
        return redact(evidence.body.decode("utf-8", "replace")) if evidence.status else ""
    said = _said(evidence.error, evidence.text)
    if evidence.outer is None or evidence.outer is evidence.error:
        return redact(said)
    above = _said(evidence.outer, message_of(evidence.outer))
    return redact(said) if above == said else f"{redact(above, _HALF)} <- {redact(said, _HALF)}"


def _said(error: BaseException, text: str) -> str:
    return f"{type_name(error)}: {text}" if text else type_name(error)


# -- verdict of a guard ---------------------------------------------------------------------------------------------


def fault_of(error: BaseException) -> Fault | None:
    """Returns the verdict of the guard on *error*, or of `classify` without a guard. None for a call not made."""
    if is_a(error, Held):
        return None
    # A guarded transport attaches its verdict to the response, and `raise_for_status()` attaches that to its exception.
    for source in (error, read(error, "response")):
        fault = read(source, "__tidegate_fault__")
        if isinstance(fault, Fault):
            return fault
    return classify(error)
