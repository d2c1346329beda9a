"""The breaker in its three states, beside the floors that its targets are counted in.

python -m bench.breaker ROUNDS      prints the nanoseconds of each call in one process, as JSON
"""

from __future__ import annotations

import json
import statistics
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NoReturn

from bench.row import Row, at_most
from bench.timing import areturns, middle, nanoseconds, raises, returns
from tidegate import Breaker

# What the best peer adds to a bare call, in multiples of what a pass-through wrapper adds, times the share of it that
# is the target: see docs/explanation/how-it-compares.md.
CLOSED_SYNC = 0.45 * 665.8 / 99.4
CLOSED_ASYNC = 0.55 * 677.2 / 156.0
FAILING = 0.9 * 1236.1 / 223.3
NEVER = 10**9
THREADS, SLEEP, SLEEPS = 8, 0.004, 10
GAIN = 7.8  # times what one thread does


class Prebuilt(Exception):
    pass


PREBUILT = Prebuilt("open")


def ok() -> int:
    return 1


async def aok() -> int:
    return 1


def fails() -> NoReturn:
    raise ConnectionError


def raise_prebuilt() -> NoReturn:
    PREBUILT.__traceback__ = None  # else every raise makes it longer
    raise PREBUILT


def passed(fn: Callable[..., Any]) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    return wrapper


def apassed(fn: Callable[..., Any]) -> Callable[..., Any]:
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        return await fn(*args, **kwargs)

    return wrapper


def tripped() -> Breaker:
    breaker = Breaker("bench", timeout="1h")
    breaker.force("open", "1h")
    return breaker


def never() -> Breaker:
    return Breaker("bench", min_requests=NEVER, consecutive=NEVER)


def measured(rounds: int) -> dict[str, float]:
    """Nanoseconds per call, in this process."""
    shut = tripped()
    return nanoseconds(
        {
            "bare": (returns, ok),
            "passed": (returns, passed(ok)),
            "closed": (returns, never()(ok)),
            "abare": (areturns, aok),
            "apassed": (areturns, apassed(aok)),
            "aclosed": (areturns, never()(aok)),
            "fails": (raises, fails),
            "passed fails": (raises, passed(fails)),
            "closed fails": (raises, never()(fails)),
            "prebuilt": (raises, raise_prebuilt),
            "open": (raises, shut(ok)),
            "allow": (returns, shut.allow),
        },
        rounds=rounds,
    )


def run(rounds: int = 31, processes: int = 5) -> list[Row]:
    spent = middle("bench.breaker", rounds, processes)
    wrapper, awrapper = spent["passed"] - spent["bare"], spent["apassed"] - spent["abare"]
    bad_wrapper = spent["passed fails"] - spent["fails"]
    added = {name: spent[name] - spent[bare] for name, bare in (("closed", "bare"), ("aclosed", "abare"))}
    failing = spent["closed fails"] - spent["fails"]
    return [
        Row("bare call", f"{spent['bare']:.0f} ns"),
        Row("pass-through wrapper, sync", f"+{wrapper:.0f} ns"),
        Row("pass-through wrapper, async", f"+{awrapper:.0f} ns"),
        Row("pass-through wrapper, a call that fails", f"+{bad_wrapper:.0f} ns"),
        Row("raise and catch a prebuilt exception", f"{spent['prebuilt']:.0f} ns"),
        at_most("closed breaker, sync", added["closed"] / wrapper, round(CLOSED_SYNC, 1), "x wrapper",
                f" (+{added['closed']:.0f} ns)"),
        at_most("closed breaker, async", added["aclosed"] / awrapper, round(CLOSED_ASYNC, 1), "x wrapper",
                f" (+{added['aclosed']:.0f} ns)"),
        at_most("failing call recorded", failing / bad_wrapper, round(FAILING, 1), "x wrapper",
                f" (+{failing:.0f} ns)"),
        at_most("open: rejection", spent["open"] / spent["prebuilt"], 3.0, "x raise", f" ({spent['open']:.0f} ns)"),
        at_most("open: allow()", spent["allow"] / spent["prebuilt"], 0.6, "x raise", f" ({spent['allow']:.0f} ns)"),
        Row("half-open: admit and settle one probe", f"{half_open_probe():,.0f} ns"),
        sleeping(),
    ]  # fmt: skip


def half_open() -> Breaker:
    breaker = Breaker("bench", timeout=None)
    breaker.force("open", "1ms")
    while breaker.state != "half-open":
        pass
    return breaker


def half_open_probe() -> float:
    """A probe that proves nothing gives its place back, so the half-open state lasts as long as is needed."""
    breaker = half_open()

    def probe() -> None:
        permit = breaker.allow()
        if permit is not None:
            permit.done(None)

    return nanoseconds({"probe": (returns, probe)}, rounds=11)["probe"]


def sleeping() -> Row:
    """Threads that sleep behind one breaker must not wait for each other."""
    guarded = Breaker("bench")(lambda: time.sleep(SLEEP))
    one = statistics.median(wall(lambda: time.sleep(SLEEP), 1) for _ in range(5))
    eight = statistics.median(wall(guarded, THREADS) for _ in range(7))
    gain = THREADS * one / eight
    what = f"{THREADS} threads sleeping {SLEEP * 1000:g} ms in one breaker"
    return Row(what, f"{gain:.2f}x of one", f">= {GAIN:g}x", gain >= GAIN)


def wall(fn: Callable[[], object], threads: int) -> float:
    start = threading.Barrier(threads + 1)

    def work() -> None:
        start.wait()
        for _ in range(SLEEPS):
            fn()

    every = [threading.Thread(target=work) for _ in range(threads)]
    for thread in every:
        thread.start()
    start.wait()
    began = time.perf_counter()
    for thread in every:
        thread.join()
    return time.perf_counter() - began


if __name__ == "__main__":
    print(json.dumps(measured(int(sys.argv[1]))))
