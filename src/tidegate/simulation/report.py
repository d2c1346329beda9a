"""Simulation reports: text, table rows and JSON."""

from __future__ import annotations

from typing import Any

from tidegate.durations import brief
from tidegate.simulation.play import NaiveLoop, Simulation

SCHEMA = "tidegate.simulation/1"


def describe_simulation(result: Simulation) -> str:
    """Describes the simulation in one line."""
    plan = result.plan
    start = "" if plan.outage.start is None else f", from {brief(plan.outage.start)} on"
    return f"{plan.outage.label}{start}; a call every {brief(plan.every)} for {brief(plan.lasts)}"


def outcome(result: Simulation) -> str:
    """Describes what the gates saved, in one line."""
    plain, stubborn = result.plain.calls.failures, result.stubborn.calls.failures
    return (
        f"{_count(result.calls.failures)} failed with Tidegate, {plain:,} with a plain loop,"
        f" {stubborn:,} with 3 tries each time"
    )


def summary(result: Simulation) -> str:
    """Describes the chart for screen readers."""
    held = f"{result.held:,} were held back" if result.held else "none was held back"
    noticed = "nobody was told"
    if result.noticed_after is not None:
        noticed = f"it was noticed {_after(result.noticed_after)} the first failure"
    recovered = "no good call followed the outage in the time that was played"
    if result.recovered_after is not None:
        recovered = f"the first good call came {_after(result.recovered_after)} the end of the outage"
    return (
        f"{describe_simulation(result)}. {outcome(result)}. Of the calls with Tidegate {held}; {noticed}; {recovered}."
    )


def rows(result: Simulation) -> list[list[str]]:
    """Returns the table: name, Tidegate, a plain loop, a loop with three attempts."""
    loops = (result.plain, result.stubborn)
    calls = (result.calls, *(loop.calls for loop in loops))
    return [
        ["calls made", *(f"{len(call):,}" for call in calls)],
        ["calls that failed", *(f"{call.failures:,}" for call in calls)],
        ["calls held back", f"{result.held:,}", "-", "-"],
        *([["health probes", f"{result.probes:,}", "-", "-"]] if result.probes else []),
        ["noticed after", _time(result.noticed_after, otherwise="never"), "-", "-"],
        ["recovered after", _time(result.recovered_after), *(_time(result.recovery_of(loop)) for loop in loops)],
    ]


def as_json(result: Simulation, title: str) -> dict[str, Any]:
    """Returns the whole result. Times are seconds since the start. Consecutive calls with one outcome are grouped."""
    plan = result.plan
    return {
        "schema": SCHEMA,
        "title": title,
        "every": plan.every,
        "lasts": plan.lasts,
        "outage": [
            {
                "from": trouble.start,
                "to": trouble.end,
                "trouble": str(trouble.ill),
                "status": trouble.status or None,
                "retry_after": trouble.retry_after,
                "share": trouble.share,
            }
            for trouble in plan.outage.troubles
        ],
        "calls": len(result.calls),
        "failures": result.calls.failures,
        "held": result.held,
        "probes": result.probes,
        "noticed_after": result.noticed_after,
        "recovered_after": result.recovered_after,
        "notices": [notice._asdict() for notice in result.told],
        "holds": [{"from": span.start, "to": span.end, "reason": str(span.why)} for span in result.spans],
        "timeline": [
            {"from": first, "to": last, "calls": count, "ok": ok} for first, last, count, ok in result.calls.runs()
        ],
        "without": {
            "plain_loop": _loop(result, result.plain),
            "three_tries": _loop(result, result.stubborn),
        },
    }


def _loop(result: Simulation, loop: NaiveLoop) -> dict[str, Any]:
    return {
        "calls": len(loop.calls),
        "failures": loop.calls.failures,
        "recovered_after": result.recovery_of(loop),
    }


def _time(value: float | None, otherwise: str = "not yet") -> str:
    return otherwise if value is None else brief(value)


def _after(value: float) -> str:
    return f"{brief(value)} after" if value else "at"


def _count(number: int) -> str:
    return f"{number:,} {'call' if number == 1 else 'calls'}"
