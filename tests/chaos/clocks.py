"""Wall clocks that can be stepped while their processes run: a small library of C, put before the system's own."""

from __future__ import annotations

import mmap
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

_SOURCE = Path(__file__).with_name("wallskew.c")


class Clock:
    """The wall clock of one machine, which some processes have."""

    def __init__(self, library: Path, file: Path) -> None:
        self._library, self._file = library, file
        file.write_bytes(struct.pack("=q", 0))
        self.off = 0.0  # seconds before the real one

    @property
    def environment(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(self._library), "WALLSKEW": str(self._file)}

    def step(self, off: float) -> None:
        self.off = off
        number = os.open(self._file, os.O_RDWR)
        try:
            with mmap.mmap(number, 8) as there:
                there[:] = struct.pack("=q", int(off * 1e9))
        finally:
            os.close(number)


def clock_library(folder: Path) -> tuple[Path | None, str]:
    """The library; or None, and why there is none."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None, "there is no compiler of C"
    library = folder / "wallskew.so"
    made = subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", str(_SOURCE), "-o", str(library), "-ldl"],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        return None, f"the library does not compile: {made.stderr.strip()[:200]}"
    if not _works(library, folder):
        return None, "this Python does not ask the system's library for the time"
    return library, ""


def _works(library: Path, folder: Path) -> bool:
    clock = Clock(library, folder / "trial")
    clock.step(-1e6)
    asked = [sys.executable, "-c", "import time; print(time.time(), time.monotonic())"]
    read = [
        subprocess.run(asked, env={**os.environ, **extra}, capture_output=True, text=True, check=True).stdout.split()
        for extra in ({}, clock.environment)
    ]
    wall, steady = (float(read[1][i]) - float(read[0][i]) for i in (0, 1))
    return -1e6 < wall < -9e5 and 0 <= steady < 1e5
