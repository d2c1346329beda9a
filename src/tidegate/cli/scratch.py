"""A directory that is gone when its process is, however that ends."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

_REMOVE_TIMEOUT = 10  # seconds
# What was ended at once may have written a file a moment ago, so it is looked twice.
_REMOVE = """
import pathlib, shutil, sys, time
sys.stdin.buffer.read()
for _ in range(40):
    shutil.rmtree(sys.argv[1], ignore_errors=True)
    if not pathlib.Path(sys.argv[1]).exists():
        break
    time.sleep(0.25)
"""


@contextlib.contextmanager
def scratch(prefix: str) -> Iterator[Path]:
    """A directory of its own, removed at the end.

    A second Ctrl-C, or a kill, leaves a process no time for that. So another one waits for its end, and does it then.
    """
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    try:
        with _removed_after_us(folder):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _removed_after_us(folder: Path) -> Iterator[None]:
    """Its input ends when we do. It is in a session of its own, for what ends us must not end it."""
    quiet = subprocess.DEVNULL
    waiting = subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-I", "-S", "-c", _REMOVE, str(folder)], stdin=subprocess.PIPE, stdout=quiet, stderr=quiet,
        start_new_session=True, cwd="/",
    )  # fmt: skip
    try:
        yield
    finally:
        with contextlib.suppress(subprocess.TimeoutExpired):  # it goes on without us
            waiting.communicate(timeout=_REMOVE_TIMEOUT)
