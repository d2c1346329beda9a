"""Dashboards for Grafana: targets, queues, workers. Each panel is a value; Grafana asks for the data source."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.ops.words import TARGETS

_SOURCE = {"type": "prometheus", "uid": "${source}"}
_WIDE, _HIGH = 12, 8  # of Grafana's 24 columns
_COLOURS = {"good": "green", "busy": "blue", "warn": "orange", "bad": "red", "calm": "gray"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One picture: what it shows, and each line of it as (query, legend)."""

    title: str
    about: str
    lines: Sequence[tuple[str, str]]
    unit: str = "short"
    kind: str = "timeseries"  # "stat", "timeseries", "state-timeline"
    words: Mapping[int, tuple[str, str]] | None = None  # what a number means: its word and colour


_FAILED_SHARE = (
    'sum by (name) (rate(circuit_breaker_requests_total{result="failure"}[5m]))'
    ' / sum by (name) (rate(circuit_breaker_requests_total{result=~"success|failure"}[5m]))'
)
_BREAKER = {0: ("closed", "green"), 1: ("half-open", "orange"), 2: ("open", "red")}

BOARDS: Mapping[str, tuple[str, Sequence[Panel]]] = {
    "targets": ("Tidegate: targets", (
        Panel(title="Targets by state", about="How many targets stand how.", kind="stat",
              lines=[("sum by (state) (tidegate_targets)", "{{state}}")]),
        Panel(title="Breakers", about="Closed, half-open or open, over time.", kind="state-timeline", words=_BREAKER,
              lines=[("max by (name) (circuit_breaker_state)", "{{name}}")]),
        Panel(title="Calls", about="Calls through each breaker, by result.", unit="reqps",
              lines=[("sum by (name, result) (rate(circuit_breaker_requests_total[5m]))", "{{name}} {{result}}")]),
        Panel(title="Share of failures", about="Of the calls that were made.", unit="percentunit",
              lines=[(_FAILED_SHARE, "{{name}}")]),
        Panel(title="Failures in a row", about="While open, those that opened it.",
              lines=[("max by (name) (circuit_breaker_consecutive_failures)", "{{name}}")]),
        Panel(title="Openings an hour", about="More than five: it flaps.", lines=[(
            'sum by (name) (increase(circuit_breaker_state_transitions_total{to_state="open"}[1h]))', "{{name}}",
        )]),
    )),
    "queues": ("Tidegate: queues", (
        Panel(title="Age of the oldest ready job", about="The number to watch: it grows when nothing takes work.",
              unit="s", lines=[("max by (queue) (tidegate_queue_oldest_age_seconds)", "{{queue}}")]),
        Panel(title="Waiting", about="Jobs that are blocked, waiting or ready.",
              lines=[("sum by (queue) (queue_depth)", "{{queue}}")]),
        Panel(title="Running", about="Jobs under a lease.", lines=[("sum by (queue) (jobs_active)", "{{queue}}")]),
        Panel(title="Attempts a second", about="Whatever their end.", unit="ops",
              lines=[("sum by (queue) (rate(job_processing_duration_seconds_count[5m]))", "{{queue}}")]),
        Panel(title="How long attempts take", about="Half of them, and 95 of 100, are quicker.", unit="s", lines=[
            (f"histogram_quantile({q}, sum by (queue, le) (rate(job_processing_duration_seconds_bucket[5m])))",
             f"{{{{queue}}}} p{round(q * 100)}") for q in (0.5, 0.95)
        ]),
        Panel(title="Gave up, by code", about="Jobs that failed for good, in 15 minutes.", lines=[(
            "sum by (queue, error_code) (increase(jobs_failed_total[15m]))", "{{queue}} {{error_code}}",
        )]),
        Panel(title="Retried by people", about="In an hour.",
              lines=[("sum by (queue) (increase(manual_retry_total[1h]))", "{{queue}}")]),
    )),
    "workers": ("Tidegate: workers", (
        Panel(title="Workers", about="Those that were heard of in time.", lines=[("max(tidegate_workers)", "workers")]),
        Panel(title="Since a worker was heard of", about="Above a minute: nothing runs.", unit="s",
              lines=[("time() - max(tidegate_engine_last_tick_timestamp_seconds)", "last sign")]),
        Panel(title="Leases that ran out", about="Workers that died or stood still, in 15 minutes.",
              lines=[("sum by (queue) (increase(tidegate_lease_expired_total[15m]))", "{{queue}}")]),
        Panel(title="Notices that nobody has read", about="On the page under Notices.", kind="stat",
              lines=[("max(tidegate_notices_unread)", "unread")]),
        Panel(title="Notices through channels", about="In an hour, by how that ended.", lines=[(
            "sum by (channel, outcome) (increase(tidegate_deliveries_total[1h]))", "{{channel}} {{outcome}}",
        )]),
        Panel(title="Database", about="Whether it can be read.", kind="state-timeline",
              words={0: ("away", "red"), 1: ("there", "green")}, lines=[("min(tidegate_store_up)", "database")]),
    )),
}  # fmt: skip


def board(name: str) -> dict[str, Any]:
    """One dashboard as Grafana imports it; KeyError when there is none of that name."""
    title, panels = BOARDS[name]
    return {
        "uid": f"tidegate-{name}",
        "title": title,
        "tags": ["tidegate"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-24h", "to": "now"},
        "templating": {"list": [
            {"name": "source", "label": "Data source", "type": "datasource", "query": "prometheus"},
        ]},
        "panels": [_panel(n, panel) for n, panel in enumerate(panels)],
    }  # fmt: skip


def as_text(name: str) -> str:
    return json.dumps(board(name), indent=2) + "\n"


def _panel(n: int, panel: Panel) -> dict[str, Any]:
    defaults: dict[str, Any] = {"unit": panel.unit, "min": 0}
    if panel.words is not None:
        options = {str(value): {"text": text, "color": colour} for value, (text, colour) in panel.words.items()}
        defaults["mappings"] = [{"type": "value", "options": options}]
    return {
        "id": n + 1,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": _SOURCE,
        "gridPos": {"x": n % 2 * _WIDE, "y": n // 2 * _HIGH, "w": _WIDE, "h": _HIGH},
        "fieldConfig": {"defaults": defaults, "overrides": _overrides(panel)},
        "targets": [
            {"refId": chr(ord("A") + i), "datasource": _SOURCE, "expr": query, "legendFormat": legend}
            for i, (query, legend) in enumerate(panel.lines)
        ],
    }


def _overrides(panel: Panel) -> list[dict[str, Any]]:
    """States of targets have their words and colours everywhere."""
    if panel.title != "Targets by state":
        return []
    return [
        {
            "matcher": {"id": "byName", "options": token},
            "properties": [
                {"id": "displayName", "value": word.word},
                {"id": "color", "value": {"mode": "fixed", "fixedColor": _COLOURS[word.tone]}},
            ],
        }
        for token, word in TARGETS.items()
    ]
