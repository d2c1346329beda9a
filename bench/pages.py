"""What a person waits for: pages and answers of a large database over HTTP, with every filter and every pair of them.

A real `tidegate serve` on a free port of this machine, asked by one client that keeps its connection; by the clock on
the wall, and beside it the processor's time of the server, which a busy machine leaves nearly alone. Run by hand:
`python -m bench.pages`; with `sqlite` or `postgresql`, that one alone.
"""

from __future__ import annotations

import http.client
import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

from bench.filling import THREE, Size, fill
from bench.jobs import postgres_url
from tidegate.durations import seconds
from tidegate.store.migrate import core_migrations, migrate
from tidegate.store.open import open_store

MOST_LIST, MOST_OVERVIEW = 0.150, 0.100  # seconds, for 95 of 100
_OVERVIEWS = 100  # times that it is asked for

CHOICES: dict[str, list[str]] = {
    "queue": ["main", "mail", "rare"],
    "state": ["queued", "waiting", "ready", "running", "blocked", "done", "failed", "cancelled"],
    "kind": ["sync", "kind3", "rare"],
    "target": ["target0", "target17", THREE],
    "code": ["upstream_failure", "rare_code", "bad_request"],
    "age": ["1m+", "8h+", "12d+", "1m-", "8h-"],
}


def queries() -> Iterator[tuple[str, dict[str, str]]]:
    """Every filter alone, and every two together."""
    yield "none", {}
    for name, values in CHOICES.items():
        yield from ((name, {name: value}) for value in values)
    for one, two in itertools.combinations(CHOICES, 2):
        for first, second in itertools.product(CHOICES[one], CHOICES[two]):
            yield f"{one} + {two}", {one: first, two: second}


def prepare(url: str, size: Size) -> None:
    """Fills the database, as if all had been put in until now."""
    store = open_store(url, now=time.time)
    migrate(store, core_migrations())
    store.close()
    if url.startswith("sqlite"):
        import apsw

        with closing(apsw.Connection(url.removeprefix("sqlite:///"))) as db, db:
            fill(db, sqlite=True, size=size, now=time.time())
        return
    import psycopg

    with psycopg.connect(url, autocommit=True) as server:
        fill(server, sqlite=False, size=size, now=time.time())
        server.execute("vacuum analyze")


@dataclass(frozen=True, slots=True)
class Client:
    """A connection to a server that runs on this machine."""

    connection: http.client.HTTPConnection
    server: int  # its process

    def worked(self) -> float:
        """Seconds that all threads of the server have had a processor."""
        found = Path(f"/proc/{self.server}/task").glob("*/schedstat")
        return sum(int(each.read_text().split()[0]) for each in found) / 1e9

    def asked(self, path: str) -> Took:
        """What it takes until the whole answer is there."""
        before, start = self.worked(), time.perf_counter()
        self.connection.request("GET", path)
        answer = self.connection.getresponse()
        body = answer.read()
        took = Took(time.perf_counter() - start, self.worked() - before, path)
        if answer.status != 200:
            raise RuntimeError(f"{path} was answered with {answer.status}: {body[:300]!r}")
        return took


@dataclass(frozen=True, slots=True, order=True)
class Took:
    """Seconds of one answer, and of the processor for it."""

    wall: float
    processor: float
    path: str


@contextmanager
def serving(url: str, folder: str) -> Iterator[Client]:
    """A server that only serves: no worker changes the figures meanwhile."""
    command = [
        str(Path(sys.executable).with_name("tidegate")),
        "serve",
        "--no-work",
        "--json",
        "--port",
        "0",
        "--db",
        url,
    ]
    server = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        host, _, port = json.loads(server.stdout.readline())["address"].rpartition("//")[2].rstrip("/").partition(":")
        yield Client(http.client.HTTPConnection(host, int(port), timeout=60), server.pid)
    finally:
        server.terminate()
        server.wait(60)


def measure(client: Client) -> bool:
    """Whether all that was asked for came in time; prints what it took."""
    good = True
    for name, path in (("Overview", "/"), ("Targets", "/targets"), ("API overview", "/api/v1/overview")):
        client.asked(path)
        good &= told(name, [client.asked(path) for _ in range(_OVERVIEWS)], MOST_OVERVIEW)
    for name, path in (("Queue", "/queue"), ("API jobs", "/api/v1/jobs")):
        found: dict[str, list[Took]] = {}
        for what, query in queries():
            where = f"{path}?{urlencode(_for_api(query) if path.startswith('/api') else query)}"
            found.setdefault(what, []).extend(client.asked(where) for _ in range(3))
        for what, times in found.items():
            good &= told(f"{name}: {what}", times, MOST_LIST)
        every = [each for times in found.values() for each in times]
        good &= told(f"{name}: all together", every, MOST_LIST)
        for took in sorted(every, reverse=True)[:5]:
            print(f"      {took.wall * 1000:7.1f} ms  {took.path}")
    return good


def _for_api(query: dict[str, str]) -> dict[str, str]:
    """The API takes an age as two bounds."""
    age = query.get("age", "")
    rest = {name: value for name, value in query.items() if name != "age"}
    return {**rest, **({"older" if age.endswith("+") else "younger": f"{seconds(age[:-1]):g}"} if age else {})}


def told(name: str, times: list[Took], most: float) -> bool:
    wall, processor = sorted(each.wall for each in times), sorted(each.processor for each in times)
    late = min(len(times) - 1, int(len(times) * 0.95))
    mark = "" if wall[late] <= most else "   <-- too slow"
    print(
        f"  {name:24} p50 {wall[len(times) // 2] * 1000:6.1f} ms   p95 {wall[late] * 1000:6.1f} ms"
        f"   processor p95 {processor[late] * 1000:6.1f} ms   n {len(times)}{mark}",
        flush=True,
    )
    return wall[late] <= most


def main() -> int:
    wanted, size, good = sys.argv[1:] or ["sqlite", "postgresql"], Size(), True
    with tempfile.TemporaryDirectory() as folder, postgres_url() as server:
        urls = {"sqlite": f"sqlite:///{Path(folder) / 'jobs.db'}", "postgresql": server}
        for name in wanted:
            url = urls[name]
            if url is None:
                print(f"{name} is not installed here")
                continue
            start = time.perf_counter()
            prepare(url, size)
            print(f"{name}, filled in {time.perf_counter() - start:.0f} s")
            with serving(url, folder) as client:
                good &= measure(client)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
