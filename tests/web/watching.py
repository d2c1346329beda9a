"""One real browser among many who follow: how long a change takes to be seen on an open page.

python -m tests.web.watching 1000       a thousand streams, half of them never read, and a page in Chromium
"""

from __future__ import annotations

import asyncio
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.web.api.building import shop
from tests.web.browsing import browser, visit
from tests.web.crowd import follow, joined, server_in

SHOWN_AT = """(word) => new Promise((done) => {
    const look = () => document.querySelector("main").textContent.includes(word) && done(Date.now() / 1000);
    new MutationObserver(look).observe(document.body, { subtree: true, childList: true, characterData: true });
    setTimeout(() => done(Infinity), 30000);
    look() })"""
_EVERY = 1.3  # seconds between two changes: pages are fetched at most twice a second


@dataclass(frozen=True, slots=True)
class Seen:
    """Seconds from a change that is on disk, sorted: until the page shows it, and until the last reader heard of it."""

    on_the_page: list[float]
    by_the_last_reader: list[float]


@contextmanager
def _crowd(port: int, n: int) -> Iterator[dict[str, list[float]]]:
    """When each change was heard of, by half of *n* clients; the other half never reads."""
    heard: dict[str, list[float]] = {}
    loop = asyncio.new_event_loop()
    ready, over = threading.Event(), asyncio.Event()

    async def main() -> None:
        found = []
        for _ in range(0, n, 50):
            found += await asyncio.gather(*(joined(port, small=k % 2 == 1) for k in range(50)))
        tasks = [asyncio.create_task(follow(reader, heard)) for k, (reader, _) in enumerate(found) if k % 2 == 0]
        ready.set()
        await over.wait()
        for task in tasks:
            task.cancel()
        for _, writer in found:
            writer.transport.abort()

    thread = threading.Thread(target=lambda: loop.run_until_complete(main()), daemon=True)
    thread.start()
    ready.wait(120)
    try:
        yield heard
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(60)
        loop.close()


def watched(n: int, changes: int = 30) -> Seen:
    """What one page and half of *n* clients saw of so many changes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4 * n)), hard))
    shown, late = [], []
    with tempfile.TemporaryDirectory() as folder, shop(Path(folder)) as there:
        there.queue.target("mailer").pause("60s", by="nobody")
        server = server_in(folder)
        try:
            assert server.stdout is not None
            address = server.stdout.readline().strip()
            with browser() as opened, visit(opened, address) as tab, _crowd(int(address.rsplit(":", 1)[1]), n) as heard:
                page = tab.hear("/targets/mailer")
                for change in range(changes):
                    word = f"change-{change}"
                    there.queue.target("mailer").pause("60s", by=word)
                    written = time.time()
                    shown.append(page.evaluate(SHOWN_AT, word) - written)
                    page.wait_for_timeout(_EVERY * 1000)
                    end = time.monotonic() + 30
                    while len(heard.get(word, ())) < n // 2 and time.monotonic() < end:
                        page.wait_for_timeout(100)
                    late += [max(heard[word]) - written] if n else []
        finally:
            server.kill()
            server.communicate()
    return Seen(sorted(shown), sorted(late))


if __name__ == "__main__":
    found = watched(int(sys.argv[1]))
    for what in Seen.__slots__:
        times = getattr(found, what) or [0.0]
        sys.stdout.write(
            f"{what:20} median {times[len(times) // 2]:.2f} s   slowest {times[-1]:.2f} s   n {len(times)}\n"
        )
