"""Job bodies and stores, shared by every queue that is measured.

A body appends its number and the time to the file that PEERS_MARKS names, so that work is counted the same way for
every queue and no queue is asked how far it got.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import struct
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

MARK = struct.Struct("<qd")
SLEEP, KILLED_SLEEP = 0.050, 0.020  # seconds

SQLITE = Path(os.environ.get("PEERS_SQLITE", "."))  # a folder
POSTGRES = os.environ.get("PEERS_POSTGRES", "")
REDIS = os.environ.get("PEERS_REDIS", "redis://127.0.0.1:1/0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """Puts jobs in: one by one, and many with one call where the queue can."""

    one: Callable[[str, int], Any]
    many: Callable[[str, list[int]], Any] | None = None


@cache
def _marks() -> int:
    return os.open(os.environ["PEERS_MARKS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)


def mark(number: int) -> None:
    os.write(_marks(), MARK.pack(number, time.time()))


def nothing(i: int) -> None:
    mark(i)


def sleep(i: int) -> None:
    time.sleep(SLEEP)
    mark(i)


def kill(i: int) -> None:
    time.sleep(KILLED_SLEEP)
    mark(i)


async def anothing(i: int) -> None:
    mark(i)


async def asleep(i: int) -> None:
    await asyncio.sleep(SLEEP)
    mark(i)


async def akill(i: int) -> None:
    await asyncio.sleep(KILLED_SLEEP)
    mark(i)


SYNC: dict[str, Callable[[int], None]] = {"nothing": nothing, "sleep": sleep, "kill": kill}
ASYNC: dict[str, Callable[[int], Awaitable[None]]] = {"nothing": anothing, "sleep": asleep, "kill": akill}


def empty_redis() -> None:
    import redis

    with contextlib.closing(redis.Redis.from_url(REDIS)) as server:
        server.flushdb()


def count_rows(sql: str) -> int:
    import psycopg

    with psycopg.connect(POSTGRES, autocommit=True) as connection:
        row = connection.execute(sql.encode()).fetchone()
        assert row is not None
        return int(row[0])
