"""How many heaps the C library keeps.

glibc gives threads heaps of their own, up to eight for each processor, and what was once needed in one of them is not
there for the others. So a program with many threads takes memory for hours until each heap has seen its worst moment.
Python's threads take turns anyway: a few heaps are enough for them.
"""

from __future__ import annotations

import ctypes
import os

_ARENA_MAX = -8  # M_ARENA_MAX of mallopt(3)
_ENOUGH = 2


def few() -> bool:
    """Keeps to a few heaps from now on, unless MALLOC_ARENA_MAX says how many; whether it does.

    To be called before there are threads: heaps that are there stay. False where the C library is another one.
    """
    if "MALLOC_ARENA_MAX" in os.environ or not of_glibc():
        return False
    return bool(ctypes.CDLL(None).mallopt(_ARENA_MAX, _ENOUGH))


def of_glibc() -> bool:
    try:
        return "glibc" in (os.confstr("CS_GNU_LIBC_VERSION") or "")
    except (AttributeError, ValueError, OSError):  # it is a name of glibc alone
        return False
