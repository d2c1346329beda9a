"""A small disk that can be filled up: a tmpfs of its own for root, else a limit on the size of files."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import subprocess
from collections.abc import Collection, Iterator
from pathlib import Path

_SIZE = "256m"
_NOTHING = 0  # bytes: a write that fits in part would leave half a line


class SmallDisk:
    """A file system of its own; full once the rest of it is taken by a file that nobody needs."""

    how = "a tmpfs of its own"

    def __init__(self, folder: Path) -> None:
        self._ballast = folder / "ballast"

    def fill(self, processes: Collection[int]) -> None:
        block = b"\0" * (1 << 20)
        with self._ballast.open("wb", buffering=0) as file:
            while block:
                try:
                    file.write(block)
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    block = block[: len(block) // 2]

    def free(self, processes: Collection[int]) -> None:
        self._ballast.unlink(missing_ok=True)


class SizeLimit:
    """Files of some processes may not grow. They hear EFBIG instead of ENOSPC."""

    how = "RLIMIT_FSIZE, as there may be no mount here"

    def fill(self, processes: Collection[int]) -> None:
        self._limit(processes, _NOTHING)

    def free(self, processes: Collection[int]) -> None:
        self._limit(processes, resource.RLIM_INFINITY)

    def _limit(self, processes: Collection[int], most: int) -> None:
        for pid in processes:
            with contextlib.suppress(ProcessLookupError):
                _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, hard))


@contextlib.contextmanager
def small_disk(folder: Path, *, mount: bool = True, size: str = _SIZE) -> Iterator[SmallDisk | SizeLimit]:
    """The disk at *folder*, for as long as it is needed."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (mount and os.geteuid() == 0 and _run("mount", "-t", "tmpfs", "-o", f"size={size}", "chaos", str(folder))):
        yield SizeLimit()
        return
    try:
        yield SmallDisk(folder)
    finally:
        _run("umount", "-l", str(folder))


def _run(*command: str) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False
