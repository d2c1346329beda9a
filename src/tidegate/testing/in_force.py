"""An outage played against the numbers of a target, drawn for its page. Runs in a child process of the server.

There the breaker that is played counts in no metric of the server and writes into no log of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from tidegate.face.target import Target
from tidegate.ops import in_force, report
from tidegate.ops.picture import inside
from tidegate.testing.simulation import simulate


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRequest:
    """The numbers as the store has them, one of `in_force.LENGTHS`, and the seconds between two calls."""

    rules: dict[str, Any]
    length: str
    every: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayChart:
    """The picture, the same in a sentence, and what was counted: name, Tidegate, a plain loop, a loop of 3 tries."""

    svg: str
    summary: str
    held: int  # calls that the gates did not let through
    rows: list[list[str]]


def draw(request: ReplayRequest) -> ReplayChart:
    """ValueError when the numbers make no gate."""
    gates, length = in_force.gates(request.rules), in_force.LENGTHS[request.length]
    if gates is None:
        raise ValueError("rules: no gate would close in an outage")
    breaker: Any = gates.breaker or False
    make = partial(Target, "target", "jobs", backoff=gates.backoff, cooldown=gates.cooldown, breaker=breaker)
    result = simulate(make, outage=length.outage, every=request.every, lasts=length.lasts, probe=gates.probe)
    return ReplayChart(svg=inside(result), summary=report.summary(result), held=result.held, rows=report.rows(result))
