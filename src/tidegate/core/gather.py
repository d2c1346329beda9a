"""Picks the most telling evidence out of an answer, or out of an exception and everything that led to it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tidegate.core import chain, heuristics
from tidegate.core.attribution import has_readable_text
from tidegate.core.evidence import Evidence, status_of
from tidegate.core.kinds import INCIDENTAL, OURS, STRENGTH, VAGUE, kind_of
from tidegate.core.known import ExceptionKind
from tidegate.core.reading import MAX_TEXT, fields_of, is_a, message_of, read, status_in_field

# Exceptions of Python itself, as they are raised nearly always: nothing led to them and nobody added anything.
_PLAIN = frozenset({
    OSError, ConnectionError, ConnectionRefusedError, ConnectionResetError, ConnectionAbortedError, BrokenPipeError,
    TimeoutError, EOFError,
})  # fmt: skip

_GAVE_UP = r"too many ([1-5][0-9]{2}) error responses"


def collect_evidence(what: object) -> Evidence:
    """The most telling evidence in an answer, an exception or a bare message; it never raises."""
    try:
        if is_a(what, BaseException):
            return _of_error(what)
        if is_a(what, Evidence):
            return what
        if is_a(what, str):
            return Evidence(error=RuntimeError(what[:MAX_TEXT]))
        return Evidence(response=what, status=status_of(what))
    except Exception:  # a type can be so odd that even looking at it raises
        return Evidence(error=what if is_a(what, BaseException) else None)


def _of_error(error: BaseException) -> Evidence:
    kind = kind_of(error)
    if kind in OURS or (type(error) in _PLAIN and kind is not None and _stands_alone(error)):
        return Evidence(error=error, kind=kind)
    if kind is None and (status := status_of(answer := read(error, "response"))) >= 300:
        # What raise_for_status() of most clients raises: nothing below it could say more.
        return Evidence(error=error, response=answer, status=status)
    best = _best(error, chain.causes(error))
    if best is None or (best.kind in VAGUE and not best.status):
        # What was being handled when it was raised is weaker than what it was raised from: an answer that was being
        # handled counts only when nothing else is known.
        best = _best(error, chain.contexts(error), answers=best is None) or best
    return best or _ours(error) or _untyped(error)


def _stands_alone(error: BaseException) -> bool:
    if error.__cause__ is not None or error.__context__ is not None or error.__dict__:
        return False
    return not any(is_a(arg, BaseException) for arg in error.args)


def _best(error: BaseException, nodes: Iterable[BaseException], *, answers: bool = True) -> Evidence | None:
    """An HTTP answer beats a kind, a stronger kind a weaker one, and the outermost the rest."""
    strongest: tuple[int, BaseException, ExceptionKind] | None = None
    good: Evidence | None = None
    for node in nodes:
        kind = kind_of(node)
        if kind in OURS:
            continue  # the siblings that a task group cancelled
        if answers and kind not in INCIDENTAL:
            fields = fields_of(node)
            answer = fields.get("response")
            status = status_of(answer) or _status_in(fields, node)
            if (
                not status
                and kind is ExceptionKind.CONNECT
                and (gave_up := re.search(_GAVE_UP, message_of(node), re.ASCII))
            ):
                status = int(gave_up[1])
            if status >= 300:
                return Evidence(error=node, response=answer, kind=kind, status=status, outer=error)
            if status and good is None:
                good = Evidence(error=node, response=answer, kind=kind, status=status, outer=error)
        if kind is not None and (strongest is None or STRENGTH[kind] > strongest[0]):
            strongest = STRENGTH[kind], node, kind
    if strongest is None or (good is not None and strongest[2] in VAGUE):
        return good
    return Evidence(error=strongest[1], kind=strongest[2], outer=error)


def _status_in(fields: dict[str, object], node: BaseException) -> int:
    """The status on an exception itself."""
    if not fields:
        return 0
    # aiohttp makes up a 400 for an answer that was no HTTP.
    cause = read(node, "__cause__")
    if is_a(cause, BaseException) and kind_of(cause) is ExceptionKind.PROTOCOL:
        return 0
    for name in ("status_code", "status", "http_status"):
        if found := status_in_field(fields.get(name)):
            return found
    # `code` is an exit code on some and an errno on others: only with headers beside it. That of aiohttp warns whoever
    # asks, so it is asked last.
    return status_in_field(read(node, "code")) if fields.get("headers") is not None else 0


def _ours(error: BaseException) -> Evidence | None:
    """A group or a wrapper with nothing in it but what we stopped ourselves."""
    ends = list(chain.ends(error))
    kinds = [kind_of(end) for end in ends]
    return Evidence(error=ends[0], kind=kinds[0], outer=error) if ends and all(k in OURS for k in kinds) else None


def _untyped(error: BaseException) -> Evidence:
    """The first message that says something, a status before words."""
    nodes = [node for node in chain.contexts(error) if has_readable_text(node) and kind_of(node) not in OURS]
    texts = [(node, message_of(node)) for node in nodes]
    for says in (heuristics.lastfm_in, heuristics.status_in, heuristics.code_in):
        for node, text in texts:
            if text and says(text):
                return Evidence(error=node, outer=error)
    return Evidence(error=error)
