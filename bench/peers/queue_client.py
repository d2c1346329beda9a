"""One operation on one queue, in a process of its own; prints one line of JSON.

python -m bench.peers.queue_client MODULE setup | remaining
python -m bench.peers.queue_client MODULE one | many KIND FIRST COUNT [GAP]   puts jobs in, with random gaps up to GAP
python -m bench.peers.queue_client MODULE work MODE                           becomes the worker
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import os
import random
import sys
import time
from collections.abc import Iterator
from typing import Any

BATCH = 1000


def calls(client: Any, operation: str, kind: str, first: int, count: int) -> Iterator[Any]:
    """Puts the jobs in as it is iterated over."""
    if operation == "one":
        return (client.one(kind, number) for number in range(first, first + count))
    starts = range(first, first + count, BATCH)
    return (client.many(kind, list(range(start, min(start + BATCH, first + count)))) for start in starts)


def put(module: Any, operation: str, kind: str, first: int, count: int, gap: float) -> dict[str, Any]:
    opened, dice, sent = module.client(), random.Random(7), list[float]()

    async def asynchronously() -> float:
        async with opened as client:
            began = time.perf_counter()
            for call in calls(client, operation, kind, first, count):
                if gap:
                    await asyncio.sleep(dice.uniform(0.02, gap))
                    sent.append(time.time())
                await call
            return time.perf_counter() - began

    if hasattr(opened, "__aenter__"):
        return {"seconds": asyncio.run(asynchronously()), "sent": sent}
    with opened as client:  # not in a loop: some libraries refuse that
        began, every = time.perf_counter(), calls(client, operation, kind, first, count)
        for _ in range(count if operation == "one" else -(-count // BATCH)):
            if gap:
                time.sleep(dice.uniform(0.02, gap))
                sent.append(time.time())
            next(every)
        return {"seconds": time.perf_counter() - began, "sent": sent}


def main() -> None:
    module: Any = importlib.import_module(f"bench.peers.queue_libraries.{sys.argv[1]}")
    operation, *said = sys.argv[2:]
    result: dict[str, Any] = {}
    match operation:
        case "work":
            command = module.worker(said[0])
            os.execvp(command[0], command)
        case "setup" | "remaining":
            found = getattr(module, operation)()
            result["count"] = asyncio.run(found) if inspect.iscoroutine(found) else found
        case _:
            kind, first, count, gap = said[0], int(said[1]), int(said[2]), float(said[3]) if said[3:] else 0.0
            result = put(module, operation, kind, first, count, gap)
    print(f"JSON {json.dumps(result)}", flush=True)


if __name__ == "__main__":
    main()
