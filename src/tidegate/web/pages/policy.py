"""The numbers of a target in words, as its workers told them to the store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidegate.machine import filling as fillings
from tidegate.machine.filling import CapacityLimits, FillLevel
from tidegate.web.pages.times import many, span

_BEHIND = {
    "hold": "its jobs wait",
    "fail": "its jobs fail at once",
    "fail-fast": "its jobs fail at once",
    "stale": "the last good answer is given",
}


def rows(rules: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Name and meaning of each number that is in force."""
    found: list[tuple[str, str]] = []
    if behind := rules.get("behind"):
        found.append(("While it is held", _BEHIND.get(str(behind), str(behind))))
    if numbers := rules.get("backoff"):
        found.append(("After a failure", _backoff(numbers)))
    for code, (times, rest) in (rules.get("cooldown") or {}).items():
        found.append((f"Rests after {code}", f"{span(float(rest))}, when it was met {many(times, 'time')} in a row"))
    if numbers := rules.get("breaker"):
        found += _breaker(numbers, rules.get("probe_after"))
    if "probe_every" in rules:
        found.append(("Health probe", f"asked every {span(float(rules['probe_every']))} while its breaker is open"))
    if rate := rules.get("rate"):
        found.append(
            ("Rate", f"at most {_calls(rate['count'])} in {span(float(rate['per']))}, {rate['burst']:g} at once")
        )
    if limit := rules.get("concurrency"):
        found.append(("At the same time", f"at most {many(limit, 'job')}"))
    if capacity := rules.get("capacity"):
        found.append(("Capacity", f"at most {capacity['cap']} in its own queue"))
    return found


def _calls(n: float) -> str:
    """A rate may be of half a call."""
    return f"{n:g} {'call' if n == 1 else 'calls'}"


def _backoff(numbers: Mapping[str, Any]) -> str:
    if steps := numbers.get("steps"):
        return f"a key waits {', '.join(span(float(step)) for step in steps)}"
    base, cap, factor = float(numbers["base"]), float(numbers["cap"]), float(numbers["factor"])
    if cap <= base:
        return f"a key waits {span(base)}"
    grows = "twice as long" if factor == 2 else f"{factor:g} times as long"
    return f"a key waits {span(base)}, each time {grows}, at most {span(cap)}"


def _breaker(numbers: Mapping[str, Any], probed_after: bool | list[str] | None) -> list[tuple[str, str]]:
    found = []
    if (ratio := numbers.get("failure_ratio")) is not None:
        within = f" within {span(float(numbers['window']))}" if numbers.get("window") else ""
        if not within and numbers.get("interval"):
            within = f" within {span(float(numbers['interval']))}"
        found.append(
            (
                "Breaker opens",
                f"when {ratio * 100:.0f} % of at least {many(numbers.get('min_requests', 1), 'call')} fail{within}",
            )
        )
    if (run := numbers.get("consecutive")) is not None:
        found.append(("Or opens", f"after {many(run, 'failure')} in a row"))
    if probed_after:
        what = "a call fails" if probed_after is True else f"a call fails with {' or '.join(probed_after)}"
        found.append(("Or opens at once", f"when {what}, and then its health probe too"))
    open_for = numbers.get("open_for")
    lasts = "as long as its probe fails" if open_for is None else span(float(open_for))
    if (longest := numbers.get("max_timeout")) is not None:
        lasts = f"{lasts}, growing with the outage to {span(float(longest))}"
    found.append(("Stays open for", lasts))
    n = numbers["max_requests"]
    found.append(("Trial calls", "1 good one closes it again" if n == 1 else f"{n} good ones close it again"))
    return found


def breaker(rules: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers of its breaker; empty when it has none."""
    return dict(rules.get("breaker") or {})


def filling(known: str | None, limits: Mapping[str, Any] | None, now: float) -> dict[str, Any] | None:
    """How full a target says it is: its depth, what we sent since, and its cap; None when nobody has asked yet."""
    if not limits or known is None:
        return None
    found = FillLevel.load(known)
    if found.depth is None:
        return None
    own = len(fillings.own_sends(found, CapacityLimits(**limits), now))
    cap, taken = int(limits["cap"]), found.depth + own
    return {"depth": found.depth, "own": own, "taken": taken, "cap": cap, "full": taken >= cap, "at": found.at}
