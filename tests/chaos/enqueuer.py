"""The process that puts jobs in: python -m tests.chaos.enqueuer. It is killed as often as the workers.

A job's number and id are written down once the database has said yes. What it did not answer to is put in again, and
is the same job.
"""

from __future__ import annotations

import logging
import os
import random
import time
from typing import Any

import apsw
import psycopg

from tests.acceptance.checker import rows
from tests.chaos.program import Effect, awaits, blocks, gives, hoards, joins, kills, orders, sweeps
from tidegate.errors import StoreError
from tidegate.jobs.function import Enqueued

_BATCH = 40
_POISON = 501  # of each 2,000 numbers: the job that kills its worker
_HUNGRY = 77  # of each 800: the job whose child process runs out of memory
_CHILD = 33  # of each 100: a job that needs two others
_ALONE = 3  # of these, put in one by one: on PostgreSQL such jobs travel together
_OPEN = "select count(*) from tg_job where state not in ('done', 'failed', 'cancelled')"
_EVERY = 5.0  # seconds between two sweeps
_log = logging.getLogger("tidegate.chaos")


def effect(n: int) -> Effect:
    """Drawn from its own number: a batch that is put in twice is the same batch."""
    dice = random.Random(n)
    lasts = 1 + 3 * dice.random() if dice.random() < orders.slow else 0.06 * dice.random()
    return Effect(n, lasts=lasts, stumbles=dice.random() < 0.05)


def main() -> None:
    logging.basicConfig(level=logging.WARNING)
    file = os.open(orders.acknowledged, os.O_WRONLY | os.O_APPEND)
    known = orders.acknowledged.read_text().split("\n")[:-1]
    n = max((int(line.split()[0]) for line in known), default=-1) + 1
    n = max(0, n - 2 * _BATCH)  # what an earlier one may not have heard of
    swept = 0.0
    while True:
        if orders.hold.exists():
            orders.held.touch()
            time.sleep(0.05)
            continue
        try:
            enough = orders.enough.exists()
            if time.monotonic() - swept > (0.5 if enough else _EVERY):
                sweeps.enqueue(0)
                swept = time.monotonic()
            while not enough and time.monotonic() - swept <= _EVERY and rows(orders.url, _OPEN)[0][0] < orders.backlog:
                os.write(file, "".join(f"{each} {job}\n" for each, job in _put(n)).encode())
                n += _BATCH
                enough = orders.enough.exists() or orders.hold.exists()
        except (StoreError, psycopg.Error, apsw.Error, OSError) as error:  # also if no file at all may grow
            _log.warning("not_put error=%r", error)
        time.sleep(0.2)


def _put(n: int) -> list[tuple[int, int]]:
    batch = [effect(each) for each in range(n, n + _BATCH)]
    poison = [each for each in batch if each.n % 2000 == _POISON]
    hungry = [each for each in batch if each.n % 800 == _HUNGRY]
    children = [each for each in batch if each.n % 100 == _CHILD]
    even, odd = (
        [each for each in batch if each.n % 2 == i and each not in (*poison, *hungry, *children)] for i in (0, 1)
    )
    together: list[tuple[Effect, Enqueued[Any]]] = [(each, kills.enqueue(each)) for each in poison]
    together += [(each, hoards.enqueue(each)) for each in hungry]
    together += [(each, joins.options(after=_parents(each.n)).enqueue(each)) for each in children]
    together += [*zip(even, awaits.enqueue_many([(each,) for each in even]), strict=True)]
    together += zip(odd[_ALONE:], blocks.enqueue_many([(each,) for each in odd[_ALONE:]]), strict=True)
    together += [(each, blocks.enqueue(each)) for each in odd[:_ALONE]]
    return [(each.n, job.id) for each, job in together]


def _parents(n: int) -> list[Enqueued[Any]]:
    """One that ends at once, and may be removed while the other one still runs."""
    return [gives.enqueue(Effect(n)), gives.enqueue(Effect(n, lasts=2.0))]


if __name__ == "__main__":
    main()
