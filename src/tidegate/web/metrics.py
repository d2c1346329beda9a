"""/metrics and /health: figures from the store and the breakers of this process."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request, Response
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import CollectorRegistry

from tidegate.admin.metrics import MAX_TARGETS, BreakerFigures, Figures, QueueFigures, ReportedBreaker, figures
from tidegate.errors import StoreError
from tidegate.guard.sinks import BreakerCollector
from tidegate.jobs import reports
from tidegate.jobs.reports import QueueReport
from tidegate.store.base import Tx
from tidegate.store.migrate import CORE, applied, core_migrations
from tidegate.targets.reporter import this_program
from tidegate.web.problems import Problem
from tidegate.web.site import Site, site_of

if TYPE_CHECKING:
    from prometheus_client.core import Metric
    from prometheus_client.samples import Sample


def metrics_router() -> APIRouter:
    router = APIRouter(include_in_schema=False)
    router.add_api_route("/metrics", metrics, methods=["GET"])
    return router


def metrics(request: Request) -> Response:
    """Return the metrics in the format that the Accept header requests."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(StoreCollector(site_of(request)))
    encode, kind = choose_encoder(request.headers.get("accept", ""))
    return Response(encode(registry), media_type=kind, headers={"Cache-Control": "no-store"})


@dataclass(frozen=True, slots=True, eq=False)
class StoreCollector:
    """Collects metrics on each scrape. If the database is unreachable, it reports that and the local breakers."""

    site: Site

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        build = GaugeMetricFamily("tidegate_build_info", "The running version", labels=["version"])
        build.add_metric([self.site.version], 1)
        yield build
        up = GaugeMetricFamily("tidegate_store_up", "Whether the database can be read")
        try:
            totals = self.site.read(figures)
        except StoreError:
            up.add_metric([], 0)
            yield up
            yield from _of_breakers([], [])
            return
        up.add_metric([], 1)
        yield up
        yield from _of_queues(totals.queues)
        others = [
            breaker
            for program, breakers in totals.programs.items()
            if program != this_program()
            for breaker in breakers
        ]
        yield from _of_breakers(totals.breakers, others)
        yield from _of_targets(totals)
        yield from _of_workers(totals)
        yield from _of_channels(totals)
        for installed in self.site.apps:
            if installed.app.metrics is not None:
                with contextlib.suppress(StoreError):  # unreachable since the last read
                    yield from installed.app.metrics(installed)


def _of_queues(queues: list[QueueFigures]) -> Iterator[Metric]:
    depth = GaugeMetricFamily("queue_depth", "Jobs that are blocked, waiting or ready", labels=["queue"])
    active = GaugeMetricFamily("jobs_active", "Jobs that run", labels=["queue"])
    oldest = GaugeMetricFamily(
        "tidegate_queue_oldest_age_seconds", "Age of the oldest job that is ready", labels=["queue"]
    )
    failed = CounterMetricFamily("jobs_failed", "Jobs that failed permanently, by code", labels=["queue", "error_code"])
    retries = CounterMetricFamily("manual_retry", "Jobs that a user queued again", labels=["queue"])
    expired = CounterMetricFamily("tidegate_lease_expired", "Leases that ran out", labels=["queue"])
    took = HistogramMetricFamily("job_processing_duration_seconds", "How long attempts took", labels=["queue"])
    for queue in queues:
        name = [queue.name]
        depth.add_metric(name, queue.depth)
        active.add_metric(name, queue.active)
        oldest.add_metric(name, queue.oldest_age)
        for code, n in queue.failed.items():
            failed.add_metric([queue.name, code], n)
        retries.add_metric(name, queue.manual_retries)
        expired.add_metric(name, queue.lease_expired)
        buckets = [("+Inf" if bound == float("inf") else str(bound), n) for bound, n in queue.durations.buckets]
        took.add_metric(name, buckets, queue.durations.sum)
    yield from (depth, active, oldest, failed, retries, expired, took)


def _of_breakers(rows: list[BreakerFigures], others: list[ReportedBreaker]) -> Iterator[Metric]:
    """Yield stored breakers and those of this process. For a name in both, the stored one counts.

    If another process, such as a worker, has the same breaker, the worst state is reported.
    """
    families = list(BreakerCollector().collect())
    own = {sample.labels["name"] for family in families for sample in family.samples} - {row.name for row in rows}
    shown = set(sorted(own)[: MAX_TARGETS - len(rows)])
    for family in families:
        samples = [sample for sample in family.samples if sample.labels["name"] in shown]
        worst = _WORST.get(family.name)
        family.samples[:] = samples if worst is None else [_at_worst(sample, others, worst) for sample in samples]
        for row in rows:
            _ADD[family.name](family, row)
        yield family


def _at_worst(sample: Sample, others: list[ReportedBreaker], value: Callable[[ReportedBreaker], int]) -> Sample:
    theirs = [value(breaker) for breaker in others if breaker.name == sample.labels["name"]]
    return sample._replace(value=max([sample.value, *theirs]))


def _add_state(family: Metric, row: BreakerFigures) -> None:
    family.add_sample("circuit_breaker_state", {"name": row.name}, row.state)


