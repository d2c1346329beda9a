"""What a program that runs for long gives back."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tidegate import process

# Threads that all have memory at the same time; then what glibc says of its heaps.
PROGRAM = """
import ctypes, sys, threading
from tidegate import process as heaps
if "few" in sys.argv:
    heaps.limit_arenas()
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

pytestmark = pytest.mark.skipif(not process.is_glibc(), reason="the C library is not glibc")


# Much that is freed again, but for a little everywhere; then how much the process still has, until that is less.
FREED = """
import sys, time
from pathlib import Path
from tidegate import process as heaps
def taken():
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("RssAnon")).split()[1]) // 1000
before = taken()
if "small" in sys.argv:
    heaps.trim_regularly(0.05)
kept = [bytes(2000) for _ in range(25_000)]
most = taken()
del kept[1:-1]
end = time.monotonic() + (60 if "small" in sys.argv else 0.5)
del kept[0]
while taken() > before + 20 and time.monotonic() < end:
    time.sleep(0.01)
print(most - before, taken() - before)
"""


# Garbage that Python has looked at twice while it was none; then whether it goes though nothing else comes.
CYCLE = """
import gc, sys, time, weakref
from tidegate import process as heaps
class Node: pass
def until(what, seconds):
    end = time.monotonic() + seconds
    while not what() and time.monotonic() < end:
        time.sleep(0.01)
if "small" in sys.argv:
    heaps.trim_regularly(0.05)
    until(gc.get_freeze_count, 60)
node = Node()
node.itself = node
gc.collect(), gc.collect()
gone = weakref.ref(node)
del node
until(lambda: gone() is None, 60 if "small" in sys.argv else 0.5)
print("gone" if gone() is None else "there")
"""


def heaps_of(*words: str, **environment: str) -> int:
    kept = {name: value for name, value in os.environ.items() if name != "MALLOC_ARENA_MAX"}
    command = [sys.executable, "-c", PROGRAM, *words]
    said = subprocess.run(command, env=kept | environment, capture_output=True, text=True, check=True, timeout=100)
    return said.stdout.count("<heap nr=")


def test_many_threads_share_two_heaps() -> None:
    assert heaps_of() > 2
    assert heaps_of("few") == 2


def test_what_is_free_between_two_things_that_live_on_goes_back() -> None:
    def megabytes(*words: str) -> list[int]:
        command = [sys.executable, "-c", FREED, *words]
        said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=100)
        return [int(word) for word in said.stdout.split()]

    most, left = megabytes()
    assert most > 40
    assert left > 40
    most, left = megabytes("small")
    assert most > 40
    assert left <= 20


def test_old_garbage_in_cycles_goes() -> None:
    def node(*words: str) -> str:
        command = [sys.executable, "-c", CYCLE, *words]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=100).stdout.strip()

    assert node() == "there"
    assert node("small") == "gone"


def test_whoever_says_how_many_heaps_gets_them() -> None:
    assert heaps_of("few", MALLOC_ARENA_MAX="1") == 1
