"""Sinks for events: the log and Prometheus metrics."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import permutations
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from tidegate.events import DEFAULT, Bus, Event, EventKind
from tidegate.faults.fault import Level
from tidegate.guard.breaker_registry import all_totals
from tidegate.guard.breaker_state import CLOSED, HALF_OPEN, OPEN

if TYPE_CHECKING:
    from prometheus_client.core import Metric
    from prometheus_client.registry import CollectorRegistry


# -- log ------------------------------------------------------------------------------------------------------------

_log = logging.getLogger("tidegate")

_LEVELS = {
    EventKind.TARGET_FATAL: Level.ERROR,
    EventKind.TARGET_DISABLED: Level.WARN,
    EventKind.OWN_LINK_LOST: Level.ERROR,
}


def log_event(event: Event) -> None:
    """Logs one line per event, with its name and fields, at the level of its fault."""
    if event.kind is EventKind.BREAKER_STATE_CHANGED:
        return  # the breaker logs its transitions itself, even without a sink
    level = level_of(event)
    if not _log.isEnabledFor(level):
        return
    fields = fields_of(event)
    _log.log(level, "%s", line(str(event.kind), fields), extra={"event": str(event.kind), "fields": fields})


def level_of(event: Event) -> int:
    if event.kind is EventKind.CALL_FAILED and event.fault is not None:
        return event.fault.level.number
    return _LEVELS.get(event.kind, Level.INFO).number


def fields_of(event: Event) -> dict[str, Any]:
    """Returns the fields of the log line in a fixed order."""
    fields: dict[str, Any] = {"target": event.target}
    for name in ("key", "operation"):
        if getattr(event, name) is not None:
            fields[name] = getattr(event, name)
    if event.fault is not None:
        fault = event.fault
        fields |= {"code": fault.code, "status": fault.status, "rule": fault.rule, "error": fault.detail}
    if event.notice is not None:
        fields |= {"notice": str(event.notice.kind), "title": event.notice.title}
    return fields | dict(event.fields)


def line(name: str, fields: dict[str, Any]) -> str:
    return " ".join([name, *(f"{key}={_shown(value)}" for key, value in fields.items())])


def _shown(value: object) -> str:
    text = str(value)
    return repr(text) if not text or not text.isprintable() or " " in text or '"' in text else text


def sinks(*, log: bool | None = None, metrics: Any = None, bus: Bus = DEFAULT) -> None:
    """Sends the events of this process to the log (True or False), and its breakers to a Prometheus registry.

    tidegate.sinks(log=True, metrics=prometheus_client.REGISTRY)
    """
    if log is not None:
        (bus.attach if log else bus.detach)(log_event)
    if metrics is not None:
        register(metrics)


# -- metrics --------------------------------------------------------------------------------------------------------

_STATE = {CLOSED: 0, HALF_OPEN: 1, OPEN: 2}
_RESULTS = ("success", "failure", "rejected")
_MOVES = tuple(move for move in permutations((CLOSED, HALF_OPEN, OPEN), 2) if move != (CLOSED, HALF_OPEN))


class BreakerCollector:
    """All breakers of the process by name, read at scrape time.

    Breakers with one name are added up, with the worst state.
    """

    def collect(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        state = GaugeMetricFamily(
            "circuit_breaker_state", "Circuit breaker state (0 closed, 1 half-open, 2 open)", labels=["name"]
        )
        run = GaugeMetricFamily(
            "circuit_breaker_consecutive_failures",
            "Failures in a row; while open, those that opened it",
            labels=["name"],
        )
        requests = CounterMetricFamily(
            "circuit_breaker_requests", "Calls through the circuit breaker, by result", labels=["name", "result"]
        )
        moves = CounterMetricFamily(
            "circuit_breaker_state_transitions", "Changes of state", labels=["name", "from_state", "to_state"]
        )
        for ledger in all_totals():
            breakers = ledger.breakers()
            if breakers:  # deleted breakers have no state, but their counters stay
                state.add_metric([ledger.name], max(_STATE[breaker.state] for breaker in breakers))
                run.add_metric([ledger.name], max(breaker.run for breaker in breakers))
            results, transitions = ledger.totals()
            for result in _RESULTS:
                requests.add_metric([ledger.name, result], results[result])
            for old, new in _MOVES:
                moves.add_metric([ledger.name, old, new], transitions[old, new])
        yield from (state, run, requests, moves)


_registered: WeakSet[CollectorRegistry] = WeakSet()


def register(registry: CollectorRegistry) -> None:
    """Adds the collector to *registry*, once."""
    if registry not in _registered:
        registry.register(BreakerCollector())
        _registered.add(registry)
