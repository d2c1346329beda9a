"""Each number of the figures is told under its own name, with its own labels, and under no other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tidegate.admin.metrics import BreakerFigures, Durations, Figures, QueueFigures
from tidegate.web.metrics import StoreCollector

QUEUE = QueueFigures(
    name="mail", depth=1, active=2, failed={"gone": 3}, durations=Durations(((1.0, 4), (float("inf"), 5)), 6.0),
    manual_retries=7, lease_expired=8, oldest_age=9.0,
)  # fmt: skip
BREAKER = BreakerFigures(
    name="row", state=10, consecutive_failures=11, requests={"rejected": 12}, transitions={("open", "closed"): 13}
)
FIGURES = Figures(
    queues=[QUEUE], breakers=[BREAKER], target_state={"mailer": "open"}, targets={"open": 14}, workers=15,
    last_tick=16.0, unread_notices=17, failing={"hook": True}, deliveries={("hook", "failed"): 18},
    tokens=("open", "ok"),
)  # fmt: skip
TOLD = {
    "queue_depth mail": 1, "jobs_active mail": 2, "jobs_failed_total gone mail": 3,
    "job_processing_duration_seconds_bucket 1.0 mail": 4, "job_processing_duration_seconds_bucket +Inf mail": 5,
    "job_processing_duration_seconds_count mail": 5, "job_processing_duration_seconds_sum mail": 6,
    "manual_retry_total mail": 7, "tidegate_lease_expired_total mail": 8, "tidegate_queue_oldest_age_seconds mail": 9,
    "circuit_breaker_state row": 10, "circuit_breaker_consecutive_failures row": 11,
    "circuit_breaker_requests_total row rejected": 12, "circuit_breaker_state_transitions_total open row closed": 13,
    "tidegate_target_state open mailer": 1, "tidegate_target_state ok mailer": 0, "tidegate_targets open": 14,
    "tidegate_workers": 15, "tidegate_engine_last_tick_timestamp_seconds": 16, "tidegate_notices_unread": 17,
    "tidegate_channel_failing hook": 1, "tidegate_deliveries_total hook failed": 18, "tidegate_store_up": 1,
    "tidegate_build_info 1.2.3": 1,
}  # fmt: skip


@dataclass(frozen=True)
class Told:
    """A site whose database knows these figures."""

    version: str = "1.2.3"
    apps: tuple[Any, ...] = ()

    def read(self, work: Callable[[Any], Any]) -> Figures:
        return FIGURES


def test_each_figure_is_told_under_its_own_name() -> None:
    site: Any = Told()
    found = {
        " ".join([sample.name, *(value for _, value in sorted(sample.labels.items()))]): sample.value
        for family in StoreCollector(site).collect()
        for sample in family.samples
        # Breakers of this process, made by other tests, are told as well.
        if not sample.name.startswith("circuit_breaker") or sample.labels["name"] == "row"
    }
    assert found == TOLD
