"""`/`, `/find`, `/charts` and error pages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.types import Scope

from tidegate.admin.overview import ActionItem, Overview, overview
from tidegate.apps import Page as FirstPage
from tidegate.jobs import actions, history, reports
from tidegate.jobs.history import History, Point
from tidegate.labels import TARGETS
from tidegate.store.base import Tx, now_of
from tidegate.svg import Svg
from tidegate.targets import table
from tidegate.targets.reporter import this_program
from tidegate.targets.table import RawTarget, TargetEvent
from tidegate.validation import JsonObject
from tidegate.web.pages import charts, formatters, target_policy
from tidegate.web.pages.charts import Column, Segment
from tidegate.web.pages.formatters import many
from tidegate.web.pages.forms import number_of
from tidegate.web.pages.notices import page_of
from tidegate.web.pages.render import page, render_template
from tidegate.web.site import Site, site_of

_MAX_GAUGES = 6
_MAX_CHANGES, _LOOKED_AT = 10, 100


router = APIRouter()


@router.get("/")
def show(request: Request) -> Response:
    site = site_of(request)
    state, gauges, reported, changes = site.read(lambda tx: (overview(tx), _gauges(tx), _reported(tx), _changes(tx)))
    # Targets that applications declare do not show that the user has started. Status strips say where to start.
    new = not reported and not site.strips() and {queue.name for queue in state.queues} <= site.queue.queues()
    state = replace(state, needs=[_link_to_app(need, site) for need in state.needs])
    return page(
        request,
        "overview.html",
        gauges=gauges,
        new=new,
        begin=_first_steps(site),
        changes=changes,
        **_values(site, state),
    )


def _values(site: Site, state: Overview) -> JsonObject:
    states = [(token, state.targets[token]) for token in TARGETS if state.targets.get(token)]
    parts = [Segment(n, formatters.of(token).tone, formatters.of(token).word) for token, n in states]
    total = sum(n for _, n in states)
    label = f"{many(total, 'target')}: " + ", ".join(f"{part.n:g} {part.word}" for part in parts)
    return {
        "seen": state,
        "target_states": states,
        "target_parts": parts,
        "target_label": label,
        "total_targets": total,
        "need_look": formatters.of_need,
        "store_url": shown_store(site.queue.url),
    }


def _link_to_app(need: ActionItem, site: Site) -> ActionItem:
    """Link an action item for an application's target to the application's page."""
    target = need.subject.removeprefix("target ")
    for installed in site.apps if need.kind == "fatal" else ():
        home = installed.app.home
        if target in (installed.app.name, *installed.app.targets) and home is not None:
            return replace(need, href=page_of(installed.app, need.key) or home.path, action=f"Open {home.title}")
    return need


def _changes(tx: Tx) -> list[tuple[TargetEvent, int]]:
    """Return the last change of each target and queue, with the number of changes shortly before it.

    Grouping keeps a flapping target from hiding all others.
    """
    groups: dict[tuple[str, str, str | None], list[TargetEvent]] = {}
    for event in table.newest_events(tx, _LOOKED_AT):
        groups.setdefault((event.subject, event.name, event.lane), []).append(event)
    return [(group[0], len(group) - 1) for group in groups.values()][:_MAX_CHANGES]


def _reported(tx: Tx) -> bool:
    """Whether a program other than this server has reported a target."""
    summaries = (json.loads(row.summary) for row in tx.query_as(RawTarget, "targets") if row.summary is not None)
    return any(program != this_program() for programs in summaries for program in programs)


def _first_steps(site: Site) -> list[tuple[FirstPage[Any], str]]:
    """Return the first page and the purpose of each application."""
    return [(app.app.home, app.app.about) for app in site.apps if app.app.home is not None]


def _gauges(tx: Tx) -> list[tuple[str, JsonObject]]:
    """Return the targets that report a fill level, the fullest first."""
    gauges = []
    for row in tx.query_as(RawTarget, "targets"):
        # Most targets have none, and there may be thousands.
        if row.capacity is not None and row.rules is not None:
            gauge = target_policy.filling(row.capacity, json.loads(row.rules).get("capacity"), row.now)
            if gauge is not None:
                gauges.append((row.name, gauge))
    return sorted(gauges, key=lambda pair: -pair[1]["taken"] / pair[1]["cap"])[:_MAX_GAUGES]


def shown_store(url: str) -> str:
    """Return the store URL for users to copy, without folder and password."""
    return f"sqlite:///{url.rsplit('/', 1)[-1]}" if url.startswith("sqlite:") else "postgresql://…"


# -- /find -------------------------------------------------------------------------------------------------------------
#
# A job by id, a target or queue by name, and paths that users guess.


@router.get("/find")
def find(request: Request, what: Annotated[str, Query(max_length=300)] = "") -> Response:
    site = site_of(request)
    text = what.strip()
    place = site.read(lambda tx: _place(tx, text)) if text else "/"
    if place:
        return RedirectResponse(site.base + place, 303)
    return page(request, "not_found.html", status=404, what=text)


@router.get("/jobs")
def jobs(request: Request) -> Response:
    return RedirectResponse(f"{site_of(request).base}/queue?{request.url.query}", 307)


@router.get("/queues/{name:path}")
def queue(request: Request, name: str) -> Response:
    return RedirectResponse(f"{site_of(request).base}/queue/{quote(name, safe='')}", 307)


def _place(tx: Tx, text: str) -> str:
    """Return the page of an exact match, else of the list that may contain it. Empty if nothing matches."""
    number = number_of(text.removeprefix("#"))
    if number is not None and actions.get(tx, number) is not None:
        return f"/jobs/{number}"
    if table.target(tx, text) is not None:
        return f"/targets/{quote(text, safe='')}"
    if any(queue.name == text for queue in reports.queues(tx)):
        return f"/queue/{quote(text, safe='')}"
    close = [row.name for row in table.targets(tx) if text.casefold() in row.name.casefold()]
    if len(close) == 1:
        return f"/targets/{quote(close[0], safe='')}"
    return f"/targets?name={quote(text, safe='')}" if close else ""


# -- error pages -------------------------------------------------------------------------------------------------------
#
# Shown for problems, also while the store is unreachable, so they must not read it.


def failure(scope: Scope, about: JsonObject, headers: Mapping[str, str]) -> HTMLResponse:
    """Return the page of a problem. *about* is its document."""
    values = {
        "title": about["title"].rstrip("."),
        "detail": _capital(about["detail"]),
        "status": about["status"],
        "code": about["code"],
        "retry_after": about.get("retry_after"),
        "request_id": about.get("request_id"),
        "get": scope["method"] == "GET",
    }
    response = render_template(Request(scope), "failure.html", int(about["status"]), values)
    response.headers.update(headers)
    return response


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


# -- /charts -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRow:
    """One queue in the comparison of all queues."""

    name: str
    attempts: int
    bad: int
    p95: float | None  # of the slowest slot
    depth: int
    oldest: float
    picture: Svg


@router.get("/charts")
def show_history(request: Request, span: Annotated[str, Query(max_length=20)] = "") -> Response:
    chosen = charts.chosen(span)

    def look(tx: Tx) -> tuple[History[Point], dict[str, History[Point]], Mapping[str, JsonObject], float]:
        now = now_of(tx)
        return *history.of_queues(tx, chosen), history.now_of_queues(tx, now), now

    together, by_queue, standing, now = site_of(request).read(look)
    rows = [
        row_of(name, past, standing.get(name, history.NOTHING[history.QUEUE]), now) for name, past in by_queue.items()
    ]
    return page(
        request,
        "charts.html",
        past=charts.of_queue(together, chosen, now),
        rows=sorted(rows, key=lambda row: (-row.attempts, row.name)),
        span=chosen,
    )


def row_of(name: str, past: History[Point], standing: JsonObject, now: float) -> HistoryRow:
    """Build a row. *standing* is the current state of the queue, also known when nothing was recorded yet."""
    points = past.points
    attempts, bad = sum(point.attempts for point in points), sum(point.bad for point in points)
    bars = [
        Column(
            point.at - past.step,
            point.attempts,
            point.bad,
            "good",
            f"{formatters.clock(point.at - past.step, now)}: {charts.counted(point.attempts, 'attempt', point.bad)}",
        )
        for point in points
    ]
    label = f"Attempts of {name}: {attempts:,}, of which {bad:,} failed"
    return HistoryRow(
        name=name,
        attempts=attempts,
        bad=bad,
        p95=max((point.p95 for point in points if point.p95 is not None), default=None),
        depth=standing["depth"],
        oldest=standing["oldest"],
        picture=charts.over_time(bars, past.start, past.end, past.step, label, "sparks"),
    )
