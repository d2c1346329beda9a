"""What does a failure mean? One pure function: it never raises, and reads neither clock nor network."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import isfinite

from tidegate.errors import Held
from tidegate.faults import heuristics
from tidegate.faults.attribution import has_readable_text, is_own_bug
from tidegate.faults.codes import CORE, CodeBook
from tidegate.faults.evidence import Evidence, collect_evidence
from tidegate.faults.exceptions import CODE_OF_KIND, OURS, ExceptionKind
from tidegate.faults.fault import OWN_BUG, UNKNOWN, Fault, Reach
from tidegate.faults.heuristics import retry_after
from tidegate.faults.introspection import is_a, message_of, read, type_name
from tidegate.faults.redaction import MAX_REDACTED, redact
from tidegate.faults.rule import Pack, Rule, pack_of

_HALF = MAX_REDACTED // 2 - 2  # of the detail, when two exceptions share it

# Where no rule of the service matched.
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
    """The fault that an exception or an answer stands for; None when it is a good answer, or None itself.

        fault = classify(error, rules.spotify)

    *rules* are asked before the general ones. *now* (UNIX time) is only used for a `Retry-After` date in an answer
    without a `Date` of its own. An exception that carries a good answer (say, a 404 that means "no art") gives None.
    """
    if what is None:
        return None
    pack = pack_of(rules, "own")
    seen = collect_evidence(what)
    book = CORE if pack is None else pack.code_book
    # `faults={Exception: ...}` is not about calls that a gate further in held, nor about cancelled ones.
    if pack is not None and pack.faults and (named := pack.named(what, broad=seen.kind not in OURS)) is not None:
        return _fault(book, *named, seen, now=now)
    if pack is not None and not _our_own(seen) and (rule := pack.first(seen)) is not None:
        if rule.code is None:
            return None
        fault = _fault(book, rule.code, f"{pack.name}:{rule.name}", seen, reach=rule.reach, now=now)
        hinted = rule.asks_to_wait(seen)
        return fault if hinted is None else replace(fault, retry_after=max(hinted, fault.retry_after or 0.0))
    code, decided = _general(seen)
    if decided == UNKNOWN and is_own_bug(what):
        decided = OWN_BUG
    return None if code is None else _fault(book, code, decided, seen, now=now)


def _general(evidence: Evidence) -> tuple[str | None, str]:
    # A good answer inside an exception: the target did its part, whatever the program then did not like about it.
    if evidence.status and (evidence.kind is None or evidence.status >= 300):
        return status_code(evidence.status), f"status:{evidence.status}"
    if evidence.kind is not None:
        return CODE_OF_KIND[evidence.kind], f"kind:{evidence.kind}"
    if not _our_own(evidence) and (text := evidence.text):
        if number := heuristics.lastfm_in(text):
            return heuristics.LASTFM_CODES[number], f"text:lastfm-{number}"
        if status := said_status(text):
            return status_code(status), f"text:{status}"
        if found := heuristics.code_in(text):
            return found[0], f"text:{found[1]}"
    return "unexpected", UNKNOWN


def _our_own(evidence: Evidence) -> bool:
    """Stopped from our side, or of a class whose message no service wrote, whatever words it contains."""
    if evidence.kind is not None or evidence.status or evidence.error is None:
        return evidence.kind in OURS
    return not has_readable_text(evidence.error)


def status_code(status: int) -> str | None:
    """The code of a bare HTTP status; None for a good one."""
    if status in _CODE_OF_STATUS:
        return _CODE_OF_STATUS[status]
    return _CODE_OF_HUNDRED.get(status // 100, "unexpected")


def said_status(text: str) -> int:
    """The status of a failure that a message speaks of. One about a 200 is about something else that went wrong."""
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


# The verdict on an exception that came through a guard.


def fault_of(error: BaseException) -> Fault | None:
    """What the guard said of *error*, or what `classify` says when it came through none; None for a call not made."""
    if is_a(error, Held):
        return None
    # A guarded transport leaves its verdict on the answer, which `raise_for_status()` puts on its exception.
    for source in (error, read(error, "response")):
        found = read(source, "__tidegate_fault__")
        if isinstance(found, Fault):
            return found
    return classify(error)
