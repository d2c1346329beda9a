"""`/`: whether anything is wrong, whether it is getting better, and what a person must do."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request, Response

from tidegate.face.app import Page as FirstPage
from tidegate.ops.overview import ActionItem, Overview, overview
from tidegate.ops.words import TARGETS
from tidegate.runtime.reporting import this_program
from tidegate.store import gate_rows
from tidegate.store.gate_rows import TargetEvent
from tidegate.store.now import now_of
from tidegate.store.tx import Tx
from tidegate.web.pages import looks, policy
from tidegate.web.pages.drawing import Segment
from tidegate.web.pages.notices import page_of
from tidegate.web.pages.rendering import page
from tidegate.web.pages.times import many
from tidegate.web.site import Site, site_of

_MAX_GAUGES = 6
_MAX_CHANGES, _LOOKED_AT = 10, 100
_CAPACITY, _SUMMARY = 11, 14  # columns of that statement


router = APIRouter()


@router.get("/")
def show(request: Request) -> Response:
    site = site_of(request)
    seen, gauges, reported, changes = site.read(lambda tx: (overview(tx), _gauges(tx), _reported(tx), _changes(tx)))
    # What the applications brought along is no sign that anybody has begun; a strip says itself where to begin.
    new = not reported and not site.strips() and {queue.name for queue in seen.queues} <= site.queue.queues()
    seen = replace(seen, needs=[_at_home(need, site) for need in seen.needs])
    return page(
        request, "overview.html", gauges=gauges, new=new, begin=_begin(site), changes=changes,
        **_values(site, seen),
    )  # fmt: skip


def _values(site: Site, seen: Overview) -> dict[str, Any]:
    states = [(token, seen.targets[token]) for token in TARGETS if seen.targets.get(token)]
    parts = [Segment(n, looks.of(token).tone, looks.of(token).word) for token, n in states]
    total = sum(n for _, n in states)
    label = f"{many(total, 'target')}: " + ", ".join(f"{part.n:g} {part.word}" for part in parts)
    return {
        "seen": seen, "target_states": states, "target_parts": parts, "target_label": label, "total_targets": total,
        "need_look": looks.of_need, "store_url": shown_store(site.queue.url),
    }  # fmt: skip


def _at_home(need: ActionItem, site: Site) -> ActionItem:
    """What must be done to a target of an application is done on its page."""
    target = need.subject.removeprefix("target ")
    for there in site.apps if need.kind == "fatal" else ():
        home = there.app.home
        if target in (there.app.name, *there.app.targets) and home is not None:
            return replace(need, href=page_of(there.app, need.key) or home.path, action=f"Open {home.title}")
    return need


def _changes(tx: Tx) -> list[tuple[TargetEvent, int]]:
    """What changed last of each target and queue, and how many changes came shortly before it.

    One that comes and goes would hide all others.
    """
    found: dict[tuple[str, str, str | None], list[TargetEvent]] = {}
    for event in gate_rows.newest_events(tx, _LOOKED_AT):
        found.setdefault((event.subject, event.name, event.lane), []).append(event)
    return [(each[0], len(each) - 1) for each in found.values()][:_MAX_CHANGES]


def _reported(tx: Tx) -> bool:
    """Whether another program than this server has told of a target."""
    told = (json.loads(raw[_SUMMARY]) for raw in tx.query("targets") if raw[_SUMMARY] is not None)
    return any(program != this_program() for programs in told for program in programs)


def _begin(site: Site) -> list[tuple[FirstPage[Any], str]]:
    """The first page of each application, and what the application is for."""
    return [(app.app.home, app.app.about) for app in site.apps if app.app.home is not None]


def _gauges(tx: Tx) -> list[tuple[str, dict[str, Any]]]:
    """The targets that say how full they are, the fullest first."""
    found = []
    for raw in tx.query("targets"):
        if raw[_CAPACITY] is None:
            continue  # most have none, and there may be thousands
        row = gate_rows.target_of(raw)
        if row.rules is not None:
            gauge = policy.filling(row.capacity, json.loads(row.rules).get("capacity"), now_of(tx))
            if gauge is not None:
                found.append((row.name, gauge))
    return sorted(found, key=lambda each: -each[1]["taken"] / each[1]["cap"])[:_MAX_GAUGES]


def shown_store(url: str) -> str:
    """The URL of the store for a program to copy, without what is not for everybody: a folder, or a password."""
    return f"sqlite:///{url.rsplit('/', 1)[-1]}" if url.startswith("sqlite:") else "postgresql://…"
