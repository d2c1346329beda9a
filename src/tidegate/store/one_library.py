"""One SQLite library per file in a process: when one of two closes the file, the locks of the other are gone."""

from __future__ import annotations

import threading
from pathlib import Path

from tidegate.errors import StoreError
from tidegate.store.sqlite_driver import library

_lock = threading.Lock()
_open: dict[str, tuple[str, int]] = {}  # file -> library, and how many stores have it open


def take(path: str, driver: str | None) -> str:
    """The library to open a file with: the one that was asked for, or else the one that has it open already.

    StoreError when another one has; every `take` is ended by a `leave`.
    """
    file = str(Path(path).resolve())
    with _lock:
        used, stores = _open.get(file, ("", 0))
        wanted = used if driver is None and used else library(driver)
        if used and wanted != used:
            raise StoreError(
                f"the file is open with {used} in this process, and {wanted} beside it would corrupt it; "
                f"give driver={used!r}"
            )
        _open[file] = (wanted, stores + 1)
        return wanted


def leave(path: str) -> None:
    file = str(Path(path).resolve())
    with _lock:
        used, stores = _open.get(file, ("", 0))
        if stores > 1:
            _open[file] = (used, stores - 1)
        else:
            _open.pop(file, None)
