"""Orders that are invoiced and mailed, once each, however often the workers die.

    python examples/jobs.py sqlite:///orders.db put 200     # put work in; doing it again changes nothing
    python examples/jobs.py sqlite:///orders.db work        # a worker, until Ctrl-C; start as many as you like
    python examples/jobs.py sqlite:///orders.db report      # what has become of it

With postgresql://user@host/database instead of the file, the workers may be on many hosts. Kill one with -9 in the
middle: another takes its jobs over when their leases end, and the report is the same.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections import Counter
from dataclasses import dataclass

from tidegate import Backoff, Context, Job, Queue
from tidegate.errors import NotFound

queue = Queue(sys.argv[1] if len(sys.argv) > 1 else "sqlite:///orders.db")


@dataclass
class Order:
    number: int
    pieces: int


def once(order: Order) -> int:
    return order.number


ALWAYS = {"queued", "running", "done", "failed"}


@queue.job(queue="orders", unique=once, while_=ALWAYS, backoff=Backoff("100ms", cap="1s"))
async def invoice(order: Order) -> int:
    """The price in cents. The service behind it is slow, and fails now and then."""
    await asyncio.sleep(random.uniform(0.01, 0.05))
    if random.random() < 0.1:
        raise ConnectionError("the tax office does not answer")
    return order.pieces * 1999


@queue.job(queue="orders", unique=once, while_=ALWAYS)
async def mail(job: Context, order: Order) -> str:
    """Goes out when the invoice is there, with what that came to."""
    (price,) = job.parent_results.values()
    await asyncio.sleep(random.uniform(0.01, 0.05))
    return f"order {order.number}: {price / 100:.2f}"


def put(orders: int) -> None:
    for number in range(orders):
        order = Order(number, pieces=1 + number % 7)
        mail.options(after=[invoice.enqueue(order)]).enqueue(order)
    print(f"{orders} orders are in")


def report(orders: int) -> None:
    """Reads the jobs one by one; the numbers of a job are those of its row."""
    jobs = [found for number in range(1, 2 * orders + 1) if (found := _job(number)) is not None]
    states = Counter(job.state.value for job in jobs)
    total = sum(int(job.result) for job in jobs if job.kind == "orders.invoice" and job.result)
    mails = len({job.result for job in jobs if job.kind == "orders.mail" and job.result})
    print(f"{dict(states)}, {mails} mails, {total / 100:.2f} in all")


def _job(number: int) -> Job | None:
    try:
        return queue.get(number)
    except NotFound:
        return None


if __name__ == "__main__":
    match sys.argv[2:]:
        case ["put", n]:
            put(int(n))
        case ["work", *lease]:
            seconds = float(lease[0]) if lease else 30.0
            print(queue.run_worker(concurrency=10, lease=seconds, renew_every=seconds / 4, margin=seconds / 6))
        case ["report", *n]:
            report(int(n[0]) if n else 200)
        case _:
            sys.exit(__doc__)
