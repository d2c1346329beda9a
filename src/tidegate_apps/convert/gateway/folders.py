"""The folder of a running gateway: nobody else's, gone with it, and removed by the next one if it was killed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

_PREFIX = "tidegate-gateway-"
_LOCK = "lock"


@contextlib.contextmanager
def own_folder(inside: Path | None) -> Iterator[Path]:
    """A new folder *inside* that one, or among the temporary files."""
    home = Path(tempfile.gettempdir()) if inside is None else inside
    _sweep(home)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=home))
    try:
        with (folder / _LOCK).open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # the system lets go of it when we end, however we end
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _sweep(home: Path) -> None:
    """Removes the folders of those that were killed: nobody holds their locks."""
    for folder in home.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):  # it is somebody else's, or in use
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            with (folder / _LOCK).open("rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder)
