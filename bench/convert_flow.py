"""Convert as its users have it: upload, gateway and download over HTTP, against a bare loop over the same extraction.

A real server with its own gateway; documents of 20 pages, each another one, 20 in flight. Then many uploads at once,
and how much memory large ones take. Wall-clock time; the loop runs in the same minute.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx2
import psutil

from bench.convert import EACH, IN_FLIGHT, PAGES, in_a_loop, per_second
from bench.job_loops import at_least, within
from bench.row import Row, at_most
from tests.apps.convert import pdfs
from tests.apps.convert.processes import Server

MEGABYTE = 1024 * 1024
UPLOADS, CLIENTS = 200, 20
LARGE = 50 * MEGABYTE - 1000
P95 = 0.3  # seconds, on a machine that does nothing else


def run() -> list[Row]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        return [*flow(folder), *uploads(folder), memory(folder)]


def flow(folder: Path) -> list[Row]:
    """Documents per second of the loop, and of everything from the upload to the download."""
    pdf = pdfs.text(PAGES)
    source = folder / "document.pdf"
    source.write_bytes(pdf)
    loop = whole = 0.0
    with Server(folder) as server, ThreadPoolExecutor(IN_FLIGHT) as pool:
        numbers = iter(range(10_000))

        def convert(_: int) -> None:
            # What stands behind the end of a PDF is not read, and makes it another file.
            job = server.new(pdf + b"\n%% %d" % next(numbers), mapping="layout")
            done = server.ended(job, 300)
            if done["status"] != "complete":
                raise RuntimeError(str(done))
            server.client.get(f"/api/jobs/{job}/download").raise_for_status()

        list(pool.map(convert, range(IN_FLIGHT)))  # children are started once, and then reused
        for _ in range(3):
            loop = max(loop, per_second(lambda: in_a_loop(source)))
            whole = max(whole, per_second(lambda: list(pool.map(convert, range(EACH)))))
    return [
        Row(f"convert, bare loop over {PAGES} pages in one process", f"{loop:,.1f}/s"),
        at_least(f"convert, upload to download with {IN_FLIGHT} in flight", whole, loop, 0.5),
    ]


def uploads(folder: Path) -> list[Row]:
    """How long the answer to an upload takes while others upload, too; and whether each is there afterwards."""
    with serving(folder / "uploads") as server, ThreadPoolExecutor(CLIENTS) as pool:

        def upload(n: int) -> tuple[float, str]:
            content = b"%%PDF-1.7\n%d\n" % n + b"x" * MEGABYTE
            start = time.perf_counter()
            answer = server.upload(content)
            took = time.perf_counter() - start
            answer.raise_for_status()
            return took, str(answer.json()["id"])

        list(pool.map(upload, range(10_000, 10_000 + CLIENTS)))  # connections and threads are there by then
        found = list(pool.map(upload, range(UPLOADS)))
        kept = {job for _, job in found if server.get(job)["bytes"] > MEGABYTE}
    times = sorted(took for took, _ in found)
    what = f"convert, {UPLOADS} uploads of 1 MB from {CLIENTS} clients"
    return [
        Row(f"{what}, lost", str(UPLOADS - len(kept)), "0", len(kept) == UPLOADS),
        Row(f"{what}, p50", f"{times[len(times) // 2] * 1000:.1f} ms"),
        within(f"{what}, p95", times[int(len(times) * 0.95)], P95),
    ]


def memory(folder: Path) -> Row:
    """By how much the server grows while so many large files come in at once."""
    with serving(folder / "memory") as server:
        list(_in_parallel(server, 4, MEGABYTE))  # what any upload needs is there by then
        process = psutil.Process(server.process.pid)
        before = process.memory_info().rss
        peak, over = before, threading.Event()

        def watch() -> None:
            nonlocal peak
            while not over.wait(0.02):
                peak = max(peak, process.memory_info().rss)

        watching = threading.Thread(target=watch)
        watching.start()
        answers = list(_in_parallel(server, CLIENTS, LARGE))
        over.set()
        watching.join()
    if answers != [202] * CLIENTS:
        raise RuntimeError(str(answers))
    grown = (peak - before) / MEGABYTE
    return at_most(f"convert, the server grows by, {CLIENTS} uploads of 50 MB at once", grown, 64, " MB")


def _in_parallel(server: Server, n: int, size: int) -> Iterator[int]:
    head = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.pdf"\r\n\r\n%PDF-'
    piece = b"x" * 65536

    def body(number: int) -> Iterator[bytes]:
        yield head + b"%d %d\n" % (number, size)
        for _ in range(size // len(piece)):
            yield piece
        yield b"\r\n--b--\r\n"

    def send(number: int) -> int:
        with httpx2.Client(base_url=server.url, timeout=300) as client:
            kind = {"Content-Type": "multipart/form-data; boundary=b"}
            return client.post("/api/upload", content=body(number), headers=kind).status_code

    with ThreadPoolExecutor(n) as pool:
        yield from pool.map(send, range(n))


@contextmanager
def serving(folder: Path) -> Iterator[Server]:
    """A server that only takes in: what it costs to convert is not of interest here."""
    folder.mkdir()
    with Server(folder, "--no-work") as server:
        yield server


if __name__ == "__main__":
    from bench.row import table

    print(table(run()))
