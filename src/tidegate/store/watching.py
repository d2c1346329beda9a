"""How one process learns that another has put something in."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from tidegate.errors import StoreError
from tidegate.store.sqlite import SqliteStore
from tidegate.store.tx import Store

_log = logging.getLogger("tidegate.store")
Watch = Callable[[Callable[[], None], threading.Event], None]

_POLL_INTERVAL = 0.02  # seconds between looks at SQLite's version number, each a few microseconds


def watcher(store: Store) -> Watch | None:
    """A function that blocks until it is stopped, and calls back whenever another process wrote something.

    None where the database cannot tell, as through a pooler: then workers poll.
    """
    if isinstance(store, SqliteStore):
        return lambda woken, stop: _watch_sqlite(store, woken, stop)
    listen = getattr(store, "listen", None)
    return None if listen is None else listen


def _watch_sqlite(store: SqliteStore, woken: Callable[[], None], stop: threading.Event) -> None:
    last = None
    while not stop.wait(_POLL_INTERVAL):
        try:
            version = store.data_version()
        except StoreError:
            _log.debug("data_version_unreadable")
            continue
        if version != last:
            last = version
            woken()
