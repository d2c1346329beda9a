"""The line that an application puts above every page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from queue import Queue as Queued
from typing import Annotated, Any

import pytest
from fastapi import APIRouter, Depends, Response
from starlette.testclient import TestClient

from tests.web.local import LocalClient
from tidegate import Queue, outbox
from tidegate.admin import overview
from tidegate.apps import App, Page, StatusStrip, install
from tidegate.events import Notice, NoticeKind
from tidegate.web import PUBLIC, owner_session, requires
from tidegate.web.app import build
from tidegate.web.live.watcher import Snapshot, StoreWatcher, changes, take_snapshot
from tidegate.web.site import LivePolicy, Site

HERE = "http://127.0.0.1"
SAID = StatusStrip(mark="Simulated", title="<b>Step 1</b>", text="Look & see.", links=[("/targets", "Targets")])


def site(q: Queue, strip: Callable[[Any], StatusStrip | None] | None) -> Site:
    return Site(queue=q, apps=[install(App[Any](name="demo", strip=strip), q)])


def client(found: Site) -> TestClient:
    return LocalClient(build(found), client=("127.0.0.1", 50000), base_url=HERE, headers={"origin": HERE})


@pytest.mark.parametrize("path", ["/", "/queue", "/notices", "/help", "/nowhere", "/targets/nobody"])
def test_a_strip_stands_above_every_page_and_its_mark_before_every_title(q: Queue, path: str) -> None:
    text = client(site(q, lambda _: SAID)).get(path).text

    assert '<aside class="strip busy" aria-label="Simulated">' in text
    assert "&lt;b&gt;Step 1&lt;/b&gt;" in text
    assert "Look &amp; see." in text
    assert '<a href="/targets">Targets</a></p>' in text
    assert "<title>Simulated: " in text


def test_without_a_strip_pages_are_as_they_were(q: Queue) -> None:
    plain, quiet = client(Site(queue=q)).get("/help").text, client(site(q, lambda _: None)).get("/help").text

    assert "<aside" not in plain
    assert "<aside" not in quiet
    assert "<title>Help" in quiet


def test_another_strip_is_news_for_open_pages(q: Queue) -> None:
    seen = q.store.read(lambda tx: take_snapshot(tx, 0))
    seen = replace(seen, events=(), overview=q.store.read(overview.overview))
    other = replace(seen, strips=(SAID,))

    assert [kind for kind, _, _ in changes(seen, seen)] == []
    assert [kind for kind, _, _ in changes(seen, other)] == ["now"]


def test_those_who_follow_are_told_of_the_strip_that_there_is(q: Queue) -> None:
    found: Queued[Snapshot | None] = Queued()
    looking = StoreWatcher(site(q, lambda _: SAID), LivePolicy(), None, found.put)
    looking.start()
    try:
        seen = found.get(timeout=60)
    finally:
        looking.stop()

    assert seen is not None
    assert seen.strips == (SAID,)


def test_visitors_are_one_owner_where_the_site_says_so_and_else_each_browser_is_one(q: Queue) -> None:
    def routes(_: Any) -> APIRouter:
        router = APIRouter()

        @router.get("/whose")
        @requires(PUBLIC)
        def whose(owner: Annotated[str, Depends(owner_session)]) -> str:
            return owner

        return router

    apps = [install(App[Any](name="whose", routes=routes), q)]
    apart, together = Site(queue=q, apps=apps), Site(queue=q, apps=apps, visitor="everybody")

    assert client(apart).get("/whose").json() != client(apart).get("/whose").json()
    assert client(together).get("/whose").json() == client(together).get("/whose").json() == "visitor:everybody"


def test_what_a_target_of_an_application_needs_is_done_on_the_page_of_the_application(q: Queue) -> None:
    page = Page[Any](path="/albums", title="Albums", show=lambda request, there: Response())
    albums = install(App[Any](name="albums", targets=["spotify"], pages=[page]), q)

    with_it, without = client(Site(queue=q, apps=[albums])).get("/").text, client(Site(queue=q)).get("/").text
    its_page = client(Site(queue=q, apps=[albums])).get("/targets/spotify").text
    called = install(App[Any](name="spotify", pages=[page]), q)  # as the target that it calls

    assert 'href="/targets/spotify">Open spotify' in without
    assert 'href="/albums">Open Albums' in with_it
    assert "Open spotify" not in with_it
    assert 'class="button primary" href="/albums">Open Albums' in its_page
    assert 'href="/albums">Open Albums' in client(Site(queue=q, apps=[called])).get("/targets/spotify").text


@pytest.mark.parametrize(
    ("page", "key", "path"),
    [
        ("/albums/{id}", "7", "/albums/7"),
        ("/albums/{id}", "unclassified", "/albums"),
        ("/albums/{key}", "7", "/albums/7"),
        ("/albums/{key}", "host a.example/x", "/albums/host%20a.example%2Fx"),
        ("/albums/{key}", "", "/albums"),
    ],
)
def test_what_an_application_asks_of_people_about_one_key_leads_to_the_page_of_that_key(
    q: Queue, page: str, key: str, path: str
) -> None:
    notice = Notice(
        kind=NoticeKind.FATAL, target="albums", key=key, episode=1.0, title="An album is odd", message="Look at it."
    )
    q.store.write(lambda tx: outbox.record_target_notice(tx, outbox.of_target(notice, key, None)))
    pages = [
        Page[Any](path=path, title=title, show=lambda request, there: Response())
        for path, title in (("/albums", "Albums"), (page, ""))
    ]
    site = Site(queue=q, apps=[install(App[Any](name="albums", pages=pages), q)])

    assert f'href="{path}">Open Albums' in client(site).get("/").text
    assert f'href="{path}">Open Albums' in client(site).get("/notices").text
