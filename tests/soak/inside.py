"""A process looked at from inside, to find out what grows: `python -m tests.soak --inside types --keep FOLDER`.

Every process that loads the plain application then writes what it is made of to FOLDER/inside, once a minute: its
threads by name, what the C library, SQLite and Python have in use, and the types of which there are more than in the
fifth minute. With `--inside lines`, also the lines of code whose memory has grown since then; that costs half of the
speed, and memory of its own.
"""

from __future__ import annotations

import ctypes
import gc
import itertools
import json
import os
import sys
import threading
import time
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import apsw

_WHERE, _WHAT = "SOAK_INSIDE", "SOAK_INSIDE_WHAT"
EVERY = 60.0
WARM = 5  # minutes, until what is there counts as the beginning
_MOST = 60  # of a list
_STACK = str(8192)  # kB of address space, as Linux gives it to each thread
_PAGE = os.sysconf("SC_PAGE_SIZE")


class _Heap(ctypes.Structure):
    """What mallinfo2 answers."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
        )
    )  # fmt: skip


def heap() -> dict[str, int]:
    """Bytes that the C library has from the system, in use and free; nothing where it is another library."""
    try:
        ask = ctypes.CDLL(None).mallinfo2
    except AttributeError:
        return {}
    ask.restype = _Heap
    said = ask()
    return {"system": said.arena, "mapped": said.hblkhd, "used": said.uordblks, "free": said.fordblks}


def mapped() -> dict[str, int]:
    """Bytes of memory in use by what they are for: files, the first heap, stacks of threads, the rest."""
    found: Counter[str] = Counter()
    kind = size = ""
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first, *more = line.split()
        if "-" in first and ":" not in first:
            name = more[-1] if len(more) > 4 else ""
            kind = "heap" if name == "[heap]" else "files" if name.startswith("/") else ""
        elif first == "Size:":
            size = more[0]
        elif first == "Rss:":
            found[kind or ("stacks" if size == _STACK else "others")] += int(more[0]) * 1024
    return dict(found)


def threads() -> dict[str, int]:
    """How many threads there are of each name, without their numbers."""
    return dict(Counter(each.name.rstrip("0123456789 ()").rstrip("_-") for each in threading.enumerate()))


def types() -> Counter[str]:
    return Counter(f"{type(each).__module__}.{type(each).__qualname__}" for each in gc.get_objects())


class Inside:
    """What has grown since it was warm."""

    def __init__(self, *, traced: bool) -> None:
        self._began: Counter[str] | None = None
        self._first: tracemalloc.Snapshot | None = None
        self._traced = traced

    def told(self, minute: int) -> dict[str, Any]:
        gc.collect()
        now = types()
        found: dict[str, Any] = {
            "minute": minute,
            "resident": int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE,
            "blocks": sys.getallocatedblocks(),
            "heap": heap(),
            "mapped": mapped(),
            "sqlite": apsw.memory_used(),
            "threads": threads(),
        }
        if minute >= WARM and self._began is None:
            self._began = now
        if self._began is not None:
            grown = {name: n - self._began[name] for name, n in now.items() if n > self._began[name]}
            found["types"] = dict(sorted(grown.items(), key=lambda each: -each[1])[:_MOST])
        if self._traced:
            found["traced"] = tracemalloc.get_traced_memory()[0]
            found["lines"] = self._lines(minute)
        return found

    def _lines(self, minute: int) -> list[str]:
        if minute < WARM:
            return []
        own = tracemalloc.Filter(inclusive=False, filename_pattern=tracemalloc.__file__)
        now = tracemalloc.take_snapshot().filter_traces([own])
        if self._first is None:
            self._first = now
            return []
        grown = [each for each in now.compare_to(self._first, "traceback") if each.size_diff > 0][:_MOST]
        return [f"{each.size_diff} B in {each.count_diff}: " + _where(each.traceback) for each in grown]


def _where(trace: tracemalloc.Traceback) -> str:
    return " < ".join(f"{at.filename}:{at.lineno}" for at in reversed(trace))


def ask(folder: Path, what: str) -> None:
    """Lets all processes that are started from now on write what they are made of."""
    there = folder / "inside"
    there.mkdir(exist_ok=True)
    os.environ[_WHERE], os.environ[_WHAT] = str(there), what


def watch() -> None:
    """Begins to write, where that was asked for."""
    if not (folder := os.environ.get(_WHERE)):
        return
    if traced := os.environ.get(_WHAT) == "lines":
        tracemalloc.start(6)
    file = Path(folder) / f"{'-'.join(sys.argv[1:2])}-{os.getpid()}.jsonl"
    inside = Inside(traced=traced)

    def run() -> None:
        for minute in itertools.count(1):
            time.sleep(EVERY)
            with file.open("a") as lines:
                lines.write(json.dumps(inside.told(minute)) + "\n")

    threading.Thread(target=run, name="soak-inside", daemon=True).start()
