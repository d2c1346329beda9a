"""Alert rules for Prometheus and dashboards for Grafana."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.labels import TARGETS

_GROUP = "tidegate"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRule:
    """One alert. *lasting* is how long *when* must be true, as a Prometheus duration. Empty: immediately."""

    name: str
    when: str
    lasting: str = ""
    severity: str = "warning"
    summary: str
    means: str  # the effect on jobs, and what to do
    shown_at: str  # the path of the page that shows it


RULES = (
    AlertRule(
        name="TidegateBreakerOpen",
        when="max by (name) (circuit_breaker_state) == 2",
        lasting="5m",
        severity="critical",
        summary="The breaker of {{ $labels.name }} has been open for 5 minutes",
        means="No calls are made, and jobs are held, not lost. A few calls try it by themselves; look at the service.",
        shown_at="/targets",
    ),
    AlertRule(
        name="TidegateBreakerRejecting",
        when='sum by (name) (rate(circuit_breaker_requests_total{result="rejected"}[2m])) > 10',
        lasting="2m",
        summary="The breaker of {{ $labels.name }} turns away more than 10 calls a second",
        means="A program goes on calling while the breaker is open. Let it wait until the time that the refusal names.",
        shown_at="/targets",
    ),
    AlertRule(
        name="TidegateFailuresInARow",
        when="max by (name) (circuit_breaker_consecutive_failures) >= 5",
        summary="{{ $labels.name }} has failed {{ $value }} times in a row",
        means="Its breaker is open or about to open. Look at the last fault on its page.",
        shown_at="/targets",
    ),
    AlertRule(
        name="TidegateBreakerFlapping",
        when='sum by (name) (increase(circuit_breaker_state_transitions_total{to_state="open"}[1h])) > 5',
        summary="The breaker of {{ $labels.name }} has opened more than 5 times in an hour",
        means="The service comes back and breaks again under load. Lower its rate or its concurrency.",
        shown_at="/targets",
    ),
    AlertRule(
        name="TidegateTargetNeedsYou",
        when='max by (target) (tidegate_target_state{state="action"}) == 1',
        summary="{{ $labels.target }} needs a person",
        means="It refused for a reason that waiting does not cure, such as a wrong key. Its page says what to do.",
        shown_at="/targets",
    ),
    AlertRule(
        name="TidegateQueueStuck",
        when="max by (queue) (tidegate_queue_oldest_age_seconds) > 900",
        lasting="5m",
        summary="A job of {{ $labels.queue }} has been ready for more than 15 minutes",
        means="Nothing takes it: too few workers, or a gate that is shut. `tidegate explain job ID` says why.",
        shown_at="/queue",
    ),
    AlertRule(
        name="TidegateJobsGiveUp",
        when="sum by (queue, error_code) (increase(jobs_failed_total[15m])) > 10",
        summary="More than 10 jobs of {{ $labels.queue }} gave up with {{ $labels.error_code }} in 15 minutes",
        means="They are not tried again by themselves. Find the cause, then retry them from the queue's page.",
        shown_at="/queue",
    ),
    AlertRule(
        name="TidegateNoWorkers",
        when="(max(tidegate_workers) == 0) and (sum(queue_depth) > 0)",
        lasting="2m",
        severity="critical",
        summary="Jobs are waiting and no worker is there",
        means="Nothing is lost and nothing runs. Start `tidegate serve` or `tidegate worker`.",
        shown_at="/workers",
    ),
    AlertRule(
        name="TidegateLeasesExpire",
        when="sum by (queue) (increase(tidegate_lease_expired_total[15m])) > 3",
        summary="Leases of {{ $labels.queue }} run out",
        means="Workers die or stand still in the middle of jobs. Look at their logs and at the memory of their hosts.",
        shown_at="/workers",
    ),
    AlertRule(
        name="TidegateEngineStalled",
        when="time() - max(tidegate_engine_last_tick_timestamp_seconds) > 60",
        lasting="2m",
        severity="critical",
        summary="No worker has been heard of for a minute",
        means="They have ended, hang, or cannot write to the database.",
        shown_at="/workers",
    ),
    AlertRule(
        name="TidegateChannelFailing",
        when="max by (channel) (tidegate_channel_failing) == 1",
        lasting="5m",
        summary="The channel {{ $labels.channel }} does not deliver",
        means="What it was to tell goes to the next channel, if there is one. The page Channels says why.",
        shown_at="/channels",
    ),
    AlertRule(
        name="TidegateStoreDown",
        when="max(tidegate_store_up) == 0",
        lasting="1m",
        severity="critical",
        summary="Tidegate cannot read its database",
        means="Calls are still guarded in process; jobs wait. `tidegate doctor` says what is wrong.",
        shown_at="/",
    ),
    AlertRule(
        name="TidegateMetricsMissing",
        when="absent(tidegate_build_info)",
        lasting="5m",
        severity="critical",
        summary="Tidegate's metrics are gone",
        means="The server is down, or Prometheus cannot reach /metrics.",
        shown_at="/",
    ),
)


def document(page: str) -> dict[str, Any]:
    """Returns all rules in Prometheus' format. *page* is the URL of the server."""
    return {"groups": [{"name": _GROUP, "rules": [_loaded(rule, page.rstrip("/")) for rule in RULES]}]}


