"""A guarded function while all is well, what a key that failed keeps, and what the import costs."""

from __future__ import annotations

import gc
import subprocess
import sys
import tempfile
import tracemalloc

from bench.breaker import aok, apassed, ok, passed
from bench.row import Row, at_most
from bench.timing import areturns, nanoseconds, returns
from tidegate import Target
from tidegate.faults.codes import CORE
from tidegate.guard.key_health import Admission

# As for the breaker: the peer's cost in multiples of a wrapper's, times the share of it that is the target.
RETRY_SYNC = 0.05 * 14484.2 / 97.5
RETRY_ASYNC = 0.05 * 22853.8 / 153.3
KEYS = 100_000
IMPORT = "import time; start = time.process_time(); import {}; print(time.process_time() - start)"


def run() -> list[Row]:
    guard = Target("bench").guard(retry=3)
    spent = nanoseconds(
        {
            "bare": (returns, ok),
            "passed": (returns, passed(ok)),
            "guarded": (returns, guard(ok)),
            "abare": (areturns, aok),
            "apassed": (areturns, apassed(aok)),
            "aguarded": (areturns, guard(aok)),
        }
    )
    sync, asynchronous = spent["guarded"] - spent["bare"], spent["aguarded"] - spent["abare"]
    return [
        at_most("guard(retry=3), success, sync", sync / (spent["passed"] - spent["bare"]), round(RETRY_SYNC, 1),
                "x wrapper", f" (+{sync:.0f} ns)"),
        at_most("guard(retry=3), success, async", asynchronous / (spent["apassed"] - spent["abare"]),
                round(RETRY_ASYNC, 1), "x wrapper", f" (+{asynchronous:.0f} ns)"),
        memory(),
        imports(),
    ]  # fmt: skip


def memory() -> Row:
    """State of keys that failed once, without the table that holds them and without the detail of their last fault."""
    per_key = Target("bench")._pipeline.keys
    fault, states, record = CORE["network"].fault("bench"), per_key.states, per_key.record_failure
    keys = [f"tenant-{number:06d}" for number in range(KEYS)]
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0] - sys.getsizeof(states)
    for key in keys:
        record(Admission(key, "sync"), fault, 0.5)
    gc.collect()
    after = tracemalloc.get_traced_memory()[0] - sys.getsizeof(states)
    tracemalloc.stop()
    if len(states) != KEYS:
        raise RuntimeError(f"{len(states)} of {KEYS} keys are on record")
    return at_most("memory of a key that failed once", (after - before) / KEYS, 160, " B")


def imports() -> Row:
    """Both in fresh interpreters, the best of several."""
    best = {"tidegate": float("inf"), "asyncio": float("inf")}
    with tempfile.TemporaryDirectory() as cache:
        for _ in range(7):
            for module, least in best.items():
                command = [sys.executable, "-I", "-X", f"pycache_prefix={cache}", "-c", IMPORT.format(module)]
                out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                best[module] = min(least, float(out))
    ratio = best["tidegate"] / best["asyncio"]
    return at_most("import tidegate, against import asyncio", ratio, 1.0, "x", f" ({best['tidegate'] * 1000:.0f} ms)")
