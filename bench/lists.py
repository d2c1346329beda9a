"""What a person sees of a large database: the overview, and lists with every filter and every pair of them.

The queries alone, by the clock on the wall; a page adds its drawing. Run by hand: `python -m bench.lists`.
"""

from __future__ import annotations

import itertools
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.filling import NOW, THREE, Size, fill
from bench.jobs import postgres_url
from tidegate.admin.overview import overview
from tidegate.jobs import listing
from tidegate.jobs.listing import Filter
from tidegate.store.base import Store, Tx
from tidegate.store.migrate import core_migrations, migrate
from tidegate.store.open import open_store

MOST_LIST, MOST_OVERVIEW = 0.080, 0.040  # seconds, for 95 of 100

CHOICES: dict[str, list[Any]] = {
    "queue": ["main", "mail", "rare"],
    "state": ["queued", "waiting", "ready", "running", "blocked", "done", "failed", "cancelled"],
    "kind": ["sync", "kind3", "rare"],
    "target": ["target0", "target17", THREE],
    "code": ["upstream_failure", "rare_code", "bad_request"],
    "older": [60.0, 30_000.0, 1_000_000.0],
    "younger": [60.0, 30_000.0],
}


def filters() -> Iterator[tuple[str, Filter]]:
    """Every filter alone, and every two together."""
    yield "none", Filter()
    for name, values in CHOICES.items():
        for value in values:
            yield name, Filter(**{name: value})
    for one, two in itertools.combinations(CHOICES, 2):
        for first, second in itertools.product(CHOICES[one], CHOICES[two]):
            yield f"{one} + {two}", Filter(**{one: first, two: second})


@contextmanager
def large(url: str, size: Size) -> Iterator[Store]:
    """A store that has been filled."""
    store = open_store(url, now=lambda: NOW, virtual=True)
    migrate(store, core_migrations())
    if url.startswith("sqlite"):
        import apsw

        with_apsw = apsw.Connection(url.removeprefix("sqlite:///"))
        with_apsw.execute("begin")
        fill(with_apsw, sqlite=True, size=size)
        with_apsw.execute("commit")
        with_apsw.close()
    else:
        import psycopg

        with psycopg.connect(url, autocommit=True) as server:
            fill(server, sqlite=False, size=size)
            server.execute("vacuum analyze")
    try:
        yield store
    finally:
        store.close()


CLOCK = time.perf_counter


def timed(store: Store, work: Callable[[Tx], Any]) -> tuple[float, Any]:
    start = CLOCK()
    result = store.read(work)
    return CLOCK() - start, result


def measure(store: Store, pages: int) -> dict[str, list[float]]:
    """Seconds of first and later pages, and of counts, by what is filtered."""
    found: dict[str, list[float]] = {}
    dice = random.Random(1)
    slowest: list[tuple[float, str, Filter]] = []
    for name, wanted in filters():
        times = found.setdefault(name, [])
        cursor: str | None = None
        for _ in range(pages):
            took, page = timed(store, lambda tx, w=wanted, c=cursor: listing.jobs(tx, w, cursor=c))  # type: ignore[misc]
            times.append(took)
            slowest.append((took, "page", wanted))
            cursor = page.next
            if cursor is None:
                break
        # A page far down: somewhere in the list.
        deep = f"j{dice.randrange(1, Size().jobs):x}"
        took, _ = timed(store, lambda tx, w=wanted, c=deep: listing.jobs(tx, w, cursor=c))  # type: ignore[misc]
        times.append(took)
        slowest.append((took, "deep", wanted))
        took, _ = timed(store, lambda tx, w=wanted: listing.count(tx, w))  # type: ignore[misc]
        found.setdefault(f"count: {name}", []).append(took)
        slowest.append((took, "count", wanted))
    for took, what, wanted in sorted(slowest, key=lambda each: -each[0])[:12]:
        print(f"    {took * 1000:7.1f} ms  {what:5} {wanted.as_json()}")
    found["overview"] = [timed(store, overview)[0] for _ in range(20)]
    found["targets"] = [timed(store, listing.targets)[0] for _ in range(20)]
    found["kinds, codes"] = [timed(store, lambda tx: (listing.kinds(tx), listing.codes(tx)))[0] for _ in range(20)]
    return found


def report(title: str, found: dict[str, list[float]]) -> bool:
    print(title)
    good = True
    for name, times in found.items():
        ordered = sorted(times)
        p50, p95 = ordered[len(ordered) // 2], ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]
        most = MOST_OVERVIEW if name == "overview" else MOST_LIST
        good &= p95 <= most
        mark = "" if p95 <= most else "   <-- too slow"
        print(f"  {name:28} p50 {p50 * 1000:7.1f} ms   p95 {p95 * 1000:7.1f} ms   n {len(times)}{mark}")
    return good


def main() -> int:
    size = Size()
    good = True
    with tempfile.TemporaryDirectory() as folder:
        urls = [f"sqlite:///{Path(folder) / 'jobs.db'}"]
        with postgres_url() as server:
            for url in [*urls, *([] if server is None else [server])]:
                start = time.perf_counter()
                with large(url, size) as store:
                    print(f"filled in {time.perf_counter() - start:.0f} s")
                    good &= report(url.partition(":")[0], measure(store, pages=3))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
