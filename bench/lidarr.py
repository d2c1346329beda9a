"""Fifty thousand albums for Lidarr: put in, one wake with little room, and the page that lists them."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from fastapi.testclient import TestClient

from bench.row import Row, at_most, exactly
from tidegate import Queue
from tidegate.apps import DbTx, Installed, install
from tidegate.web.app import build
from tidegate.web.site import Site
from tidegate_apps.lidarr.app import app
from tidegate_apps.lidarr.models import Submission
from tidegate_apps.lidarr.records import EntityObservation
from tidegate_apps.lidarr.settings import LidarrSettings
from tidegate_demo.simulators.lidarr import KEY, LidarrSimulator

T = TypeVar("T")
clock = time.perf_counter

ENQUEUE, PUT, CALLS, PAGE = 10.0, 30.0, 25, 150.0
_CAP, _PAGE = 50, 500
_SENDS = {"PUT /album/monitor", "POST /command", "POST /album", "POST /artist"}
PATHS = (
    "/lidarr",
    "/lidarr?state=queued",
    "/lidarr?state=submitted",
    "/lidarr?state=gave_up",
    "/lidarr?state=retrying",
)


@dataclass(frozen=True, slots=True)
class Size:
    albums: int = 50_000
    free: int = 10
    pages: int = 40  # times that each page is asked for


def run(size: Size | None = None) -> list[Row]:
    size = size or Size()
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        sim = stack.enter_context(LidarrSimulator(max_kept=10_000))
        queue = stack.enter_context(Queue(f"sqlite:///{Path(folder) / 'lidarr.db'}"))
        there = install(
            app, queue, LidarrSettings.model_validate({"base_url": sim.url, "api_key": KEY, "queue_max": _CAP})
        )
        stack.enter_context(there.closing)
        spare = stack.enter_context(Queue(f"sqlite:///{Path(folder) / 'bare.db'}"))
        bare = install(app, spare, LidarrSettings())
        stack.enter_context(bare.closing)
        return [*putting(there, bare, size), *waking(there, sim, size), *showing(there, size)]


def putting(there: Installed[LidarrSettings], bare: Installed[LidarrSettings], size: Size) -> list[Row]:
    """The jobs alone, with their unique; and all that a look writes: jobs, what is known of each, badges."""
    numbers = range(1, size.albums + 1)
    subs = [Submission("album", n, "ada", f"album-{n}", f"Album {n}", 1, "Nina", "artist-1") for n in numbers]
    jobs = _timed(lambda: [bare.jobs.submit.enqueue_many([(each,) for each in each]) for each in _pages(subs)])
    seen = [_seen(n) for n in numbers]
    whole = _timed(lambda: [there.db.write(partial(_put, there, each)) for each in _pages(seen)])
    return [
        at_most(f"lidarr: enqueue of {size.albums:,} albums with unique", jobs, ENQUEUE, " s"),
        at_most("lidarr: the same with their states and badges", whole, PUT, " s"),
    ]


def waking(there: Installed[LidarrSettings], sim: LidarrSimulator, size: Size) -> list[Row]:
    artist = sim.inside.put_artist("artist-1", "Nina")
    for n in range(1, 101):
        sim.inside.put_album(f"album-{n}", artist["id"])
    sim.inside.fill(_CAP - size.free, lasts=86400)
    began = clock()
    woken = asyncio.run(there.jobs.waker.run_cycle())
    took = clock() - began
    assert woken is not None
    sends = sum(sim.sent(route) for route in _SENDS)
    calls = len(sim.asked()) - sends
    return [
        exactly(f"lidarr: submissions of a wake with {size.free} free places", woken.submitted, size.free),
        at_most("lidarr: calls beside them", calls, CALLS, "", f" (and {sends} that send; {took:.2f} s in all)"),
    ]


def showing(there: Installed[LidarrSettings], size: Size) -> list[Row]:
    web = TestClient(
        build(Site(queue=there.queue, apps=(there,))), client=("127.0.0.1", 50000), base_url="http://localhost"
    )
    rows = []
    for path in PATHS:
        assert web.get(path).status_code == 200
        took = sorted(_timed(partial(web.get, path)) for _ in range(size.pages))
        p95 = took[min(len(took) - 1, int(len(took) * 0.95))] * 1000
        rows.append(at_most(f"lidarr: page {path} with {size.albums:,} entries, p95", p95, PAGE, " ms"))
    return rows


def _put(there: Installed[LidarrSettings], page: list[EntityObservation], tx: DbTx) -> object:
    return there.jobs.enricher.recorder.put(tx, page, {})


def _seen(n: int) -> EntityObservation:
    return EntityObservation(
        kind="album", entity_id=n, user="ada", name=f"Album {n}", artist="Nina", mbid=f"album-{n}", artist_id=1,
        artist_mbid="artist-1",
    )  # fmt: skip


def _pages(items: list[T]) -> list[list[T]]:
    return [items[at : at + _PAGE] for at in range(0, len(items), _PAGE)]


def _timed(work: Callable[[], object]) -> float:
    began = clock()
    work()
    return clock() - began
