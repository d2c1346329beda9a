"""CPU time of small functions: the best of many short rounds, in which all of them take turns."""

from __future__ import annotations

import asyncio
import gc
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from itertools import repeat
from typing import Any

# CPU time of the process: other tenants of the machine cannot inflate it.
_now = time.process_time_ns

Timer = Callable[[Any, int], "int | Coroutine[Any, Any, int]"]
Case = tuple[Timer, Callable[..., Any]]


def returns(fn: Callable[[], object], times: int) -> int:
    start = _now()
    for _ in repeat(None, times):
        fn()
    return _now() - start


def raises(fn: Callable[[], object], times: int) -> int:
    start = _now()
    for _ in repeat(None, times):
        try:
            fn()
        except Exception:
            pass
        else:  # what is quicker because it does something else is no number
            raise RuntimeError(f"{fn} was to raise")
    return _now() - start


async def areturns(fn: Callable[[], Awaitable[object]], times: int) -> int:
    start = _now()
    for _ in repeat(None, times):
        await fn()
    return _now() - start


async def araises(fn: Callable[[], Awaitable[object]], times: int) -> int:
    start = _now()
    for _ in repeat(None, times):
        try:
            await fn()
        except Exception:
            pass
        else:
            raise RuntimeError(f"{fn} was to raise")
    return _now() - start


def nanoseconds(cases: dict[str, Case], *, rounds: int = 41, sample_ms: float = 3.0) -> dict[str, float]:
    """Nanoseconds per call of each case."""
    loop = asyncio.new_event_loop()

    def once(case: Case, times: int) -> float:
        timer, fn = case
        spent = timer(fn, times)
        return (spent if isinstance(spent, int) else loop.run_until_complete(spent)) / times

    try:
        times = {name: max(16, int(sample_ms * 1e6 / once(case, 2000))) for name, case in cases.items()}
        best = dict.fromkeys(cases, float("inf"))
        for _ in range(rounds):
            gc.collect()
            for name, case in cases.items():
                best[name] = min(best[name], once(case, times[name]))
    finally:
        loop.close()
    return best


def middle(module: str, rounds: int, processes: int) -> dict[str, float]:
    """The middle of what new processes find, each of which runs *module* and gets JSON from it.

    Where its parts happen to lie in memory makes a small call slower by up to a quarter, as long as a process lives.
    """
    command = [sys.executable, "-m", module, str(rounds)]
    found = [json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout) for _ in range(processes)]
    return {name: statistics.median(each[name] for each in found) for name in found[0]}