def rules_file(page: str) -> str:
    """Returns the rules as YAML."""
    lines = ["groups:", f"  - name: {_GROUP}", "    rules:"]
    for rule in document(page)["groups"][0]["rules"]:
        lines += [f"      {line}" for line in _lines(rule)]
    return "\n".join(lines) + "\n"


def _loaded(rule: AlertRule, page: str) -> dict[str, Any]:
    return {
        "alert": rule.name,
        "expr": rule.when,
        **({"for": rule.lasting} if rule.lasting else {}),
        "labels": {"severity": rule.severity},
        "annotations": {
            "summary": rule.summary,
            "description": rule.means,
            "runbook_url": page + rule.shown_at,
        },
    }


def _lines(rule: Mapping[str, Any]) -> Iterator[str]:
    mark = "-"
    for key, value in rule.items():
        if isinstance(value, str):
            yield f"{mark} {key}: {json.dumps(value)}"  # a JSON string is also valid YAML
        else:
            yield f"{mark} {key}:"
            yield from (f"    {inner}: {json.dumps(text)}" for inner, text in value.items())
        mark = " "


# -- Grafana dashboards: the data source is chosen on import -----------------------------------------------------------

_SOURCE = {"type": "prometheus", "uid": "${source}"}
_WIDE, _HIGH = 12, 8  # of Grafana's 24 columns
_COLOURS = {"good": "green", "busy": "blue", "warn": "orange", "bad": "red", "calm": "gray"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One panel: its title, and each series as (query, legend)."""

    title: str
    about: str
    lines: Sequence[tuple[str, str]]
    unit: str = "short"
    kind: str = "timeseries"  # "stat", "timeseries", "state-timeline"
    words: Mapping[int, tuple[str, str]] | None = None  # value -> label, colour


_FAILED_SHARE = (
    'sum by (name) (rate(circuit_breaker_requests_total{result="failure"}[5m]))'
    ' / sum by (name) (rate(circuit_breaker_requests_total{result=~"success|failure"}[5m]))'
)
_BREAKER = {0: ("closed", "green"), 1: ("half-open", "orange"), 2: ("open", "red")}

BOARDS: Mapping[str, tuple[str, Sequence[Panel]]] = {
    "targets": (
        "Tidegate: targets",
        (
            Panel(
                title="Targets by state",
                about="How many targets stand how.",
                kind="stat",
                lines=[("sum by (state) (tidegate_targets)", "{{state}}")],
            ),
            Panel(
                title="Breakers",
                about="Closed, half-open or open, over time.",
                kind="state-timeline",
                words=_BREAKER,
                lines=[("max by (name) (circuit_breaker_state)", "{{name}}")],
            ),
            Panel(
                title="Calls",
                about="Calls through each breaker, by result.",
                unit="reqps",
                lines=[("sum by (name, result) (rate(circuit_breaker_requests_total[5m]))", "{{name}} {{result}}")],
            ),
            Panel(
                title="Share of failures",
                about="Of the calls that were made.",
                unit="percentunit",
                lines=[(_FAILED_SHARE, "{{name}}")],
            ),
            Panel(
                title="Failures in a row",
                about="While open, those that opened it.",
                lines=[("max by (name) (circuit_breaker_consecutive_failures)", "{{name}}")],
            ),
            Panel(
                title="Openings an hour",
                about="More than five: it flaps.",
                lines=[
                    (
                        'sum by (name) (increase(circuit_breaker_state_transitions_total{to_state="open"}[1h]))',
                        "{{name}}",
                    )
                ],
            ),
        ),
    ),
    "queues": (
        "Tidegate: queues",
        (
            Panel(
                title="Age of the oldest ready job",
                about="The number to watch: it grows when nothing takes work.",
                unit="s",
                lines=[("max by (queue) (tidegate_queue_oldest_age_seconds)", "{{queue}}")],
            ),
            Panel(
                title="Waiting",
                about="Jobs that are blocked, waiting or ready.",
                lines=[("sum by (queue) (queue_depth)", "{{queue}}")],
            ),
            Panel(title="Running", about="Jobs under a lease.", lines=[("sum by (queue) (jobs_active)", "{{queue}}")]),
            Panel(
                title="Attempts a second",
                about="Whatever their end.",
                unit="ops",
                lines=[("sum by (queue) (rate(job_processing_duration_seconds_count[5m]))", "{{queue}}")],
            ),
            Panel(
                title="How long attempts take",
                about="Half of them, and 95 of 100, are quicker.",
                unit="s",
                lines=[
                    (
                        (
                            f"histogram_quantile({q}, sum by (queue, le) "
                            "(rate(job_processing_duration_seconds_bucket[5m])))"
                        ),
                        f"{{{{queue}}}} p{round(q * 100)}",
                    )
                    for q in (0.5, 0.95)
                ],
            ),
            Panel(
                title="Gave up, by code",
                about="Jobs that failed for good, in 15 minutes.",
                lines=[
                    (
                        "sum by (queue, error_code) (increase(jobs_failed_total[15m]))",
                        "{{queue}} {{error_code}}",
                    )
                ],
            ),
            Panel(
                title="Retried by people",
                about="In an hour.",
                lines=[("sum by (queue) (increase(manual_retry_total[1h]))", "{{queue}}")],
            ),
        ),
    ),
    "workers": (
        "Tidegate: workers",
        (
            Panel(
                title="Workers", about="Those that were heard of in time.", lines=[("max(tidegate_workers)", "workers")]
            ),
            Panel(
                title="Since a worker was heard of",
                about="Above a minute: nothing runs.",
                unit="s",
                lines=[("time() - max(tidegate_engine_last_tick_timestamp_seconds)", "last sign")],
            ),
            Panel(
                title="Leases that ran out",
                about="Workers that died or stood still, in 15 minutes.",
                lines=[("sum by (queue) (increase(tidegate_lease_expired_total[15m]))", "{{queue}}")],
            ),
            Panel(
                title="Unread notices",
                about="On the page under Notices.",
                kind="stat",
                lines=[("max(tidegate_notices_unread)", "unread")],
            ),
            Panel(
                title="Notices through channels",
                about="In an hour, by how that ended.",
                lines=[
                    (
                        "sum by (channel, outcome) (increase(tidegate_deliveries_total[1h]))",
                        "{{channel}} {{outcome}}",
                    )
                ],
            ),
            Panel(
                title="Database",
                about="Whether it can be read.",
                kind="state-timeline",
                words={0: ("away", "red"), 1: ("there", "green")},
                lines=[("min(tidegate_store_up)", "database")],
            ),
        ),
    ),
}


def board(name: str) -> dict[str, Any]:
    """Returns a dashboard for import. Raises KeyError for an unknown name."""
    title, panels = BOARDS[name]
    return {
        "uid": f"tidegate-{name}",
        "title": title,
        "tags": ["tidegate"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-24h", "to": "now"},
        "templating": {
            "list": [
                {"name": "source", "label": "Data source", "type": "datasource", "query": "prometheus"},
            ]
        },
        "panels": [_panel(n, panel) for n, panel in enumerate(panels)],
    }


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
    """Uses the labels and colours of target states in every panel."""
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
