"""Polls some feeds from a terminal: the server does it if one runs, and this process if none does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from tidegate.apps import Installed
from tidegate_apps.feeds.handlers import QUEUE

_POLL_INTERVAL = 0.2  # seconds


def poll_until(
    app: Installed[Any], ids: Sequence[int], wait: float, progress: Callable[[int, int], None], by: str
) -> int:
    """Asks for polls and waits for them; returns how many were made in time.

    There is one job that polls, whoever works on it: a server that has it under its lease goes on with it, and this
    process takes it otherwise. So nothing is polled twice.
    """
    began = app.queue.clock.now()
    app.jobs.sources.poll_all(ids, by)
    return asyncio.run(_work(app, ids, began, wait, progress))


async def _work(
    app: Installed[Any], ids: Sequence[int], began: float, wait: float, progress: Callable[[int, int], None]
) -> int:
    stop = asyncio.Event()
    worker = asyncio.create_task(app.queue.arun_worker(2, queues={QUEUE}, stop=stop, grace=5))
    end = app.queue.clock.monotonic() + wait
    done = 0
    try:
        while done < len(ids) and app.queue.clock.monotonic() < end and not worker.done():
            await asyncio.sleep(_POLL_INTERVAL)
            done = await asyncio.get_running_loop().run_in_executor(None, _polled, app, ids, began)
            progress(done, len(ids))
    finally:
        stop.set()
        await worker
    return done


def _polled(app: Installed[Any], ids: Sequence[int], began: float) -> int:
    rows = [app.db.one("states", source_id=id_) for id_ in ids]
    return sum(row is None or (row[25] is not None and row[25] >= began) for row in rows)
