"""What the whole of polling costs beside a bare loop: due feeds are found, fetched, read, judged and kept on disk.

Beside it, what listing the active sources costs: 100,000 of them, a tenth disabled, in pages of 100.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

from bench.feeds import AT_ONCE, NETWORKS, Size, floor, serving
from bench.row import Row, at_most
from tidegate import Queue, net
from tidegate.apps import Installed, install
from tidegate_apps.feeds.app import app
from tidegate_apps.feeds.models import SourceRequest
from tidegate_apps.feeds.parsing import parse
from tidegate_apps.feeds.poller import PollClock, Poller, PollPolicy
from tidegate_apps.feeds.settings import FeedsSettings

clock = time.perf_counter
LEAST, LEAST_304 = 0.7, 0.8
SOURCES, MOST_MS = 100_000, 20.0


def added(there: Installed[FeedsSettings], urls: list[str]) -> None:
    there.jobs.sources.add_many([SourceRequest(feed_url=url) for url in urls], "bench")


async def round_of(there: Installed[FeedsSettings], n: int) -> float:
    """Polls all that are due; the seconds that it took."""
    there.db.write(
        lambda tx: [tx.all("set_due", source_id=id_, due_at=0.0, due_why="asked") for id_ in range(1, n + 1)]
    )
    queue = there.queue
    times = PollClock(now=queue.clock.now, monotonic=queue.clock.monotonic, older_than=queue.older_than)
    async with net.Client(user_agent="Bench/1", allow=NETWORKS, ports=None, keep=1000) as client:
        policy = PollPolicy(concurrency=AT_ONCE, paced=False)
        poller = Poller(there.db, there.jobs.manager, client.get, parse, times, policy)
        began = clock()
        tally = await poller.run(lambda: False, drain=True)
        took = clock() - began
    assert (tally.polled, tally.failed) == (n, 0), tally
    return took


def run(size: Size | None = None, rounds: int = 2) -> list[Row]:
    """The rows of the table; each number is the best of *rounds* rounds, taken in turns."""
    size = size or Size()
    best: dict[str, float] = {}

    def note(name: str, seconds: float) -> None:
        best[name] = min(best.get(name, float("inf")), seconds)

    with serving(size) as urls:
        for n in range(rounds):
            bare = asyncio.run(floor(urls))
            note("bare", bare.seconds)
            with tempfile.TemporaryDirectory() as folder, Queue(f"sqlite:///{Path(folder) / f'{n}.db'}") as queue:
                there = install(app, queue, FeedsSettings())
                added(there, urls)
                note("ours", asyncio.run(round_of(there, len(urls))))
                note("bare, 304", asyncio.run(floor(urls, bare.etags)).seconds)
                note("ours, 304", asyncio.run(round_of(there, len(urls))))
    per = {name: len(urls) / seconds for name, seconds in best.items()}
    ratio, ratio_304 = per["ours"] / per["bare"], per["ours, 304"] / per["bare, 304"]
    return [
        Row("feeds: bare httpx2 and fastfeedparser", f"{per['bare']:,.0f} /s"),
        Row("feeds: polled and kept", f"{per['ours']:,.0f} /s, {ratio:.2f}x", f">= {LEAST}x", ratio >= LEAST),
        Row("feeds: bare httpx2, 304", f"{per['bare, 304']:,.0f} /s"),
        Row("feeds: polled and kept, 304", f"{per['ours, 304']:,.0f} /s, {ratio_304:.2f}x", f">= {LEAST_304}x",
            ratio_304 >= LEAST_304),
        *listing(),
    ]  # fmt: skip


def listing(sources: int = SOURCES, url: str | None = None) -> list[Row]:
    """What 95 of 100 pages stay under, over the whole list."""
    with tempfile.TemporaryDirectory() as folder, Queue(url or f"sqlite:///{Path(folder) / 'many.db'}") as queue:
        there = install(app, queue, FeedsSettings())
        fill(queue, sources)
        took = sorted(pages(there))
    p95 = took[int(len(took) * 0.95)]
    return [at_most(f"feeds: page of 100 active of {sources:,}, p95", p95, MOST_MS, " ms")]


def fill(queue: Queue, sources: int, disabled: str = "n % 10 = 0") -> None:
    """So many sources; those are disabled whose number fits, every tenth if nothing else is said."""
    now = queue.clock.now()
    series = (
        f"(with recursive s(n) as (select 1 union all select n + 1 from s where n < {sources}) select n from s)"
        if queue.url.startswith("sqlite")
        else f"(select generate_series(1, {sources}) as n)"
    )
    text = (
        "insert into feeds_source (name, feed_url, interval_s, enabled, feed_disabled_at, feed_disable_reason, "
        "disabled_by, active_from, created_at) "
        "select 'feed ' || n, 'http://h' || (n % 5000) || '.example/' || n, 3600, 1, "
        f"case when {disabled} then {now} end, case when {disabled} then 'not_found' end, "
        f"case when {disabled} then 'auto' end, case when {disabled} then {now + 172800} else 0 end, {now} "
        f"from {series} as given"
    )
    queue.store.write(lambda tx: tx.execute(text))
    queue.store.write(lambda tx: tx.execute("analyze"))


def pages(there: Installed[FeedsSettings]) -> list[float]:
    """Milliseconds of each page, from the first to the last."""
    sources, found = there.jobs.sources, list[float]()
    place = (-1.0, 0)
    while True:
        began = clock()
        page = sources.active(place, 101)
        found.append(1000 * (clock() - began))
        if len(page) <= 100:
            return found
        place = (page[99].active_from or 0.0, page[99].id)
