"""Three hours in the life of a music server, played on virtual time: targets and jobs in every state, workers, notices.

    with seeded(folder) as q: ...

It always ends at the same moment, in the middle of several troubles.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tidegate import Again, Backoff, BreakerOptions, Capacity, Context, Cooldown, Fail, Queue, Target
from tidegate.clock import VirtualClock
from tidegate.guard import Tuning
from tidegate.jobs import claim
from tidegate.jobs.claim import ReadyKey
from tidegate.jobs.function import JobFunction
from tidegate.store.base import Tx
from tidegate.targets import breaker, table

END = 1_794_753_000.0  # 2026-11-15 14:30 UTC
LENGTH = 3 * 3600.0
BREAKER: BreakerOptions = {"interval": 60, "timeout": 600, "min_requests": 6, "failure_ratio": 0.6, "max_requests": 3}


class Refusal(Exception):
    """An answer with a status, as HTTP libraries raise it."""

    def __init__(self, status: int, **headers: str) -> None:
        super().__init__(f"status {status}")
        self.status_code = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


@dataclass(frozen=True)
class Album:
    artist: str
    title: str
    user: int = 0


ALBUMS = [
    Album(artist, title)
    for artist, titles in {
        "Radiohead": ("Kid A", "Amnesiac", "In Rainbows", "OK Computer"),
        "Björk": ("Homogenic", "Vespertine", "Post"),
        "Portishead": ("Dummy", "Third"),
        "Talk Talk": ("Spirit of Eden", "Laughing Stock"),
        "Nina Simone": ("Pastel Blues", "Wild Is the Wind"),
        "Can": ("Tago Mago", "Ege Bamyasi", "Future Days"),
    }.items()
    for title in titles
]


@contextlib.contextmanager
def seeded(folder: Path) -> Iterator[Queue]:
    """The queue of a server that has seen some troubles; its clock stands still."""
    clock = VirtualClock(END - LENGTH)
    with Queue(f"sqlite:///{folder / 'tidegate.db'}", clock=clock, inline=True, tuning=Tuning(rng=lambda: 0.5)) as q:
        play(q, clock)
        yield q


def play(q: Queue, clock: VirtualClock) -> None:
    """Plays the story on an empty queue, until its clock stands at the end."""
    kinds = _declared(q, clock)
    with _quiet():
        clock.run(_three_hours(q, kinds))
    clock.advance_to(LENGTH)
    q.store.write(_at_the_end)
    _more(q, kinds)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Nobody needs to read of hundreds of failures that are meant."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


Kinds = dict[str, JobFunction[..., Any]]


def _declared(q: Queue, clock: VirtualClock) -> Kinds:
    """The kinds of jobs, each with a service that is ill at its time."""

    def left() -> float:
        return END - clock.now()

    return {**_of_music(q, left), **_of_listeners(q, left), **_of_files(q)}


def _of_music(q: Queue, left: Callable[[], float]) -> Kinds:
    lidarr = Target("lidarr", backoff=None, breaker=BREAKER, capacity=Capacity(50, depth=lambda: 47), concurrency=4)
    brainz = Target("musicbrainz", "jobs", backoff=Backoff("5s", cap="10m"), rate=1.0)
    feeds = Target("feed", "jobs", cooldown=Cooldown({"not_found": (3, "48h")}), backoff=Backoff("1m", cap="1h"))

    @q.job(queue="lidarr", name="submit album", target=lidarr, unique=lambda a: (a.artist, a.title), attempts=10,
           while_={"queued", "running", "done", "failed"})  # fmt: skip
    async def submit(album: Album) -> dict[str, Any]:
        await asyncio.sleep(1.5)
        _ill(left() < 300 or 5000 < left() < 5400, 503)
        return {"lidarr_id": len(album.title) * 37, "status": "accepted"}

    @q.job(queue="sync", name="look up artist", target=brainz, attempts=8)
    async def look_up(artist: str) -> str:
        await asyncio.sleep(0.3)
        _ill(left() < 420, 429, retry_after="1800")
        return f"mbid of {artist}"

    @q.job(queue="feeds", name="poll feed", target=feeds, key=lambda feed: feed, attempts=1)
    async def poll(feed: int) -> int:
        await asyncio.sleep(0.6)
        _ill(feed == 4711, 404)
        _ill(feed == 99 and left() < 1500, 410)
        return 3

    return {"submit": submit, "look_up": look_up, "poll": poll}


def _of_listeners(q: Queue, left: Callable[[], float]) -> Kinds:
    spotify = Target("spotify", "jobs", backoff=Backoff("30s", cap="30m"), concurrency=8)
    lastfm = Target("last.fm", "jobs", backoff=Backoff("30s", cap="30m"))
    tautulli = Target("tautulli", "jobs", backoff=Backoff("30s", cap="10m"), breaker=BREAKER)
    navidrome = Target("navidrome", breaker=BREAKER)

    @q.job(queue="sync", name="recent plays", target=spotify, key=lambda user: user, attempts=4)
    async def plays(user: int) -> int:
        await asyncio.sleep(0.4)
        _ill(user == 7 and left() < 2500, 401)
        _ill(user == 12 and left() < 900, 500)
        return 20 + user

    @q.job(queue="sync", name="scrobble", target=lastfm, attempts=6)
    async def scrobble(user: int) -> None:
        await asyncio.sleep(0.2)
        _ill(left() < 700, 502)

    @q.job(queue="sync", name="history", target=tautulli, attempts=5)
    async def history(page: int) -> int:
        await asyncio.sleep(0.5)
        return 100

    @q.job(queue="sync", name="now playing", target=navidrome, attempts=5)
    async def now_playing(user: int) -> None:
        await asyncio.sleep(0.1)
        _ill(user == 3, 503)

    return {"plays": plays, "scrobble": scrobble, "history": history, "now_playing": now_playing}


def _of_files(q: Queue) -> Kinds:
    gateway = Target("gateway", backoff=None, breaker={**BREAKER, "timeout": 120}, when_open="fail-fast")
    openai = Target("openai")

    @q.job(queue="convert", name="convert pdf", target=gateway, attempts=3, backoff=Backoff("5s", factor=3, cap="45s"))
    async def convert(name: str, job: Context) -> dict[str, Any]:
        await asyncio.sleep(4)
        if name.startswith("broken"):
            raise Fail("bad_request", "This file is no PDF.")
        if name.startswith("odd"):
            raise RuntimeError("something nobody knows")
        _ill(name.startswith("slow") and job.attempt < 3, 504)
        return {"pages": 12, "file": name.replace(".pdf", ".txt")}

    @q.job(queue="convert", name="summarise", target=openai, attempts=5)
    async def summarise(name: str) -> None:
        raise Again("5m", keep_attempt=True)

    return {"convert": convert, "summarise": summarise}


def _ill(now: bool, status: int, **headers: str) -> None:
    if now:
        raise Refusal(status, **headers)


async def _three_hours(q: Queue, kinds: Kinds) -> None:
    stop = asyncio.Event()
    worker = asyncio.create_task(q.arun_worker(16, stop=stop))
    albums = itertools.cycle(ALBUMS)
    minutes = int(LENGTH // 60) - 1
    for minute in range(minutes):
        _put_in(kinds, albums, minute)
        if minute == 120:
            q.target("tautulli").pause("4h", by="ann")
        if minute == 90:
            q.pause("convert", "10m", by="ann")
        for n in range(6 if minute > minutes - 5 else 0):  # more work than a service that is ill can take
            album = next(albums)
            kinds["submit"].enqueue(Album(album.artist, f"{album.title} (live, {minute}-{n})"))
        await asyncio.sleep(60)
    stop.set()
    await worker


def _put_in(kinds: Kinds, albums: Iterator[Album], minute: int) -> None:
    """The work of one minute."""
    for user in (1, 7, 12):
        kinds["plays"].enqueue(user)
    if minute % 2 == 0:
        kinds["scrobble"].enqueue(minute % 5)
        kinds["poll"].enqueue((4711, 12, 99, 40, 41, 42)[minute // 2 % 6])
    if minute % 3 == 0:
        album = next(albums)
        kinds["submit"].enqueue(Album(album.artist, f"{album.title} ({minute})"))
        kinds["look_up"].enqueue(album.artist)
        kinds["now_playing"].enqueue(minute % 4)
        kinds["history"].enqueue(minute)
    for name, every, at in (("report", 9, 0), ("broken", 40, 10), ("odd", 60, 20), ("slow", 50, 30)):
        if minute % every == at:
            kinds["convert"].enqueue(f"{name}-{minute}.pdf")


def _at_the_end(tx: Tx) -> None:
    """What holds at the last moment: other workers, a breaker that is being tried, what programs tell."""
    for id_, host, pid, queues, stopping in (
        ("atlas-311", "atlas", 311, ["convert", "feeds", "lidarr", "sync"], 0),
        ("atlas-1207", "atlas", 1207, ["lidarr", "sync"], 0),
        ("hydra-42", "hydra", 42, ["convert"], 1),
    ):
        about = {
            "id": id_,
            "host": host,
            "pid": pid,
            "queues": json.dumps(queues),
            "stopping": stopping,
            "outdated": 0,
            "beat": 1,
        }
        tx.query("worker_seen", about)
    rows, now = table.lock_targets(tx, ["gateway"])
    before = rows["gateway"].breaker
    assert now is not None
    opened = breaker.half_open(breaker.force_open(before, now - 130, now - 10), now - 10)
    table.put_breaker(tx, "gateway", before, replace(opened, good=1))
    for name, ago, unhealthy in (("fanart.tv", 2.0, 0), ("weather", 400.0, 0)):
        said = {"hydra-77": {"at": now - ago, "unhealthy": unhealthy, "reasons": {}, "breakers": {}, "dropped": 0}}
        tx.query("target_report", {"name": name, "summary": json.dumps(said)})


def _more(q: Queue, kinds: Kinds) -> None:
    """Jobs that run, wait for others, wait for a time, or were stopped by a person."""
    kinds["summarise"].options(due="2h").enqueue("report-9.pdf")
    first = kinds["convert"].enqueue("thesis.pdf")
    kinds["summarise"].options(after=[first]).enqueue("thesis.pdf")
    kinds["convert"].enqueue("handbook.pdf")
    for feed in (40, 41, 42):
        kinds["poll"].enqueue(feed)
    stopped = kinds["convert"].enqueue("draft.pdf")
    q.cancel(stopped, by="ann")
    q.store.write(_claimed)


def _claimed(tx: Tx) -> None:
    claim.claim(tx, ReadyKey("convert", "gateway", ""), 1, "atlas-311", 30.0)
    for feed in ("40", "41"):
        claim.claim(tx, ReadyKey("feeds", "feed", feed), 1, "atlas-311", 30.0)
    claim.claim(tx, ReadyKey("sync", "navidrome", ""), 2, "atlas-1207", 12.0)
