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

# How a process that works ends: the first signal asks, the second ends it at once, and nothing may hang for ever.

T = TypeVar("T")
_log = logging.getLogger("tidegate.worker")

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Watchdog:
    """Ends the process when a stop takes too long: a thread, or a loop that a handler blocks, cannot be cancelled."""

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
        os._exit(1)  # leases that were not given back end by themselves


def is_interruptible() -> bool:
    """Whether Ctrl-C raises KeyboardInterrupt in this thread; else whoever raises one does so on its own account."""
    main = threading.current_thread() is threading.main_thread()
    return main and signal.getsignal(signal.SIGINT) is signal.default_int_handler


def run_loop(main: Coroutine[Any, Any, T]) -> T:
    """As `asyncio.run`, on a loop that no handler can end: by `stop`, or by a SystemExit in a task of its own."""
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
                # Whoever waits for the task that raised it hears of it; the loop has only been interrupted.
                if task.done() or (isinstance(error, KeyboardInterrupt) and is_interruptible()):
                    raise
                _log.error("task_ended_itself error=%s", type(error).__name__)
            finally:
                if task.done():
                    vars(loop).pop("stop", None)


@contextlib.contextmanager
def on_signals(stop: asyncio.Event, watchdog: Watchdog) -> Iterator[None]:
    """Sets *stop* at the first signal; in a thread that is not the main one, signals are somebody else's."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    asked = False

    def heard(number: int, _: FrameType | None) -> None:
        nonlocal asked
        if asked:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        asked = True
        watchdog.arm()
        loop.call_soon_threadsafe(stop.set)

    # Not the loop's own handlers: they would wait until a handler that blocks the loop is done.
    before = {number: signal.signal(number, heard) for number in SIGNALS}
    try:
        yield
    finally:
        for number, was in before.items():
            signal.signal(number, signal.SIG_DFL if was is None else was)


# How much memory a program keeps that runs for months.
#
# Python looks for garbage in cycles among all objects only when they have become a quarter more, which takes hours in
# a program that has loaded much. So what was there after a minute is left out of that, and the rest is looked through
# each minute.
#
# glibc gives threads heaps of their own, up to eight for each processor, and what was once needed in one of them is
# not there for the others. So a program with many threads takes memory for hours until each heap has seen its worst
# moment. Python's threads take turns anyway: a few heaps are enough for them. And of what is free in a heap, glibc
# gives back only the end; one small thing that lives on keeps all that lies before it.

_ARENA_MAX = -8  # M_ARENA_MAX of mallopt(3)
_ARENAS = 2
_EVERY = 60.0  # seconds


def trim_regularly(every: float = _EVERY) -> None:
    """Keeps to few heaps, and gives back now and then what is free in them and what is garbage.

    To be called before there are threads: heaps that are there stay.
    """
    if is_glibc():
        limit_arenas()
    threading.Thread(target=_tidy, args=(every,), name="tidegate-heaps", daemon=True).start()


def limit_arenas() -> None:
    """Keeps glibc to a few heaps from now on, unless MALLOC_ARENA_MAX says how many."""
    if "MALLOC_ARENA_MAX" not in os.environ:
        ctypes.CDLL(None).mallopt(_ARENA_MAX, _ARENAS)


def _tidy(every: float) -> None:
    trim = ctypes.CDLL(None).malloc_trim if is_glibc() else None
    never = threading.Event()
    never.wait(every)
    gc.collect()
    gc.freeze()
    while not never.wait(every):
        gc.collect()  # some milliseconds, in which nothing else runs
        if trim is not None:
            trim(0)  # other threads run meanwhile


def is_glibc() -> bool:
    try:
        return "glibc" in (os.confstr("CS_GNU_LIBC_VERSION") or "")
    except (AttributeError, ValueError, OSError):  # it is a name of glibc alone
        return False
