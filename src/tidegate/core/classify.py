"""What does a failure mean? One pure function: it never raises, and reads neither clock nor network."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tidegate.core import chain, heuristics
from tidegate.core.codes import CORE, CodeBook
from tidegate.core.evidence import Evidence, message_of, read, status_of
from tidegate.core.fault import Fault, Reach
from tidegate.core.kinds import CODE_OF_KIND, GENERIC, Kind, kind_of
from tidegate.core.redact import redacted
from tidegate.core.retry_after import retry_after
from tidegate.core.rule import Pack, Rule

# Used when no rule of the service matched. Everything else of the 4xx is the fault of the one request.
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
    504: "upstream_failure",
}
_CODE_OF_HUNDRED = {2: None, 3: "redirected", 4: "bad_request", 5: "upstream_failure"}


def classify(what: object, rules: Pack | Iterable[Rule] | None = None, *, now: float | None = None) -> Fault | None:
    """The fault that an exception or an answer stands for; None when it is a good answer.

        fault = classify(error, rules.spotify)

    *rules* are asked before the general ones. *now* (UNIX time) is only used for a `Retry-After` date in an answer
    without a `Date` of its own. An exception that carries a good answer (say, a 404 that means "no art") gives None.
    """
    pack = rules if isinstance(rules, Pack) or rules is None else Pack("own", rules)
    seen = evidence_of(what)
    book = CORE if pack is None else pack.book
    if pack is not None and seen.kind is not Kind.CANCELLED and (rule := pack.first(seen)) is not None:
        if rule.code is None:
            return None
        fault = _fault(book, rule.code, f"{pack.name}:{rule.name}", seen, reach=rule.reach, now=now)
        hinted = rule.asks_to_wait(seen)
        return fault if hinted is None else replace(fault, retry_after=max(hinted, fault.retry_after or 0.0))
    code, decided = _general(seen)
    return None if code is None else _fault(book, code, decided, seen, now=now)


def evidence_of(what: object) -> Evidence:
    """The most telling evidence in an answer, or in an exception and everything below it."""
    if isinstance(what, BaseException):
        return _of_error(what)
    if isinstance(what, Evidence):
        return what
    if isinstance(what, str):
        return Evidence(error=RuntimeError(what[: heuristics.MOST]))
    return Evidence(response=what, status=status_of(what))


def _of_error(error: BaseException) -> Evidence:
    # The common case, an exception of a known type that nothing led to, needs no walk.
    kind = kind_of(error)
    if kind is Kind.CANCELLED:
        return Evidence(error=error, kind=kind)
    best = _best(error, chain.causes(error))
    if best is not None and (best.status or best.kind not in GENERIC):
        return best
    if error.__context__ is not None or best is None:
        # What was being handled when it was raised is weaker evidence than what it was raised from.
        return _best(error, chain.contexts(error)) or Evidence(error=error)
    return best


def _best(error: BaseException, nodes: Iterable[BaseException]) -> Evidence | None:
    """An HTTP answer beats a specific kind, a specific kind beats a generic one, the outermost beats the rest."""
    specific: Evidence | None = None
    generic: Evidence | None = None
    for node in nodes:
        kind = kind_of(node)
        if kind is Kind.CANCELLED:
            continue  # the siblings that a task group cancelled
        if kind not in (Kind.NOT_JSON, Kind.REDIRECTS):  # these carry the status of an answer that is not the point
            answer = read(node, "response")
            status = status_of(answer) or _status_of_error(node)
            if status:
                return Evidence(error=error, response=answer, kind=kind, status=status)
        if kind is None:
            continue
        if kind in GENERIC:
            generic = generic or Evidence(error=node, kind=kind)
        else:
            specific = specific or Evidence(error=node, kind=kind)
    return specific or generic


def _status_of_error(node: BaseException) -> int:
    """The status on the exception itself. `code` is an exit code on some and an errno on others: only with headers beside it."""
    for name in ("status_code", "status"):
        found = read(node, name)
        if isinstance(found, int) and not isinstance(found, bool) and 100 <= found <= 599:
            return int(found)
    if read(node, "headers") is not None:
        return status_of(node)
    return 0


def _general(seen: Evidence) -> tuple[str | None, str]:
    if seen.status:
        return status_code(seen.status), f"status:{seen.status}"
    if seen.kind is not None:
        return CODE_OF_KIND[seen.kind], f"kind:{seen.kind}"
    text = seen.text
    if text:
        if status := heuristics.status_in(text):
            code = status_code(status)
            # A message about a 200 is about something else that went wrong.
            if code is not None:
                return code, f"text:{status}"
        if found := heuristics.code_in(text):
            return found[0], f"text:{found[1]}"
    return "unexpected", "unknown"


def status_code(status: int) -> str | None:
    """The code of a bare HTTP status; None for a good one."""
    if status in _CODE_OF_STATUS:
        return _CODE_OF_STATUS[status]
    return _CODE_OF_HUNDRED.get(status // 100, "unexpected")


def _fault(
    book: CodeBook, name: str, decided: str, seen: Evidence, *, reach: Reach | None = None, now: float | None = None
) -> Fault:
    code = book[name]
    return Fault(
        code=name,
        reason=code.reason,
        reach=reach or code.reach,
        level=code.level,
        message=code.message,
        advice=code.advice,
        rule=decided,
        status=seen.status,
        retry_after=_asked_to_wait(seen, now) if seen.status else None,
        detail=_detail(seen),
    )


def _asked_to_wait(seen: Evidence, now: float | None) -> float | None:
    after, millis = seen.header("retry-after"), seen.header("retry-after-ms")
    if after is None and millis is None:
        return None
    return retry_after(after, milliseconds=millis, date=seen.header("date"), now=now)


def _detail(seen: Evidence) -> str:
    if seen.error is None:
        return redacted(seen.body.decode("utf-8", "replace")) if seen.status else ""
    text = message_of(seen.error, 2000)
    return redacted(f"{type(seen.error).__name__}: {text}" if text else type(seen.error).__name__)
