"""How much memory a program keeps that runs for months.

Python looks for garbage in cycles among all objects only when they have become a quarter more, which takes hours in a
program that has loaded much. So what was there after a minute is left out of that, and the rest is looked through each
minute.

glibc gives threads heaps of their own, up to eight for each processor, and what was once needed in one of them is not
there for the others. So a program with many threads takes memory for hours until each heap has seen its worst moment.
Python's threads take turns anyway: a few heaps are enough for them. And of what is free in a heap, glibc gives back
only the end; one small thing that lives on keeps all that lies before it.
"""

from __future__ import annotations

import ctypes
import gc
import os
import threading

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
