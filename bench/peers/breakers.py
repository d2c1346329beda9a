"""What a guard adds to a call: Tidegate beside other breakers and retry decorators, in the same rounds.

python -m bench.peers.breakers ROUNDS      prints the nanoseconds of each case in one process, as JSON
python -m bench.peers.breakers bytes NAME  prints the bytes that one more key costs
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Awaitable, Callable
from typing import Any

from bench import guard
from bench.breaker import GAIN, SLEEP, THREADS, aok, fails, ok, raise_prebuilt, wall
from bench.peers import version
from bench.peers.breaker_libraries import BREAKERS, NEVER, RETRIES, BreakerLibrary
from bench.timing import Case, araises, areturns, middle, nanoseconds, raises, returns
from tools import comparison, figures, why_not

ROUNDS, PROCESSES = 21, 3
TASKS, KEYS, LIMIT = 1_000, 20_000, 5
TIDEGATE = "tidegate"
BOLD = {TIDEGATE: "**Tidegate**"}
ABARE_FAILS, APREBUILT = "bare failing, async", "prebuilt, async"


async def afails() -> None:
    raise ConnectionError


async def araise_prebuilt() -> None:
    raise_prebuilt()


async def ayields() -> None:
    await asyncio.sleep(0)


async def in_tasks(fn: Callable[[], Awaitable[object]], times: int) -> int:
    """CPU time of *times* calls, by as many tasks as share one breaker."""
    each = max(5, times // TASKS)

    async def calls() -> None:
        for _ in range(each):
            await fn()

    tasks = [asyncio.ensure_future(calls()) for _ in range(TASKS)]
    start = time.process_time_ns()
    await asyncio.gather(*tasks)
    return (time.process_time_ns() - start) * times // (each * TASKS)


def opened(library: BreakerLibrary) -> Case:
    """The guarded function once the breaker is open; asynchronous only where the library has nothing else."""
    sync, aio = library.made(LIMIT)
    broken = True

    def fn() -> int:
        if broken:
            raise ConnectionError
        return 1

    async def afn() -> int:
        return fn()

    case: Case
    if sync is not None:
        guarded = sync(fn)
        case, call = (raises, guarded), guarded
    else:
        assert aio is not None
        aguarded = aio(afn)
        case, call = (araises, aguarded), lambda: asyncio.run(aguarded())
    for _ in range(4 * LIMIT):
        with contextlib.suppress(Exception):
            call()
    broken = False
    try:
        call()
    except Exception:
        return case
    raise RuntimeError(f"the breaker of {library.name} did not open")


def cases() -> dict[str, Case]:
    """Every case by "column: library"."""
    found: dict[str, Case] = {
        "prebuilt": (raises, raise_prebuilt), APREBUILT: (araises, araise_prebuilt), ABARE_FAILS: (araises, afails),
    }  # fmt: skip
    for library in BREAKERS:
        name = library.name
        sync, aio = library.made(NEVER)
        if sync is not None:
            found[f"sync: {name}"] = returns, sync(ok)
            found[f"failing: {name}"] = raises, library_decorator(library, 0)(fails)
        if aio is not None:
            found[f"async: {name}"] = areturns, aio(aok)
            found[f"tasks: {name}"] = in_tasks, library_decorator(library, 1)(ayields)
            if sync is None:
                found[f"failing: {name}"] = araises, library_decorator(library, 1)(afails)
        if library.opens:
            found[f"open: {name}"] = opened(library)
    for retry in RETRIES:
        sync, aio = retry.made()
        if sync is not None:
            found[f"retry: {retry.name}"] = returns, sync(ok)
        if aio is not None:
            found[f"aretry: {retry.name}"] = areturns, aio(aok)
    return found


def library_decorator(library: BreakerLibrary, which: int) -> Any:
    """Of a breaker of its own: what one case does to its state does not change another."""
    return library.made(NEVER)[which]


def key_bytes(name: str) -> float:
    """What one more key costs, without its place in the table that holds it."""
    if name == TIDEGATE:
        return float(guard.memory().found.split()[0])
    made = next(library.key for library in BREAKERS if library.name == name)
    assert made is not None
    made("warm-up")
    keys = {f"tenant-{number:06d}": None for number in range(KEYS)}
    values: dict[str, object] = dict(keys)
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for key in keys:
        values[key] = made(key)
    gc.collect()
    return (tracemalloc.get_traced_memory()[0] - before) / KEYS


def bytes_of(library: BreakerLibrary) -> str:
    if library.key is None and library.name != TIDEGATE:
        return "-"
    command = [sys.executable, "-m", "bench.peers.breakers", "bytes", library.name]
    return f"{float(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout):,.0f}"


def threads_gain(library: BreakerLibrary) -> float | None:
    """How much more eight threads get done than one, when all sleep behind one breaker."""
    sync = library.made(LIMIT)[0]
    if sync is None:
        return None
    one = statistics.median(wall(lambda: time.sleep(SLEEP), 1) for _ in range(3))
    guarded = sync(lambda: time.sleep(SLEEP))
    return THREADS * one / statistics.median(wall(guarded, THREADS) for _ in range(5))


def run() -> None:
    """Prints the tables, and writes them into the page when asked to."""
    spent = middle("bench.peers.breakers", ROUNDS, PROCESSES)
    gains = {library.name: threads_gain(library) for library in BREAKERS}
    sizes = {library.name: bytes_of(library) for library in BREAKERS}
    for name, markdown in (
        ("breaker-targets", target_table(spent, gains, sizes)),
        ("breakers", breaker_table(spent, gains, sizes)),
        ("retries", retry_table(spent)),
    ):
        print(f"{markdown}\n")
        if figures.asked():
            figures.write(name, markdown)
    if figures.asked():
        comparison.write()
        why_not.write()


def target_table(spent: dict[str, float], gains: dict[str, float | None], sizes: dict[str, str]) -> str:
    """Tidegate against the shares of the best peers that it aims at."""
    sync, aio, failing, peer = (f"{column}: {TIDEGATE}" for column in ("sync", "async", "failing", "open"))

    def share(column: str, other: str, bare: str = "bare call") -> float:
        floor = spent[f"{column}: {bare}"]
        return (spent[f"{column}: {TIDEGATE}"] - floor) / (spent[f"{column}: {other}"] - floor)

    gain = gains[TIDEGATE]
    assert gain is not None
    assert {sync, aio, failing, peer} <= set(spent)
    rows = [
        ("closed breaker, sync", f"{share('sync', 'circuitbreaker'):.2f}x of circuitbreaker's", "<= 0.45x"),
        ("closed breaker, async", f"{share('async', 'pyfailsafe'):.2f}x of pyfailsafe's", "<= 0.55x"),
        ("rejection, against raising a prebuilt exception", f"{spent[peer] / spent['prebuilt']:.2f}x", "<= 3x"),
        ("failing call recorded", f"{share('failing', 'circuitbreaker'):.2f}x of circuitbreaker's", "<= 0.9x"),
        (f"{THREADS} threads sleeping {SLEEP * 1000:g} ms in one breaker", f"{gain:.1f}x of one", f">= {GAIN:g}x"),
        ("memory per failing key, without its last detail", f"{sizes[TIDEGATE]} B", "<= 160 B"),
        ("`guard(retry=3)`, success, sync", f"{share('retry', 'stamina'):.3f}x of stamina's", "<= 0.05x"),
        ("`guard(retry=3)`, success, async", f"{share('aretry', 'stamina'):.3f}x of stamina's", "<= 0.05x"),
    ]
    return figures.table(["what", "found", "target"], rows)


def breaker_table(spent: dict[str, float], gains: dict[str, float | None], sizes: dict[str, str]) -> str:
    rows = []
    for library in BREAKERS:
        name = library.name
        gain, only_async = gains[name], f"sync: {name}" not in spent
        suffix = " async" if only_async else ""
        bare = ABARE_FAILS if only_async else "failing: bare call"
        rows.append((
            BOLD.get(name, name), version(name),
            added(spent, f"sync: {name}", "sync: bare call"), added(spent, f"async: {name}", "async: bare call"),
            f"{spent[f'open: {name}']:,.0f}{suffix}" if library.opens else "-",
            added(spent, f"failing: {name}", bare) + suffix,
            "-" if gain is None else f"{gain:.1f}",
            added(spent, f"tasks: {name}", "tasks: bare call"), sizes[name],
        ))  # fmt: skip
    base = ("sync: bare call", "async: bare call", "failing: bare call", ABARE_FAILS, "prebuilt", APREBUILT)
    call, acall, fail, afail, prebuilt, aprebuilt = (f"{spent[name]:.0f} ns" for name in base)
    head = [
        "library", "version", "closed, sync", "closed, async", "rejection", "failing call",
        f"{THREADS} threads, {SLEEP * 1000:g} ms", f"{TASKS:,} tasks", "bytes per key",
    ]  # fmt: skip
    shown = figures.table(head, rows, left=2)
    return (
        f"{shown}\n\nBare calls: {call}, awaited {acall}. Bare calls that fail: {fail}, awaited {afail}. Raising and "
        f"catching a prebuilt exception: {prebuilt}, awaited {aprebuilt}."
    )


def retry_table(spent: dict[str, float]) -> str:
    rows = [
        (
            BOLD.get(each.name, each.name), version(each.name),
            added(spent, f"retry: {each.name}", "retry: bare call"),
            added(spent, f"aretry: {each.name}", "aretry: bare call"),
        )
        for each in RETRIES
    ]  # fmt: skip
    return figures.table(["retry decorator, call succeeds", "version", "sync", "async"], rows, left=2)


def added(spent: dict[str, float], name: str, bare: str) -> str:
    """Nanoseconds on top of the bare call."""
    return f"{max(0.0, spent[name] - spent[bare]):+,.0f}" if name in spent else "-"


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, handlers=[logging.NullHandler()])  # records are made, and not written
    if sys.argv[1] == "bytes":
        print(key_bytes(sys.argv[2]))
    else:
        print(json.dumps(nanoseconds(cases(), rounds=int(sys.argv[1]))))
