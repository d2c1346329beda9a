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
        f" {stubborn:,} with 3 attempts per call"
    )


def summary(result: Simulation) -> str:
    """Describes the chart for screen readers."""
    held = f"{result.held:,} were held" if result.held else "none was held"
    noticed = "no notice was sent"
    if result.noticed_after is not None:
        noticed = f"it was detected {_after(result.noticed_after)} the first failure"
    recovered = "no call succeeded after the outage in the simulated time"
    if result.recovered_after is not None:
        recovered = f"the first success came {_after(result.recovered_after)} the end of the outage"
    return (
        f"{describe_simulation(result)}. {outcome(result)}. Of the calls with Tidegate {held}; {noticed}; {recovered}."
    )


def rows(result: Simulation) -> list[list[str]]:
    """Returns the table: name, Tidegate, a plain loop, a loop with three attempts. A plain loop is 100 %."""
    loops = (result.plain, result.stubborn)
    calls = (result.calls, *(loop.calls for loop in loops))
    loads = [result.load(made) for made in calls]
    failures = [made.failures for made in calls]
    return [
        ["calls in all", *(f"{len(made):,}" for made in calls)],
        ["calls during the outage", *(_share(load, loads[1]) for load in loads)],
        ["failed calls", *(_share(failed, failures[1]) for failed in failures)],
        ["calls held", f"{result.held:,}", "-", "-"],
        ["of them after the outage", f"{result.held_late:,}", "-", "-"],
        *([["health probes", f"{result.probes:,}", "-", "-"]] if result.probes else []),
        ["outage detected after", _time(result.noticed_after, otherwise="never"), "-", "-"],
        [
            "first success after it",
            *(_recovery(result, after) for after in (result.recovered_after, *map(result.recovery_of, loops))),
        ],
    ]


def trade(result: Simulation, longest_wait: float | None) -> str:
    """Describes in one line what the gates save, and what that costs. *longest_wait*: of the policy, in seconds."""
    load, plain = result.load(result.calls), result.load(result.plain.calls)
    if not plain:
        return "No call met the outage."
    saved = f"Tidegate made {load / plain:.0%} of the calls of a plain loop during the outage ({load:,} of {plain:,})."
    if result.plan.outage.end is None or result.plan.outage.end >= result.plan.lasts:
        return f"{saved} The outage lasts longer than the simulation."
    if result.recovered_after is None:
        return f"{saved} In return, no call succeeded after the outage in the simulated time."
    later = result.recovered_after - (result.recovery_of(result.plain) or 0.0)
    limit = f" (this policy waits up to {brief(longest_wait)} between two attempts)" if longest_wait else ""
    if later <= 0:
        return f"{saved} Its first success after the outage came no later."
    return f"{saved} In return, its first success came {brief(later)} later{limit}."


def _share(count: int, whole: int) -> str:
    return f"{count:,} ({count / whole:.0%})" if whole else f"{count:,}"


def _recovery(result: Simulation, after: float | None) -> str:
    """The next call succeeds at the earliest. How soon that one comes after the outage is chance."""
    return f"up to {brief(result.plan.every)}" if after is not None and after < result.plan.every else _time(after)


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
        "calls_during_outage": result.load(result.calls),
        "held": result.held,
        "held_after_outage": result.held_late,
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
        "calls_during_outage": result.load(loop.calls),
        "failures": loop.calls.failures,
        "recovered_after": result.recovery_of(loop),
    }


def _time(value: float | None, otherwise: str = "not yet") -> str:
    return otherwise if value is None else brief(value)


def _after(value: float) -> str:
    return f"{brief(value)} after" if value else "at"


def _count(number: int) -> str:
    return f"{number:,} {'call' if number == 1 else 'calls'}"
