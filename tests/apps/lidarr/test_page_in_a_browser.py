"""The page as a person uses it: badges and what they say, and the retry of what was given up."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.apps.lidarr.building import Round
from tests.databases import Database
from tests.text import numbers
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

    from tests.web.browsing import told, visit

    with visit(opened, base, script=False, width=1280) as visitor:
        page = visitor.go("/lidarr")
        expect(page.locator("#gauge")).to_have_text("1/1")
        expect(page.locator("#last-wake")).to_have_attribute("data-outcome", "full")
        assert {2, 4, 1, 0} <= set(numbers(page.locator("#last-wake").inner_text()))  # sent, of all, failed, in Lidarr
        expect(page.locator("#next-wake")).to_contain_text("3 min")
        gave_up = page.locator("nav.tabs a[href='/lidarr?state=gave_up']")
        expect(gave_up.locator(".count")).to_have_text("1")
        gave_up.click()
        row = page.get_by_role("row", name="Taken")
        expect(row.locator("[data-state=failed]")).to_be_visible()
        expect(row).to_contain_text("(HTTP 400)")
        row.locator("form[action$='/retry'] button").click()
        told(page, "good", "Taken")
        expect(page.get_by_role("row", name="Taken").locator(".how .badge")).to_be_visible()
        expect(gave_up.locator(".count")).to_have_text("0")
        assert visitor.complaints == []


@pytest.mark.full
@pytest.mark.req("LID-02")
def test_what_is_not_wanted_is_cancelled_with_one_button_and_that_is_undone_with_another(
    opened: Browser, base: str
) -> None:
    from playwright.sync_api import expect

    from tests.web.browsing import told, visit

    with visit(opened, base, script=False, width=360) as visitor:
        page = visitor.go("/lidarr?state=queued")
        row = page.get_by_role("row", name="Title album-2")
        row.locator("form[action$='/cancel'] button").click()
        told(page, "good", "Title album-2")
        cancelled = page.locator("nav.tabs a[href='/lidarr?state=cancelled']")
        expect(cancelled.locator(".count")).to_have_text("1")
        cancelled.click()
        row = page.get_by_role("row", name="Title album-2")
        expect(row.locator("[data-state=cancelled]")).to_be_visible()
        expect(cancelled).to_be_in_viewport()  # the tabs are wider than the page
        assert wide(page) <= 360
        row.locator("form[action$='/retry'] button").click()
        told(page, "good", "Title album-2")
        expect(page.get_by_role("row", name="Title album-2").locator(".how .badge")).to_be_visible()
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
