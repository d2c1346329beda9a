"""The page as a person sees it through an outage: charts, stored data with its age, and the recovery."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from tests.apps.tautulli.building import Desk
from tests.web.serving import running
from tidegate.web.site import Site

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NO_BROWSER = "NO BROWSER, so no page was tested: run `make browser`, or say in CHROMIUM where one is"


@pytest.fixture(scope="module")
def opened() -> Iterator[Browser]:
    from tests.web.browsing import browser, chromium

    if chromium() is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(NO_BROWSER)
    with browser() as found:
        yield found


@pytest.mark.req("BRK-10")
@pytest.mark.parametrize(
    ("script", "scheme", "width"), [(True, "dark", 1280), pytest.param(False, "light", 320, marks=pytest.mark.full)]
)
def test_an_outage_is_seen_on_the_page_and_ends_by_itself(
    opened: Browser, quick: Desk, script: bool, scheme: str, width: int
) -> None:
    from playwright.sync_api import expect

    from tests.web.browsing import visit

    def outage() -> None:
        quick.sim.outage("1h down")
        for _ in range(6):
            quick.clock.advance(20)
            quick.run()

    def recovery() -> None:
        quick.sim.outage(None)
        quick.clock.advance(120)
        quick.run()

    with (
        ThreadPoolExecutor(1) as beside,  # the browser's loop runs in this thread
        running(Site(queue=quick.queue, apps=(quick.there,))) as base,
        visit(opened, base, script=script, scheme=scheme, width=width) as visitor,
    ):
        page = visitor.go("/tautulli")
        expect(page.locator(".empty[data-outcome=none]")).to_be_visible()
        page.locator("form[action='/tautulli/sync'] button").click()
        expect(page.locator("#said .said.good")).to_be_visible()
        beside.submit(quick.queue.drain).result()

        page = visitor.go("/tautulli")
        expect(page.locator("section", has=page.locator("#by-day")).get_by_role("img", name="600")).to_be_visible()
        expect(page.get_by_role("heading", name="Top users")).to_be_visible()
        expect(page.locator("#freshness")).to_have_count(0)
        assert page.evaluate("document.documentElement.scrollWidth") <= width

        beside.submit(outage).result()
        page = visitor.go("/tautulli?range=7d")
        expect(page.locator("#freshness")).to_contain_text("Showing data from")
        expect(page.locator("#freshness")).to_contain_text("Next trial at")
        expect(page.get_by_role("img", name="Plays per day:")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= width

        beside.submit(recovery).result()
        page = visitor.go("/tautulli?range=all")
        expect(page.locator("#freshness")).to_have_count(0)
        expect(page.get_by_role("heading", name="Plays per day")).to_be_visible()
        assert visitor.complaints == []
