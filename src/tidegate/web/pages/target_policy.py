"""The policy of a target as text, as its workers reported it to the store."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from functools import lru_cache

from tidegate import children
from tidegate.children import ChildError
from tidegate.children import Limits as ProcessLimits
from tidegate.guard import capacity as fillings
from tidegate.guard.capacity import CapacityLimits, FillLevel
from tidegate.jobs.history import CallCounts, History
from tidegate.simulation import outage
from tidegate.simulation.outage import LENGTHS
from tidegate.svg import Svg
from tidegate.validation import JsonObject
from tidegate.web.pages.formatters import many, span

_WHEN_OPEN = {
    "hold": "its jobs wait",
    "fail": "its jobs fail at once",
    "fail-fast": "its jobs fail at once",
    "stale": "the last good answer is given",
}


def rows(rules: JsonObject) -> list[tuple[str, str]]:
    """Return name and meaning of each setting in force."""
    lines: list[tuple[str, str]] = []
    if when_open := rules.get("when_open"):
        lines.append(("While it is held", _WHEN_OPEN.get(str(when_open), str(when_open))))
    if numbers := rules.get("backoff"):
        lines.append(("After a failure", _backoff(numbers)))
    for code, (times, rest) in (rules.get("cooldown") or {}).items():
        lines.append((f"Rests after {code}", f"{span(float(rest))}, when it was met {many(times, 'time')} in a row"))
    if numbers := rules.get("breaker"):
        lines += _breaker(numbers, rules.get("probe_after"))
    if "probe_every" in rules:
        lines.append(("Health probe", f"asked every {span(float(rules['probe_every']))} while its breaker is open"))
    if rate := rules.get("rate"):
        lines.append(
            ("Rate", f"at most {_calls(rate['count'])} in {span(float(rate['per']))}, {rate['burst']:g} at once")
        )
    if limit := rules.get("concurrency"):
        lines.append(("At the same time", f"at most {many(limit, 'job')}"))
    if capacity := rules.get("capacity"):
        lines.append(("Capacity", f"at most {capacity['cap']} in its own queue"))
    return lines


def _calls(n: float) -> str:
    """A rate may be half a call."""
    return f"{n:g} {'call' if n == 1 else 'calls'}"


def _backoff(numbers: JsonObject) -> str:
    if steps := numbers.get("steps"):
        return f"a key waits {', '.join(span(float(step)) for step in steps)}"
    base, cap, factor = float(numbers["base"]), float(numbers["cap"]), float(numbers["factor"])
    if cap <= base:
        return f"a key waits {span(base)}"
    grows = "twice as long" if factor == 2 else f"{factor:g} times as long"
    return f"a key waits {span(base)}, each time {grows}, at most {span(cap)}"


def _breaker(numbers: JsonObject, probed_after: bool | list[str] | None) -> list[tuple[str, str]]:
    parts = []
    if (ratio := numbers.get("failure_ratio")) is not None:
        within = f" within {span(float(numbers['window']))}" if numbers.get("window") else ""
        if not within and numbers.get("interval"):
            within = f" within {span(float(numbers['interval']))}"
        parts.append(
            (
                "Breaker opens",
                f"when {ratio * 100:.0f} % of at least {many(numbers.get('min_requests', 1), 'call')} fail{within}",
            )
        )
    if (run := numbers.get("consecutive")) is not None:
        parts.append(("Or opens", f"after {many(run, 'failure')} in a row"))
    if probed_after:
        what = "a call fails" if probed_after is True else f"a call fails with {' or '.join(probed_after)}"
        parts.append(("Or opens at once", f"when {what}, and then its health probe too"))
    open_for = numbers.get("open_for")
    lasts = "as long as its probe fails" if open_for is None else span(float(open_for))
    if (longest := numbers.get("max_timeout")) is not None:
        lasts = f"{lasts}, growing with the outage to {span(float(longest))}"
    parts.append(("Stays open for", lasts))
    n = numbers["max_requests"]
    parts.append(("Trial calls", "1 good one closes it again" if n == 1 else f"{n} good ones close it again"))
    return parts


def breaker(rules: JsonObject) -> JsonObject:
    """Return the settings of its breaker. Empty without a breaker."""
    return dict(rules.get("breaker") or {})


def filling(known: str | None, limits: JsonObject | None, now: float) -> JsonObject | None:
    """Return the fill level of a target: depth, sent since, and limit. None before the first probe."""
    if not limits or known is None:
        return None
    level = FillLevel.load(known)
    if level.depth is None:
        return None
    own = len(fillings.own_sends(level, CapacityLimits(**limits), now))
    cap, taken = int(limits["cap"]), level.depth + own
    return {"depth": level.depth, "own": own, "taken": taken, "cap": cap, "full": taken >= cap, "at": level.at}


# -- outage simulation -------------------------------------------------------------------------------------------------
#
# Runs in a child process with limits. The result is cached until the policy changes.

_log = logging.getLogger("tidegate.web")

_DRAW = "tidegate.testing.simulation:draw"  # not imported here: only the child needs it
_LIMITS = ProcessLimits(memory_mb=1024, cpu="20s", time="30s", answer_mb=2)


@dataclass(frozen=True, slots=True)
class OutageChart:
    """One simulated outage. It has no chart if the simulation failed."""

    length: str
    svg: str = ""
    summary: str = ""
    held: int = 0  # calls that the gates rejected
    rows: tuple[tuple[str, ...], ...] = ()


def asked(length: str) -> str:
    """Return the outage length that a URL names, or an empty text."""
    return length if length in LENGTHS else ""


def possible(rules: JsonObject) -> bool:
    """Whether the policy has anything to simulate."""
    return outage.gates(rules) is not None


def drawn(rules: JsonObject, length: str, calls: History[CallCounts]) -> OutageChart:
    """Simulate and draw. *calls* describes recent calls."""
    policy = {name: rules[name] for name in ("backoff", "cooldown", "breaker") if rules.get(name)}
    try:
        return _simulated(json.dumps(policy, sort_keys=True), length, outage.pace(LENGTHS[length], calls))
    except (ChildError, OSError) as error:
        _log.warning("outage_not_played error=%s", error)
        return OutageChart(length)


@lru_cache(maxsize=64)
def _simulated(policy: str, length: str, every: int) -> OutageChart:
    result = children.run_now(_DRAW, {"rules": json.loads(policy), "length": length, "every": every}, _LIMITS)
    return OutageChart(
        length, Svg(result["svg"]), result["summary"], result["held"], tuple(tuple(row) for row in result["rows"])
    )
