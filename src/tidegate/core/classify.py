"""What does a failure mean? One pure function: it never raises, and reads neither clock nor network."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import isfinite

from tidegate.core import heuristics
from tidegate.core.attribution import has_readable_text, is_own_bug
from tidegate.core.codes import CORE, CodeBook
from tidegate.core.evidence import Evidence
from tidegate.core.fault import OWN_BUG, UNKNOWN, Fault, Reach
from tidegate.core.gather import evidence_of
from tidegate.core.kinds import CODE_OF_KIND, OURS, Kind
from tidegate.core.pack import Pack, pack_of
from tidegate.core.reading import message_of, read, type_name
from tidegate.core.redact import MOST, redacted
from tidegate.core.retry_after import retry_after
from tidegate.core.rule import Rule

__all__ = ["classify", "evidence_of", "status_code"]

_HALF = MOST // 2 - 2  # of the detail, when two exceptions share it

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
    seen = evidence_of(what)
    book = CORE if pack is None else pack.book
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


def _general(seen: Evidence) -> tuple[str | None, str]:
    # A good answer inside an exception: the target did its part, whatever the program then did not like about it.
    if seen.status and (seen.kind is None or seen.status >= 300):
        return status_code(seen.status), f"status:{seen.status}"
    if seen.kind is not None:
        return CODE_OF_KIND[seen.kind], f"kind:{seen.kind}"
    if not _our_own(seen) and (text := seen.text):
        if number := heuristics.lastfm_in(text):
            return heuristics.LASTFM_CODES[number], f"text:lastfm-{number}"
        if status := said_status(text):
            return status_code(status), f"text:{status}"
        if found := heuristics.code_in(text):
            return found[0], f"text:{found[1]}"
    return "unexpected", UNKNOWN


def _our_own(seen: Evidence) -> bool:
    """Stopped from our side, or of a class whose message no service wrote, whatever words it contains."""
    if seen.kind is not None or seen.status or seen.error is None:
        return seen.kind in OURS
    return not has_readable_text(seen.error)


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
    book: CodeBook, name: str, decided: str, seen: Evidence, *, reach: Reach | None = None, now: float | None = None
) -> Fault:
    status = seen.status
    if not status and seen.kind is None and not _our_own(seen):
        status = said_status(seen.text)
    return book[name].fault(
        decided, reach=reach, status=status, retry_after=_asked_to_wait(seen, now), detail=_detail(seen)
    )


def _asked_to_wait(seen: Evidence, now: float | None) -> float | None:
    if seen.kind is Kind.HELD:
        held = read(seen.error, "retry_after")
        return held if type(held) is float and isfinite(held) else None
    if not seen.status:
        return None
    after, millis = seen.headers("retry-after", "retry-after-ms")
    if after is None and millis is None:
        return None
    return retry_after(after, milliseconds=millis, date=seen.header("date"), now=now)


def _detail(seen: Evidence) -> str:
    if seen.error is None:
        return redacted(seen.body.decode("utf-8", "replace")) if seen.status else ""
    said = _said(seen.error, seen.text)
    if seen.outer is None or seen.outer is seen.error:
        return redacted(said)
    above = _said(seen.outer, message_of(seen.outer))
    return redacted(said) if above == said else f"{redacted(above, _HALF)} <- {redacted(said, _HALF)}"


def _said(error: BaseException, text: str) -> str:
    return f"{type_name(error)}: {text}" if text else type_name(error)
