"""The page as a person uses it: a feed's address goes in, its items come out, and what goes wrong is said."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.apps.feeds.test_over_http import Round
from tests.web.serving import running
from tidegate.web.site import Site
from tidegate_demo.simulators.feeds import FeedSimulator

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

NO_BROWSER = "NO BROWSER, so no page was tested: run `make browser`, or say in CHROMIUM where one is"


@pytest.fixture(scope="module")
def opened() -> Iterator[Browser]:
    from tests.web.browsing import browser, chromium

    if chromium() is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(NO_BROWSER)
    with browser() as found:
        yield found


def wide(page: Page) -> int:
    found: int = page.evaluate("document.documentElement.scrollWidth")
    return found


@pytest.mark.parametrize(
    ("script", "scheme", "width"), [(True, "dark", 1280), pytest.param(False, "light", 320, marks=pytest.mark.full)]
)
def test_a_feed_is_added_read_broken_and_well_again(
    opened: Browser, tmp_path: Path, script: bool, scheme: str, width: int
) -> None:
    from concurrent.futures import ThreadPoolExecutor

    from playwright.sync_api import expect

    from tests.web.browsing import visit

    with FeedSimulator(items=3) as sim, ThreadPoolExecutor(1) as beside:
        at = Round(tmp_path, sim)

        def poll() -> None:
            beside.submit(at.poll).result()  # the browser's loop runs in this thread

        with (
            running(Site(queue=at.queue, apps=(at.there,))) as base,
            visit(opened, base, script=script, scheme=scheme, width=width) as visitor,
        ):
            page = visitor.go("/feeds")
            expect(page.get_by_role("heading", name="No feed yet")).to_be_visible()
            page.locator("#feed_url").fill(sim.feed(1))
            page.locator("form[action='/feeds/add'] button").click()
            expect(page.locator("#said .said.good")).to_be_visible()
            poll()
            page.reload()
            expect(page.get_by_role("link", name="Entry 3 of feed 1")).to_be_visible()
            page.goto(f"{base}/feeds")
            expect(page.locator("[data-why=interval]")).to_be_visible()
            assert wide(page) <= width

            sim.now(1, "gone")
            page.locator("form[action$='/poll'] button").click()
            expect(page.locator("#said .said.good")).to_be_visible()
            poll()
            page.goto(f"{base}/feeds")
            expect(page.locator("[data-state=disabled]")).to_be_visible()
            expect(page.locator("[data-why=cooldown]")).to_be_visible()
            assert wide(page) <= width

            sim.now(1, "well")
            page.locator("form[action$='/enable'] button").click()
            expect(page.locator("#said .said.good")).to_be_visible()
            poll()
            page.goto(f"{base}/feeds")
            expect(page.locator("[data-state=ok]")).to_be_visible()
            assert visitor.complaints == []
        at.queue.close()
