"""Pictures of every page, light and dark, narrow and wide, with and without data: `make screenshots`."""

from __future__ import annotations

import logging
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, FloatRect

from tests.web.browsing import browser, visit
from tests.web.seeding import END, seeded
from tests.web.serving import running
from tidegate import Queue
from tidegate.ops import listing
from tidegate.ops.listing import Filter
from tidegate.runtime.clock import VirtualClock
from tidegate.web.site import Site

# The notices beside a page were seen before, and the chip has its word: the same picture every time.
SEEN = "sessionStorage.setItem('tidegate.toasts', JSON.stringify([...Array(300).keys()]))"
ALIVE = "() => !document.getElementById('live')?.hidden"

PAGES = {
    "overview": "/",
    "targets": "/targets",
    "target-needs-you": "/targets/spotify",
    "target-open": "/targets/lidarr",
    "target-half-open": "/targets/gateway",
    "target-paused": "/targets/tautulli",
    "queue": "/queue",
    "queue-failed": "/queue?state=failed&queue=convert",
    "queue-none-match": "/queue?kind=history&state=failed",
    "queue-of-a-name": "/queue/lidarr",
    "bulk": "/bulk?action=retry&state=failed",
    "forget": "/jobs/5/forget",
    "workers": "/workers",
    "notices": "/notices",
    "settings": "/settings",
    "help": "/help",
    "help-code": "/help/errors/rate_limited",
    "not-found": "/targets/nobody",
}
JOBS = {
    "job-done": Filter(state="done", kind="convert pdf"),
    "job-failed": Filter(state="failed", code="unexpected"),
    "job-running": Filter(state="running"),
    "job-held": Filter(state="ready", target="lidarr"),
    "job-waiting": Filter(state="queued", target="last.fm", code="upstream_failure"),
    "job-blocked": Filter(state="blocked"),
}
AWAY = {"store-away": "/queue"}
EMPTY = {"empty-overview": "/", "empty-targets": "/targets", "empty-queue": "/queue", "empty-workers": "/workers",
         "empty-notices": "/notices"}  # fmt: skip
WIDTHS = (360, 1280)
SCHEMES = ("light", "dark")
MOST_HEIGHT = 1800  # of a picture


def config() -> list[dict[str, object]]:
    """Settings as a server would show them."""
    return [
        {"key": "database", "value": "sqlite:///tidegate.db", "origin": "tidegate.toml"},
        {"key": "server.host", "value": "127.0.0.1", "origin": "default"},
        {"key": "server.port", "value": 8321, "origin": "environment TIDEGATE_SERVER__PORT"},
        {"key": "worker.concurrency", "value": 20, "origin": "default"},
        {"key": "lidarr.api_key", "value": "********", "origin": "env:LIDARR_API_KEY"},
        {"key": "lidarr.queue_max", "value": 50, "origin": "default"},
    ]


@contextmanager
def sites(folder: Path) -> Iterator[tuple[Site, Site]]:
    """A server with a past, and one that was just started."""
    (folder / "empty").mkdir()
    with seeded(folder) as q, Queue(f"sqlite:///{folder / 'empty' / 'new.db'}", clock=VirtualClock(END)) as fresh:
        yield Site(queue=q, config=config), Site(queue=fresh)


def taken(opened: Browser, base: str, pages: dict[str, str], into: Path) -> int:
    """So many pictures were taken."""
    n = 0
    for scheme in SCHEMES:
        for width in WIDTHS:
            with visit(opened, base, scheme=scheme, width=width) as tab:
                tab.page.add_init_script(SEEN)
                for name, path in pages.items():
                    page = tab.go(path)
                    page.wait_for_function(ALIVE)
                    height = min(MOST_HEIGHT, int(page.evaluate("document.documentElement.scrollHeight")))
                    picture: FloatRect = {"x": 0, "y": 0, "width": width, "height": height}
                    path_of = into / f"{name}-{scheme}-{width}.png"
                    page.screenshot(path=path_of, full_page=True, clip=picture)
                    n += 1
                for complaint in tab.complaints:
                    print(complaint, file=sys.stderr)
    return n


def a_job(q: Queue, wanted: Filter) -> str:
    """The path of the newest job that matches."""
    found = q.store.read(lambda tx: listing.jobs(tx, wanted, most=1))
    return f"/jobs/{found.items[0].id}"


def main() -> int:
    logging.disable(logging.CRITICAL)
    into = Path("build/screenshots")
    into.mkdir(parents=True, exist_ok=True)
    named = set(sys.argv[1:])
    with tempfile.TemporaryDirectory() as folder, sites(Path(folder)) as (full, empty), browser() as opened:
        jobs = {name: a_job(full.queue, wanted) for name, wanted in JOBS.items()}
        n = 0
        away = Queue(f"sqlite:///{folder}/away.db", clock=VirtualClock(END))
        away.close()
        for site, pages in ((full, PAGES | jobs), (empty, EMPTY), (Site(queue=away), AWAY)):
            chosen = {name: path for name, path in pages.items() if not named or name in named}
            with running(site) as base:
                n += taken(opened, base, chosen, into)
    print(f"{n} pictures are in {into}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
