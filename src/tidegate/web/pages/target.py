"""`/targets/{name}`: one target, what holds it, its numbers, and what happened to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from tidegate.face.app import Page
from tidegate.machine import shared_breaker
from tidegate.machine.epoch import Counts
from tidegate.machine.shared_breaker import StoredBreaker
from tidegate.machine.states import OPEN
from tidegate.ops import history, target_reports
from tidegate.ops.history import CallCounts, History
from tidegate.ops.in_force import LENGTHS
from tidegate.ops.target_reports import TargetDetail
from tidegate.ops.words import opened_because
from tidegate.runtime.reporting import this_program
from tidegate.store import gate_rows
from tidegate.store.now import now_of
from tidegate.store.tx import Tx
from tidegate.web.pages import charts, outages, policy
from tidegate.web.pages.rendering import page
from tidegate.web.site import Site, site_of

# What holds a key, as the state that it is shown as.
_HELD = {"fatal": "action", "cooldown": "disabled", "backoff": "degraded", "retry_after": "limited"}
_ORDER = {reason: rank for rank, reason in enumerate(("fatal", "cooldown", "retry_after", "backoff"))}


@dataclass(frozen=True, slots=True)
class TargetPage:
    """A target as its page shows it."""

    detail: TargetDetail
    counts: Counts
    opened: str  # because of what, while it is open
    theirs: list[dict[str, Any]]  # the breakers that programs of their own have for it
    good: int  # trial calls that were good, while half-open
    buckets: list[tuple[float, float]]
    filling: dict[str, Any] | None
    past: charts.Past
    calls: History[CallCounts]


router = APIRouter()


@router.get("/targets/{name:path}")
def show_target(
    request: Request,
    name: str,
    span: Annotated[str, Query(max_length=20)] = "",
    outage: Annotated[str, Query(max_length=20)] = "",
) -> Response:
    site = site_of(request)
    seen = site.read(lambda tx: _load_page(tx, name, charts.chosen(span)))
    report, length = seen.detail.report, outages.asked(outage)
    playable = outages.possible(report.rules)
    return page(
        request, "target.html", seen=seen, report=report, detail=seen.detail, rules=policy.rows(report.rules),
        breaker=policy.breaker(report.rules), held_token=_HELD.get, lengths=LENGTHS, playable=playable,
        outage=outages.drawn(report.rules, length, seen.calls) if playable and length else None,
        home=_home(site, name), testable=any(key.lane not in seen.detail.of_programs for key in seen.detail.keys),
        this_program=this_program(),
    )  # fmt: skip


def _home(site: Site, name: str) -> Page[Any] | None:
    """The page of the application whose target it is: there its credentials are entered, and its work is seen."""
    return next((there.app.home for there in site.apps if name in (there.app.name, *there.app.targets)), None)


def _load_page(tx: Tx, name: str, span: str) -> TargetPage:
    detail = target_reports.one(tx, name)
    row = gate_rows.target(tx, name)
    if row is None:  # it cannot be: the report is of the same transaction
        raise AssertionError(name)
    keys = sorted(detail.keys, key=lambda key: (_ORDER.get(key.reason, 9), key.lane))
    detail = replace(detail, keys=keys)
    buckets = [(float(n), float(bad)) for _, n, bad in row.breaker.buckets]
    filling = policy.filling(row.capacity, detail.report.rules.get("capacity"), now_of(tx))
    calls = history.of_target(tx, name, span)
    past = charts.of_target(calls, span, now_of(tx))
    counts, opened = shared_breaker.counts(row.breaker), _opened(row.breaker)
    theirs = list(_theirs(detail.report.programs))
    return TargetPage(detail, counts, opened, theirs, row.breaker.good, buckets, filling, past, calls)


def _theirs(programs: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for program, said in sorted(programs.items()):
        for one in said.get("breakers", {}).values():
            run, calls = int(one.get("consecutive_failures", 0)), int(one.get("calls", one.get("requests", 0)))
            where = "this server" if program == this_program() else program
            yield {"program": where, "state": one.get("state", "closed"), "run": run, "calls": calls}


def _opened(breaker: StoredBreaker) -> str:
    if breaker.state != OPEN:
        return ""
    return f"{breaker.by} ordered it" if breaker.by else opened_because(breaker.opened, breaker.run)
