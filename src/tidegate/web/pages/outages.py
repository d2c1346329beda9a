"""What an outage would do to a target: played in a limited child process, and kept while the numbers are the same."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from markupsafe import Markup

from tidegate import children
from tidegate.children import ChildError, Limits
from tidegate.ops import in_force
from tidegate.ops.history import CallCounts, History
from tidegate.ops.in_force import LENGTHS

_log = logging.getLogger("tidegate.web")

_DRAW = "tidegate.testing.in_force:draw"  # not imported here: only the child needs it
_LIMITS = Limits(memory_mb=1024, cpu="20s", time="30s", answer_mb=2)


@dataclass(frozen=True, slots=True)
class OutageChart:
    """One outage as its section shows it; without a picture when it could not be played."""

    length: str
    svg: Markup | str = ""
    summary: str = ""
    held: int = 0  # calls that the gates did not let through
    rows: tuple[tuple[str, ...], ...] = ()


def asked(length: str) -> str:
    """The length that an address asks for; nothing for any other word."""
    return length if length in LENGTHS else ""


def possible(rules: Mapping[str, Any]) -> bool:
    """Whether there is anything to play."""
    return in_force.gates(rules) is not None


def drawn(rules: Mapping[str, Any], length: str, calls: History[CallCounts]) -> OutageChart:
    """*calls*: how it was called of late."""
    numbers = {name: rules[name] for name in ("backoff", "cooldown", "breaker") if rules.get(name)}
    try:
        return _played(json.dumps(numbers, sort_keys=True), length, in_force.pace(LENGTHS[length], calls))
    except (ChildError, OSError) as error:
        _log.warning("outage_not_played error=%s", error)
        return OutageChart(length)


@lru_cache(maxsize=64)
def _played(numbers: str, length: str, every: int) -> OutageChart:
    found = children.run_now(_DRAW, {"rules": json.loads(numbers), "length": length, "every": every}, _LIMITS)
    svg = Markup(found["svg"])  # noqa: S704  # nosec B704 # our own shapes around numbers, nothing from outside
    return OutageChart(length, svg, found["summary"], found["held"], tuple(tuple(row) for row in found["rows"]))
