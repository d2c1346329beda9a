"""A verdict as people read it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from tidegate.core.duration import brief, seconds
from tidegate.core.fault import Fault, Reach, Reason
from tidegate.core.pack import Pack
from tidegate.ops.verdicts import ObservedResponse

_WIDTH, _LABEL = 80, 16

WHOSE = {
    Reason.TRANSIENT: "the service's, and it may pass",
    Reason.THROTTLED: "ours: we called too often",
    Reason.OVERLOADED: "the service's: it has more to do than it can",
    Reason.CANCELLED: "nobody's: we stopped the call ourselves",
    Reason.AUTH: "the account's: it must be allowed again",
    Reason.QUOTA: "the account's: its plan or its balance",
    Reason.CONFIG: "the operator's: a setting is wrong",
    Reason.CONTRACT: "the service's or ours: we do not speak the same language",
    Reason.ITEM: "of this one request alone",
}
REACHES = {
    Reach.ITEM: "this one item; everything else goes on",
    Reach.OPERATION: "this kind of call; others go on",
    Reach.CREDENTIAL: "this account; others go on",
    Reach.TARGET: "the whole service",
    Reach.SELF: "our own machine; the service is not to blame",
}
_BREAKER = {True: "a failure", False: "a success: the service did answer", None: "neither a failure nor a success"}


def lines(fault: Fault | None, seen: object, rule_pack: Pack | None) -> Iterator[str]:
    """The verdict, at most 80 columns wide."""
    if fault is None:
        status = f" (status {seen.status_code})" if isinstance(seen, ObservedResponse) else ""
        yield f"a good answer{status}"
        return
    yield f"{fault.code}: {'fatal, a retry does not help' if fault.fatal else 'retriable'}"
    yield ""
    yield from _row("what happened", fault.message)
    yield from _row("what to do", fault.advice)
    yield from _row("whose fault", WHOSE[fault.reason])
    yield from _row("reaches", REACHES[fault.reach])
    if fault.retry_after is not None:
        yield from _row("retry after", f"{brief(fault.retry_after)}, as the service asks")
    yield from _row("for a breaker", _BREAKER[fault.counts_as_failure])
    yield from _row("in the log", str(fault.level))
    yield from _row("decided by", f"{fault.rule}{' (no rule knew it)' if fault.unclassified else ''}")
    yield from _doubts(fault, rule_pack)


def _doubts(fault: Fault, rule_pack: Pack | None) -> Iterator[str]:
    for each in () if rule_pack is None else rule_pack.confirm:
        if each.code == fault.code and each.times > 1 and each.probe is None:
            apart = f", at least {brief(seconds(each.apart))} apart" if each.apart else ""
            yield from _row(
                "believed", f"by a target after {each.times} sightings{apart}; until then as {each.until_then}"
            )


def _row(label: str, text: str) -> list[str]:
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=f"  {label:<{_LABEL}}",
        subsequent_indent=" " * (_LABEL + 2),
        break_on_hyphens=False,
    )
