"""Every page that there is, for those who look at all of them: tests in a browser, and pictures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi import Request, Response

from tests.apps.music.shown import PAGES as MUSIC_PAGES
from tests.apps.music.shown import music_site
from tests.web.seeding import END
from tests.web.serving import running
from tidegate import Queue
from tidegate.accounts import users
from tidegate.apps import App, Installed, install
from tidegate.apps import Page as AppPage
from tidegate.clock import VirtualClock
from tidegate.jobs import listing
from tidegate.jobs.listing import Filter
from tidegate.store.base import Tx
from tidegate.web.site import Site

PAGES = {
    "overview": "/",
    "targets": "/targets",
    "targets-filtered": "/targets?state=action",
    "target-needs-you": "/targets/spotify",
    "target-open": "/targets/lidarr",
    "target-half-open": "/targets/gateway",
    "target-paused": "/targets/tautulli",
    "target-silent": "/targets/weather",
    "queue": "/queue",
    "queue-failed": "/queue?state=failed&queue=convert",
    "queue-none-match": "/queue?kind=history&state=failed",
    "queue-of-a-name": "/queue/lidarr?span=3h",
    "failures": "/failures",
    "failures-none": "/failures?bucket=over",
    "bulk": "/bulk?action=retry&state=failed",
    "bulk-actions": "/actions",
    "activity": "/activity",
    "charts": "/charts",
    "activity-none-match": "/activity?actor=nobody",
    "forget": "/jobs/5/forget",
    "workers": "/workers",
    "notices": "/notices",
    "channels": "/channels",
    "people": "/people",
    "person": "/people/otto",
    "person-remove": "/people/otto/remove",
    "token-remove": "/tokens/watcher/remove",
    "settings": "/settings",
    "help": "/help",
    "help-code": "/help/errors/rate_limited",
    "find-nothing": "/find?what=nobody",
    "not-found": "/targets/nobody",
    "no-such-page": "/nowhere",
    "broken": "/broken",
}
JOBS = {
    "job-done": Filter(state="done", kind="convert pdf"),
    "job-failed": Filter(state="failed", code="unexpected"),
    "job-running": Filter(state="running"),
    "job-held": Filter(state="ready", target="lidarr"),
    "job-waiting": Filter(state="queued", target="last.fm", code="upstream_failure"),
    "job-blocked": Filter(state="blocked"),
}
FOR_VIEWERS = {"not-allowed": "/settings", "viewer-target": "/targets/spotify"}
FOR_STRANGERS = {"sign-in": "/sign-in"}
EMPTY = {
    "empty-overview": "/",
    "empty-targets": "/targets",
    "empty-queue": "/queue",
    "empty-failures": "/failures",
    "empty-workers": "/workers",
    "empty-notices": "/notices",
    "empty-people": "/people",
    "empty-settings": "/settings",
}
AWAY = {"store-away": "/queue"}


@dataclass(frozen=True)
class Group:
    """Pages of one server as one reader sees them; *session* is the secret that signs in, if any."""

    base: str
    pages: dict[str, str]
    session: str = ""


def config() -> list[dict[str, object]]:
    """Settings as a server would show them."""
    return [
        {"key": "db", "value": "sqlite:///tidegate.db", "origin": "tidegate.toml"},
        {"key": "server.host", "value": "127.0.0.1", "origin": "default"},
        {"key": "server.port", "value": 8321, "origin": "environment TIDEGATE_SERVER__PORT"},
        {"key": "worker.concurrency", "value": 20, "origin": "default"},
        {"key": "lidarr.api_key", "value": "********", "origin": "env:LIDARR_API_KEY"},
        {"key": "lidarr.queue_max", "value": 50, "origin": "default"},
    ]


def _breaks(request: Request, there: Installed[Any]) -> Response:
    raise RuntimeError("nobody is told what this says")


BREAKING: App[Any] = App(name="breaking", pages=[AppPage(path="/broken", show=_breaks)])


def people(tx: Tx) -> dict[str, str]:
    """Adds three people and two tokens; returns the secret of a session of each."""
    for name, role in (("ada", "admin"), ("otto", "operator"), ("vera", "viewer")):
        users.add_user(tx, name, role, "no password fits this")
    users.add_token(tx, "backup", "viewer", "ada")
    users.add_token(tx, "watcher", "poller", "otto", "30d")
    return {name: users.begin_session(tx, name) for name in ("ada", "otto", "vera")}


def a_job(q: Queue, wanted: Filter) -> str:
    """The path of the newest job that matches."""
    found = q.store.read(lambda tx: listing.jobs(tx, wanted, limit=1))
    return f"/jobs/{found.items[0].id}"


@contextmanager
def every_page(q: Queue, folder: Path) -> Iterator[list[Group]]:
    """Servers with all pages: one with the past of *q* and three people, a new one, and one without its database."""
    sessions = q.store.write(people)
    jobs = {name: a_job(q, wanted) for name, wanted in JOBS.items()}
    away = Queue(f"sqlite:///{folder / 'away.db'}", clock=VirtualClock(END))
    away.close()
    with (
        Queue(f"sqlite:///{folder / 'new.db'}", clock=VirtualClock(END)) as fresh,
        running(Site(queue=q, config=config, apps=[install(BREAKING, q)])) as full,
        running(Site(queue=fresh)) as empty,
        running(Site(queue=away)) as broken,
        music_site(folder, END) as site,
        running(site) as music,
    ):
        yield [
            Group(full, PAGES | jobs, sessions["ada"]),
            Group(full, FOR_VIEWERS, sessions["vera"]),
            Group(full, FOR_STRANGERS),
            Group(empty, EMPTY),
            Group(broken, AWAY),
            Group(music, MUSIC_PAGES),
        ]
