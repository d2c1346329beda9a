"""A program with many threads keeps to a few heaps."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tidegate.runtime import heaps

# Threads that all have memory at the same time; then what glibc says of its heaps.
PROGRAM = """
import ctypes, sys, threading
from tidegate.runtime import heaps
if "few" in sys.argv:
    heaps.few()
together = threading.Barrier(9)
def work():
    kept = [bytes(2000) for _ in range(100)]
    together.wait(60)
threads = [threading.Thread(target=work) for _ in range(8)]
for each in threads: each.start()
together.wait(60)
for each in threads: each.join()
libc = ctypes.CDLL(None)
libc.fdopen.restype = ctypes.c_void_p
file = libc.fdopen(1, b"w")
libc.malloc_info(0, ctypes.c_void_p(file))
libc.fflush(ctypes.c_void_p(file))
"""

pytestmark = pytest.mark.skipif(not heaps.of_glibc(), reason="the C library is not glibc")


def heaps_of(*words: str, **environment: str) -> int:
    kept = {name: value for name, value in os.environ.items() if name != "MALLOC_ARENA_MAX"}
    command = [sys.executable, "-c", PROGRAM, *words]
    said = subprocess.run(command, env=kept | environment, capture_output=True, text=True, check=True, timeout=100)
    return said.stdout.count("<heap nr=")


def test_many_threads_share_two_heaps() -> None:
    assert heaps_of() > 2
    assert heaps_of("few") == 2


def test_whoever_says_how_many_heaps_gets_them() -> None:
    assert heaps_of("few", MALLOC_ARENA_MAX="1") == 1
