"""How much memory the C library keeps for a program that runs for months.

glibc gives threads heaps of their own, up to eight for each processor, and what was once needed in one of them is not
there for the others. So a program with many threads takes memory for hours until each heap has seen its worst moment.
Python's threads take turns anyway: a few heaps are enough for them. And of what is free in a heap, glibc gives back
only the end; one small thing that lives on keeps all that lies before it.
"""

from __future__ import annotations

import ctypes
import os
import threading

_ARENA_MAX = -8  # M_ARENA_MAX of mallopt(3)
_ENOUGH = 2
_EVERY = 60.0  # seconds


def keep_small(every: float = _EVERY) -> bool:
    """Few heaps, and what is free in them goes back to the system now and then; False without glibc.

    To be called before there are threads: heaps that are there stay.
    """
    if not of_glibc():
        return False
    few()
    threading.Thread(target=_give_back, args=(every,), name="tidegate-heaps", daemon=True).start()
    return True


def few() -> None:
    """Keeps glibc to a few heaps from now on, unless MALLOC_ARENA_MAX says how many."""
    if "MALLOC_ARENA_MAX" not in os.environ:
        ctypes.CDLL(None).mallopt(_ARENA_MAX, _ENOUGH)


def _give_back(every: float) -> None:
    trim, never = ctypes.CDLL(None).malloc_trim, threading.Event()
    while not never.wait(every):
        trim(0)  # other threads run meanwhile; it takes some milliseconds


def of_glibc() -> bool:
    try:
        return "glibc" in (os.confstr("CS_GNU_LIBC_VERSION") or "")
    except (AttributeError, ValueError, OSError):  # it is a name of glibc alone
        return False
