"""Prometheus: breakers read at scrape time from their running totals. Nothing is pushed per call."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from typing import TYPE_CHECKING
from weakref import WeakSet

from tidegate.machine.breaker import CLOSED, HALF_OPEN, OPEN
from tidegate.machine.ledger import all_totals

if TYPE_CHECKING:
    from prometheus_client.core import Metric
    from prometheus_client.registry import CollectorRegistry

_STATE = {CLOSED: 0, HALF_OPEN: 1, OPEN: 2}
_RESULTS = ("success", "failure", "rejected")
_MOVES = tuple(move for move in permutations((CLOSED, HALF_OPEN, OPEN), 2) if move != (CLOSED, HALF_OPEN))


class BreakerCollector:
    """Every breaker of the process, by name; those that share a name are added up, and the worst state shows."""

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
            if breakers:  # what is gone has no state, but its counters stay
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
