"""What a person waits for who looks at ten thousand failed jobs: the page Failures of a real server, and the API.

The jobs have failed in a queue of ours, in 150 groups of all sizes; the page has the first 100 of them.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from statistics import quantiles

from bench.pages import Client, serving
from bench.row import Row, at_most
from tidegate import Fail, Queue
from tidegate.jobs import JobFunction, settle

JOBS, GROUPS, TIMES = 10_000, 150, 100
_CODES = ("unauthorized", "not_found", "upstream_failure", "unexpected", "bad_request")
_MOST = 200.0  # milliseconds, for 95 of 100


def run() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'jobs.db'}"
        fill(url)
        with serving(url, folder) as client:
            return [
                at_most(f"the page Failures of {JOBS:,} failed jobs, p95", p95(client, "/failures"), _MOST, " ms"),
                at_most("the same in the API, p95", p95(client, "/api/v1/failures"), _MOST, " ms"),
            ]


def fill(url: str, jobs: int = JOBS, groups: int = GROUPS) -> None:
    """Jobs that have failed for good, half of them in the largest tenth of the groups."""
    with Queue(url) as queue:
        kinds = [_kind(queue, n) for n in range(groups // len(_CODES))]
        ends = [round(jobs * (each / groups) ** 0.3) for each in range(1, groups + 1)]
        sizes = [end - start for start, end in zip([0, *ends], ends, strict=False)]
        for number, size in enumerate(reversed(sizes)):  # the largest are the newest, and so on the page
            kinds[number // len(_CODES)].enqueue_many([((number, each),) for each in range(size)])
        asyncio.run(queue.adrain())
        while queue.store.write(settle.fold_failures):
            pass


def _kind(queue: Queue, number: int) -> JobFunction[[tuple[int, int]], None]:
    @queue.job(queue="bench", name=f"kind-{number}", attempts=1)
    async def fails(args: tuple[int, int]) -> None:
        raise Fail(_CODES[args[0] % len(_CODES)], f"It was refused, at try {args[1]}.")

    return fails


def p95(client: Client, path: str) -> float:
    """Milliseconds."""
    client.asked(path)
    return quantiles([client.asked(path).wall * 1000 for _ in range(TIMES)], n=20)[-1]
