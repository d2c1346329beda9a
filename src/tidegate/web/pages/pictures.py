"""`/charts`: how all queues did over the last day or week, together and each beside the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from markupsafe import Markup

from tidegate.ops import history
from tidegate.ops.history import History, Point
from tidegate.store import rollups
from tidegate.store.now import now_of
from tidegate.store.tx import Tx
from tidegate.web.pages import charts, drawing, times
from tidegate.web.pages.drawing import Column
from tidegate.web.pages.rendering import page
from tidegate.web.site import site_of


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRow:
    """One queue beside the others."""

    name: str
    attempts: int
    bad: int
    p95: float | None  # of the slowest slot
    depth: int
    oldest: float
    picture: Markup


router = APIRouter()


@router.get("/charts")
def show_history(request: Request, span: Annotated[str, Query(max_length=20)] = "") -> Response:
    chosen = charts.chosen(span)

    def look(tx: Tx) -> tuple[History[Point], dict[str, History[Point]], Mapping[str, Mapping[str, Any]], float]:
        now = now_of(tx)
        return *history.of_queues(tx, chosen), rollups.now_of_queues(tx, now), now

    together, each, standing, now = site_of(request).read(look)
    rows = [row_of(name, past, standing.get(name, rollups.NOTHING[rollups.QUEUE]), now) for name, past in each.items()]
    return page(
        request, "charts.html", past=charts.of_queue(together, chosen, now),
        rows=sorted(rows, key=lambda row: (-row.attempts, row.name)), span=chosen,
    )  # fmt: skip


def row_of(name: str, past: History[Point], standing: Mapping[str, Any], now: float) -> HistoryRow:
    """*standing*: what is true of the queue at this moment, also when nothing was put down yet."""
    points = past.points
    attempts, bad = sum(point.attempts for point in points), sum(point.bad for point in points)
    bars = [
        Column(point.at - past.step, point.attempts, point.bad, "good",
            f"{times.clock(point.at - past.step, now)}: {charts.counted(point.attempts, 'attempt', point.bad)}")
        for point in points
    ]  # fmt: skip
    label = f"Attempts of {name}: {attempts:,}, of which {bad:,} failed"
    return HistoryRow(
        name=name, attempts=attempts, bad=bad,
        p95=max((point.p95 for point in points if point.p95 is not None), default=None),
        depth=standing["depth"], oldest=standing["oldest"],
        picture=drawing.over_time(bars, past.start, past.end, past.step, label, "sparks"),
    )  # fmt: skip
