"""The timeline of a simulation in four lines of plain characters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tidegate.core.duration import brief
from tidegate.ops.calls import SimulatedCalls
from tidegate.ops.simulate import Simulation
from tidegate.ops.spans import HoldKind, HoldSpan

LEGEND = "o answered  x failed  X many failed  * some of both  - held back"
_LABEL = 12
_MANY = 3  # failures in one slice


def strip(result: Simulation, width: int = 80) -> list[str]:
    """Outage, calls with Tidegate and calls without, each character a slice of the time, and the hours below."""
    size, lasts = width - _LABEL, result.plan.lasts
    outage = [" "] * size
    for trouble in result.plan.outage.troubles:
        _fill(outage, trouble.start / lasts, trouble.end / lasts, "#")
    return [
        _line("outage", outage),
        _line("Tidegate", _lane(result.calls, lasts, size, result.spans)),
        _line("plain loop", _lane(result.plain.calls, lasts, size, ())),
        _line("", _axis(lasts, size)),
    ]


def _lane(calls: SimulatedCalls, lasts: float, size: int, spans: Sequence[HoldSpan]) -> list[str]:
    lane = [" "] * size
    for span in spans:
        if span.why is not HoldKind.HALF_OPEN:  # calls are let through
            _fill(lane, span.start / lasts, span.end / lasts, "-")
    good, bad = Counter[int](), Counter[int]()
    for call in calls:
        (good if call.ok else bad)[min(int(call.at / lasts * size), size - 1)] += 1
    for at in good.keys() | bad.keys():
        lane[at] = "*" if good[at] and bad[at] else "o" if good[at] else "X" if bad[at] > _MANY else "x"
    return lane


def _fill(lane: list[str], start: float, end: float, mark: str) -> None:
    first, last = int(start * len(lane)), int(min(end, 1.0) * len(lane))
    for at in range(first, min(max(last, first + 1), len(lane))):
        lane[at] = mark


def _axis(lasts: float, size: int) -> list[str]:
    lane = [" "] * (size + 8)
    for quarter in range(5):
        label = "0" if quarter == 0 else brief(lasts * quarter / 4)
        at = round(size * quarter / 4)
        at = min(at, size - len(label))
        lane[at : at + len(label)] = label
    return lane


def _line(label: str, lane: list[str]) -> str:
    return f"{label:<{_LABEL}}{''.join(lane)}".rstrip()