def _add_consecutive(family: Metric, row: BreakerFigures) -> None:
    family.add_sample("circuit_breaker_consecutive_failures", {"name": row.name}, row.consecutive_failures)


def _add_requests(family: Metric, row: BreakerFigures) -> None:
    for result, n in row.requests.items():
        family.add_sample("circuit_breaker_requests_total", {"name": row.name, "result": result}, n)


def _add_transitions(family: Metric, row: BreakerFigures) -> None:
    for (old, new), n in row.transitions.items():
        labels = {"name": row.name, "from_state": old, "to_state": new}
        family.add_sample("circuit_breaker_state_transitions_total", labels, n)


_WORST: Mapping[str, Callable[[ReportedBreaker], int]] = {
    "circuit_breaker_state": lambda each: each.state,
    "circuit_breaker_consecutive_failures": lambda each: each.consecutive_failures,
}
_ADD = {
    "circuit_breaker_state": _add_state,
    "circuit_breaker_consecutive_failures": _add_consecutive,
    "circuit_breaker_requests": _add_requests,
    "circuit_breaker_state_transitions": _add_transitions,
}


def _of_targets(totals: Figures) -> Iterator[Metric]:
    labels = ["target", "state"]
    state = GaugeMetricFamily("tidegate_target_state", "State of a target: 1 for the current state", labels=labels)
    for name, token in totals.target_state.items():
        for known in totals.tokens:
            state.add_metric([name, known], float(known == token))
    counted = GaugeMetricFamily("tidegate_targets", "Targets by state, all of them", labels=["state"])
    for token, n in totals.targets.items():
        counted.add_metric([token], n)
    yield from (state, counted)


def _of_workers(totals: Figures) -> Iterator[Metric]:
    yield GaugeMetricFamily("tidegate_workers", "Workers with a recent heartbeat", value=totals.workers)
    tick = GaugeMetricFamily("tidegate_engine_last_tick_timestamp_seconds", "Time of the last heartbeat of a worker")
    if totals.last_tick is not None:
        tick.add_metric([], totals.last_tick)
    yield tick
    yield GaugeMetricFamily("tidegate_notices_unread", "Unread notices", value=totals.unread_notices)


def _of_channels(totals: Figures) -> Iterator[Metric]:
    failing = GaugeMetricFamily("tidegate_channel_failing", "Whether a channel is failing", labels=["channel"])
    for name, fails in totals.failing.items():
        failing.add_metric([name], float(fails))
    labels = ["channel", "outcome"]
    sent = CounterMetricFamily("tidegate_deliveries", "Deliveries through channels, by outcome", labels=labels)
    for (name, outcome), n in totals.deliveries.items():
        sent.add_metric([name, outcome], n)
    yield from (failing, sent)


# -- health ------------------------------------------------------------------------------------------------------------
#
# Liveness of the process, readiness of the database, and workers for every queue. A failing external service turns none
# of them red: surviving that is the purpose of the program.

_WAITING = ("waiting", "ready")


def health_router() -> APIRouter:
    router = APIRouter(prefix="/health", include_in_schema=False)
    router.add_api_route("/live", live, methods=["GET"])
    router.add_api_route("/ready", ready, methods=["GET"])
    router.add_api_route("/workers", workers, methods=["GET"])
    return router


async def live(request: Request) -> Response:
    """Report that the process responds."""
    return _ok(version=site_of(request).version)


def ready(request: Request) -> Response:
    """Report whether the database is reachable and migrated."""
    site = site_of(request)
    site.read(lambda tx: tx.query("clock"))
    missing = _missing(site)
    if missing:
        detail = f"The schema of the database lacks {len(missing)} steps; run: tidegate db migrate."
        raise Problem("not_ready", detail, missing=missing)
    return _ok()


def _missing(site: Site) -> list[str]:
    present = {step.number for step in applied(site.queue.store) if step.app == CORE}
    return [
        f"{migration.number:04} {migration.name}" for migration in core_migrations() if migration.number not in present
    ]


def workers(request: Request) -> Response:
    """Report whether every queue with jobs has a worker."""
    queues, worker_count = site_of(request).read(_read_queues)
    alone = [queue for queue in queues if _lacks_worker(queue)]
    if alone:
        names = ", ".join(report.name for report in alone[:5])
        reasons = [
            {"queue": report.name, "waiting": sum(report.jobs.get(stage, 0) for stage in _WAITING), "workers": 0}
            for report in alone[:50]
        ]
        raise Problem("no_workers", f"No worker is there for: {names}.", reasons=reasons)
    return _ok(workers=worker_count)


def _read_queues(tx: Tx) -> tuple[list[QueueReport], int]:
    return reports.queues(tx), sum(
        worker.there and not worker.stopping and not worker.outdated for worker in reports.workers(tx)
    )


def _lacks_worker(queue: QueueReport) -> bool:
    # An operator paused the queue on purpose, so it needs no worker.
    waits = any(queue.jobs.get(stage, 0) > 0 for stage in _WAITING)
    return waits and not queue.workers and queue.paused_until is None


def _ok(**more: Any) -> Response:
    return Response(json.dumps({"status": "ok", **more}), media_type="application/json")
