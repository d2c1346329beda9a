"""The process: signals that stop it, a watchdog, and memory returned to the system."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Coroutine, Iterator
from types import FrameType
from typing import Any, TypeVar

# -- stop: the first signal requests it, the second ends the process ------------------------------------------------

T = TypeVar("T")
_log = logging.getLogger("tidegate.worker")

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Watchdog:
    """Ends the process if a stop takes too long: a thread, or a handler that blocks the loop, cannot be cancelled."""

    def __init__(self, longest: float) -> None:
        self._longest = longest
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def arm(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="tidegate-watchdog", daemon=True)
            self._thread.start()

    def disarm(self) -> None:
        self._over.set()

    def _watch(self) -> None:
        if self._over.wait(self._longest):
            return
        _log.error("stop_took_too_long seconds=%g", self._longest)
        logging.shutdown()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(1)  # unreleased leases expire


def is_interruptible() -> bool:
    """Whether Ctrl-C raises KeyboardInterrupt in this thread. If not, a KeyboardInterrupt comes from other code."""
    main = threading.current_thread() is threading.main_thread()
    return main and signal.getsignal(signal.SIGINT) is signal.default_int_handler


def run_loop(main: Coroutine[Any, Any, T]) -> T:
    """Like `asyncio.run`, on a loop that handlers cannot end with `stop` or with SystemExit in a task."""
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        task = loop.create_task(main)
        stop = loop.stop

        def guarded() -> None:
            if task.done():
                stop()
            elif asyncio.current_task(loop) is not None:
                raise RuntimeError("a handler must not stop the event loop of its worker")
            else:
                _log.error("loop_stop_refused hint=a handler must not stop the event loop of its worker")

        vars(loop)["stop"] = guarded
        while True:
            try:
                return loop.run_until_complete(task)
            except (SystemExit, KeyboardInterrupt) as error:
                # The code that awaits the task gets the exception. The loop was only interrupted.
                if task.done() or (isinstance(error, KeyboardInterrupt) and is_interruptible()):
                    raise
                _log.error("task_ended_itself error=%s", type(error).__name__)
            finally:
                if task.done():
                    vars(loop).pop("stop", None)


@contextlib.contextmanager
def on_signals(stop: asyncio.Event, watchdog: Watchdog) -> Iterator[None]:
    """Sets *stop* at the first signal. Outside the main thread it leaves signals alone."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    requested = False

    def on_signal(number: int, _: FrameType | None) -> None:
        nonlocal requested
        if requested:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        requested = True
        watchdog.arm()
        loop.call_soon_threadsafe(stop.set)

    # Not the loop's handlers: they would wait while a handler blocks the loop.
    before = {number: signal.signal(number, on_signal) for number in SIGNALS}
    try:
        yield
    finally:
        for number, was in before.items():
            signal.signal(number, signal.SIG_DFL if was is None else was)


# -- memory of a process that runs for months -----------------------------------------------------------------------

_ARENA_MAX = -8  # M_ARENA_MAX of mallopt(3)
_ARENAS = 2
_EVERY = 60.0  # seconds


def trim_regularly(every: float = _EVERY) -> None:
    """Limits the heaps, and regularly frees garbage and unused memory in them. Call it before threads start.

    Python's full garbage collection runs only after the number of objects has grown by a quarter, which takes hours in
    a large program. So the objects of the first minute are frozen, and the others are collected every minute.

    glibc creates up to eight heaps (arenas) per processor for threads, and does not share free memory between them. So
    a program with many threads grows for hours until each heap has reached its peak. Under the GIL a few heaps suffice.
    glibc also returns only the free end of a heap, so `malloc_trim` returns the rest.
    """
    if is_glibc():
        limit_arenas()
    threading.Thread(target=_trim_loop, args=(every,), name="tidegate-heaps", daemon=True).start()


def limit_arenas() -> None:
    """Limits glibc to a few heaps from now on, unless MALLOC_ARENA_MAX is set."""
    if "MALLOC_ARENA_MAX" not in os.environ:
        ctypes.CDLL(None).mallopt(_ARENA_MAX, _ARENAS)


def _trim_loop(every: float) -> None:
    trim = ctypes.CDLL(None).malloc_trim if is_glibc() else None
    never = threading.Event()
    never.wait(every)
    gc.collect()
    gc.freeze()
    while not never.wait(every):
        gc.collect()  # takes some milliseconds, in which nothing else runs
        if trim is not None:
            trim(0)  # other threads continue


def is_glibc() -> bool:
    try:
        return "glibc" in (os.confstr("CS_GNU_LIBC_VERSION") or "")
    except (AttributeError, ValueError, OSError):  # only glibc has this name
        return False
