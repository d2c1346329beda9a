"""A migrator to be killed. Imported by a server that makes a process in a few milliseconds."""

from __future__ import annotations

import time
from multiprocessing.connection import Connection

from tidegate.store import postgres  # noqa: F401 - so that the children need not load it
from tidegate.store.migrate import Migration, migrate
from tidegate.store.open import open_store

TABLES = 12
STEPS = [
    Migration(
        "app",
        n,
        f"s{n}",
        "".join(
            f"create table app_{n}_{k} (a integer, b text);\ncreate index app_{n}_{k}_i on app_{n}_{k} (a);\n"
            for k in range(TABLES)
        ),
    )
    for n in range(1, 40)
]


def main(url: str, ready: Connection) -> None:
    store = open_store(url, now=time.time)
    ready.send("go")
    migrate(store, STEPS)
