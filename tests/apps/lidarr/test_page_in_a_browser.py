"""The page as a person uses it: badges and what they say, and the retry of what was given up."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.apps.lidarr.building import Round
from tests.databases import Database
from tests.web.serving import running
from tidegate.web.site import Site

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

NO_BROWSER = "NO BROWSER, so no page was tested: run `make browser`, or say in CHROMIUM where one is"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A queue with one entry that is queued, one that is submitted, and one that was given up."""
    folder: Path = tmp_path_factory.mktemp("lidarr")
    with Round.opened(Database("sqlite-apsw", f"sqlite:///{folder / 'lidarr.db'}", "apsw"), queue_max=1) as at:
        at.artist("good", "Nina")
        at.artist("bad", "Taken")
        first, second = at.album("album-1", "good"), at.album("album-2", "good")
        at.track(first, at.artists["good"], "Sent")
        at.track(second, at.artists["good"], "Waiting")
        at.sim.inside.paths_taken.add("bad")
        at.look()
        at.wake()
        at.look()
        with running(Site(queue=at.queue, apps=(at.there,))) as found:
            yield found


@pytest.fixture(scope="module")
def opened(base: str) -> Iterator[Browser]:
    # Behind the other: once the browser is there, its loop runs in this thread.
    from tests.web.browsing import browser, chromium

    if chromium() is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(NO_BROWSER)
    with browser() as found:
        yield found


def tip(badge: Locator) -> str:
    found: str = badge.evaluate("e => getComputedStyle(e, '::after').content")
    return found


def wide(page: Page) -> int:
    found: int = page.evaluate("document.documentElement.scrollWidth")
    return found


@pytest.mark.req("LID-15")
@pytest.mark.parametrize(
    ("script", "scheme", "width"), [(True, "dark", 1280), pytest.param(False, "light", 360, marks=pytest.mark.full)]
)
def test_a_queued_track_looks_different_from_one_that_lidarr_has(
    opened: Browser, base: str, script: bool, scheme: str, width: int
) -> None:
    from playwright.sync_api import expect

    from tests.web.browsing import visit

    with visit(opened, base, script=script, scheme=scheme, width=width) as visitor:
        page = visitor.go("/lidarr/tracks")
        row = page.get_by_role("row", name="Waiting")
        queued = row.locator(".badge")
        expect(queued).to_have_text("Queued")
        expect(queued).to_have_attribute("title", "Queued for Lidarr")
        expect(queued).to_have_class("state warn badge badge-warning")
        expect(row.locator("[class='icon-[heroicons--queue-list]'] svg")).to_be_visible()
        expect(row.get_by_role("link")).to_have_count(0)
        other = page.get_by_role("row", name="Sent").locator(".badge")
        expect(other).to_have_text("Monitored")
        expect(page.get_by_role("row", name="Sent").get_by_role("link")).to_have_count(1)
        assert other.evaluate("e => getComputedStyle(e).color") != queued.evaluate("e => getComputedStyle(e).color")
        assert tip(queued) == "none"
        queued.focus()  # a pointer gets the title, a keyboard and a finger this
        assert tip(queued) == '"Queued for Lidarr"'
        assert wide(page) <= width
        assert visitor.complaints == []


@pytest.mark.req("LID-13")
def test_what_was_given_up_says_why_and_is_retried_with_one_button(opened: Browser, base: str) -> None:
    from playwright.sync_api import expect

    from tests.web.browsing import visit

    with visit(opened, base, script=False, width=1280) as visitor:
        page = visitor.go("/lidarr")
        expect(page.locator("#gauge")).to_have_text("1/1")
        expect(page.locator("#last-wake")).to_contain_text("2 of 4 were sent, 1 failed. Lidarr is full: 0 of 1")
        expect(page.locator("#next-wake")).to_contain_text("in 3 min")
        page.get_by_role("link", name="Gave up 1").click()
        row = page.get_by_role("row", name="Taken")
        expect(row).to_contain_text("Lidarr uses the folder of this artist for another one (HTTP 400).")
        row.get_by_role("button", name="Retry Taken").click()
        expect(page.get_by_text("Taken is in the queue again.")).to_be_visible()
        expect(page.get_by_role("row", name="Taken")).to_contain_text("Queued")
        expect(page.get_by_role("link", name="Gave up 0")).to_be_visible()
        assert visitor.complaints == []


@pytest.mark.full
@pytest.mark.req("LID-02")
def test_what_is_not_wanted_is_cancelled_with_one_button_and_that_is_undone_with_another(
    opened: Browser, base: str
) -> None:
    from playwright.sync_api import expect

    from tests.web.browsing import visit

    with visit(opened, base, script=False, width=360) as visitor:
        page = visitor.go("/lidarr?state=queued")
        row = page.get_by_role("row", name="Title album-2")
        row.get_by_role("button", name="Cancel Title album-2").click()
        expect(page.get_by_text("Title album-2 is cancelled, and is not sent unless you undo that.")).to_be_visible()
        page.get_by_role("link", name="Cancelled 1").click()
        row = page.get_by_role("row", name="Title album-2")
        expect(row).to_contain_text("A person has cancelled it")
        expect(page.get_by_role("link", name="Cancelled 1")).to_be_in_viewport()  # the tabs are wider than the page
        assert wide(page) <= 360
        row.get_by_role("button", name="Undo the cancel of Title album-2").click()
        expect(page.get_by_text("Title album-2 is in the queue again.")).to_be_visible()
        expect(page.get_by_role("row", name="Title album-2")).to_contain_text("Queued")
        assert visitor.complaints == []


@pytest.mark.full
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_on_its_pages(opened: Browser, base: str, scheme: str) -> None:
    from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]

    from tests.web.browsing import visit

    with visit(opened, base, scheme=scheme, width=360) as visitor:
        for path in ("/lidarr", "/lidarr/tracks"):
            page = visitor.go(path)
            found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
            assert [(each["id"], each["nodes"][0]["html"][:200]) for each in found] == [], path
