"""A thousand slow clients at once: whoever is honest is served as before, and the slow ones lose their connections."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import httpx2
import psutil
import pytest

from tests.processes import Place, wait
from tidegate import Queue
from tools import figures

SLOW, SECONDS = 1000, 60.0
PATHS = ("/", "/targets", "/api/v1/jobs", "/health/ready")
TARGET = "convert-gateway"


@dataclass(frozen=True, slots=True)
class Served:
    """How an honest client fared; times in seconds."""

    times: list[float]
    most_files: int

    @property
    def p50(self) -> float:
        return statistics.median(self.times)

    @property
    def p95(self) -> float:
        return sorted(self.times)[int(len(self.times) * 0.95)]


@contextmanager
def news(place: Place) -> Iterator[None]:
    """Somebody else's program on the same database, which gives the stream something to tell of."""
    ended = threading.Event()

    def tell() -> None:
        with Queue(f"sqlite:///{place.folder / 't.db'}") as queue:
            while not ended.wait(0.5):
                for n in range(24):
                    queue.target(TARGET).pause(f"{60 + n}s", by="somebody")

    thread = threading.Thread(target=tell)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def served(place: Place, seconds: float, files: psutil.Process) -> Served:
    """An honest client that looks at pages, and changes something now and then."""
    times: list[float] = []
    most, end = 0, time.monotonic() + seconds
    with news(place), httpx2.Client(base_url=place.url, timeout=60) as client:
        for n in count():
            if time.monotonic() > end:
                return Served(times, most)
            began = time.monotonic()
            if n % 5 == 4:
                done = client.post(f"/api/v1/targets/{TARGET}/pause", json={"for": 60})
            else:
                done = client.get(PATHS[n % 5])
            times.append(time.monotonic() - began)
            assert done.status_code == 200, done.text
            most = max(most, files.num_fds())
            time.sleep(0.02)
    raise AssertionError


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.timeout(600)
def test_a_thousand_slow_clients_are_cut_and_an_honest_one_is_served_all_the_while(tmp_path: Path) -> None:
    place = Place(tmp_path / "server", "convert", {"least_free": 0.0})
    place.start()
    try:
        wait(place.up, "the server is up")
        process = psutil.Process(place.pid)
        calm = served(place, SECONDS / 3, process)
        before, memory = process.num_fds(), process.memory_info().rss
        command = [sys.executable, "-m", "tests.web.slow_crowd", str(place.port), str(SLOW)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as crowd:
            try:
                wait(lambda: process.num_fds() > before + SLOW * 0.8, "the crowd is there")
                crowded = served(place, SECONDS, process)
                grown = (process.memory_info().rss - memory) / 2**20
                told = json.loads(crowd.communicate("\n", timeout=60)[0])
            finally:
                crowd.kill()
        wait(lambda: len(process.net_connections("tcp")) < 20, "its handles are free again")
    finally:
        place.close()
    lives = {kind: (len(each), max(each, default=0.0), told["oldest"][kind]) for kind, each in told["lives"].items()}
    print(  # noqa: T201
        f"calm n={len(calm.times)} p50={calm.p50:.4f} p95={calm.p95:.4f}; "
        f"crowded n={len(crowded.times)} p50={crowded.p50:.4f} p95={crowded.p95:.4f} worst={max(crowded.times):.3f}; "
        f"handles {before} -> {crowded.most_files}; memory +{grown:.0f} MB; {lives}"
    )
    if figures.asked():
        rows = [
            ("responses within, 50 %", f"{calm.p50 * 1000:.1f} ms", f"{crowded.p50 * 1000:.1f} ms"),
            ("responses within, 95 %", f"{calm.p95 * 1000:.1f} ms", f"{crowded.p95 * 1000:.1f} ms"),
            ("slowest response", f"{max(calm.times):.3f} s", f"{max(crowded.times):.3f} s"),
            ("open handles of the server", before, crowded.most_files),
            ("memory of the server", f"{memory / 2**20:.0f} MB", f"{memory / 2**20 + grown:.0f} MB"),
            *((f"longest connection: {kind}", "", f"{longest:.0f} s") for kind, (_, longest, _) in lives.items()),
        ]
        head = ["an honest client", "alone", f"beside {SLOW:,} slow clients for {SECONDS:.0f} s"]
        figures.write("slow-clients", figures.table(head, rows))
    assert crowded.p95 < 5 * calm.p95 + 2.0  # a machine that others use stands still at times
    assert crowded.most_files <= before + SLOW + 100  # some for more readers of the database
    for kind, (cut, longest, oldest) in lives.items():
        assert cut, f"nobody was cut who {kind}"
        assert max(longest, oldest) < 2 * SECONDS, kind
    assert "connections_cut" in place.log()
    assert "ERROR" not in place.log()
