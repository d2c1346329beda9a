"""The page as a person uses it: connect, log in, read of a refusal, reconnect."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.apps.music.serving import Served, serving
from tidegate_demo.simulators.music.navidrome import PASSWORD

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

NO_BROWSER = "NO BROWSER, so no page was tested: run `make browser`, or say in CHROMIUM where one is"
PATIENCE = 60_000  # milliseconds
# A word of a recovery stands for a few seconds only, and nobody knows when that is.
HEAR = """() => {
    window.heard = "";
    const hear = () => { for (const each of document.querySelectorAll(".toast")) window.heard += each.innerText; };
    new MutationObserver(hear).observe(document.getElementById("toasts"), { childList: true, subtree: true }) }"""


@pytest.fixture(scope="module")
def opened() -> Iterator[Browser]:
    from tests.web.browsing import browser, chromium

    if chromium() is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(NO_BROWSER)
    with browser() as found:
        yield found


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder: Path = tmp_path_factory.mktemp("music")
    with serving(folder) as found:
        found.sim.connect("local")
        found.sim.navidrome.listening.hear("local", 1)
        yield found


def row(page: Page, name: str) -> Locator:
    return page.locator(f"tr#{name}")


def becomes(page: Page, base: str, name: str, state: str) -> None:
    """The row has this state, at the latest after a few looks."""
    from playwright.sync_api import expect

    for _ in range(100):
        page.goto(f"{base}/music")
        if row(page, name).locator(f"[data-state={state}]").count():
            break
        page.wait_for_timeout(200)
    expect(row(page, name).locator(f"[data-state={state}]").first).to_be_visible(timeout=PATIENCE)


@pytest.mark.parametrize(
    ("script", "scheme", "width"), [(True, "dark", 1280), pytest.param(False, "light", 360, marks=pytest.mark.full)]
)
def test_a_service_is_connected_and_its_plays_are_in_the_library(
    opened: Browser, served: Served, script: bool, scheme: str, width: int
) -> None:
    from playwright.sync_api import expect

    from tests.web.browsing import told, visit

    with visit(opened, served.base, script=script, scheme=scheme, width=width) as visitor:
        page = visitor.go("/music")
        row(page, "navidrome").get_by_role("link", name="onnect Navidrome").click()
        page.get_by_label("Address").fill(f"{served.sim.url}/navidrome")
        page.get_by_label("User name").fill("local")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="onnect", exact=False).first.click()
        told(page, "good", "Navidrome")
        becomes(page, served.base, "navidrome", "ok")
        assert PASSWORD not in page.content()
        page.goto(f"{served.base}/music/library?shelf=plays")
        expect(page.get_by_role("row").filter(has_text="Navidrome").first).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.goto(f"{served.base}/music/library")
        expect(page.get_by_text("1 play").first).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert visitor.complaints == []


@pytest.mark.full
@pytest.mark.req("SYNC-09", "SYNC-10", "SYNC-11", "SYNC-14")
def test_a_refusal_is_a_toast_now_and_in_a_later_browser_and_so_is_the_recovery_by_a_reconnect(
    opened: Browser, served: Served
) -> None:
    from playwright.sync_api import expect

    from tests.web.browsing import told, visit

    with visit(opened, served.base) as visitor:
        page = visitor.go("/music/connect/lastfm")
        page.get_by_label("User name").fill("local")
        page.get_by_role("button", name="Connect").click()
        becomes(page, served.base, "lastfm", "ok")

        served.sim.lastfm.now("error_9")
        row(page, "lastfm").locator("form[action='/music/sync/lastfm'] button").click()
        toast = page.locator("#toasts-alert .toast", has_text="Last.fm")
        expect(toast).to_be_visible(timeout=PATIENCE)
        becomes(page, served.base, "lastfm", "action")
        said = row(page, "lastfm")
        expect(said.locator("form[action='/music/sync/lastfm']")).to_have_count(0)

        with visit(opened, served.base) as later:
            elsewhere = later.go("/")
            found = elsewhere.locator("#toasts-alert .toast", has_text="Last.fm")
            expect(found).to_be_visible(timeout=PATIENCE)
            found.get_by_role("link").first.click()
            expect(elsewhere.get_by_role("heading", name="Music")).to_be_visible(timeout=PATIENCE)
            elsewhere.locator("#live").wait_for()
            elsewhere.evaluate(HEAR)

            served.sim.lastfm.now("well")
            row(page, "lastfm").locator("a[href='/music/connect/lastfm']").click()
            page.locator("form[action='/music/connect/lastfm'] button").click()
            told(page, "good", "Last.fm")
            becomes(page, served.base, "lastfm", "ok")
            elsewhere.wait_for_function("() => window.heard.includes('Last.fm works again')", timeout=PATIENCE)


@pytest.mark.full
@pytest.mark.req("SYNC-10")
def test_a_login_at_the_service_itself_comes_back_and_a_refusal_there_is_said(opened: Browser, served: Served) -> None:
    from playwright.sync_api import expect

    from tests.web.browsing import told, visit

    with visit(opened, served.base) as visitor:
        page = visitor.go("/music/connect/spotify")
        page.locator("a[href='/music/login/spotify']").click()
        page.get_by_role("button", name="Cancel").click()
        expect(page.locator("#said")).to_be_visible()
        expect(row(page, "spotify").locator("[data-state=none]")).to_be_visible()

        page.goto(f"{served.base}/music/connect/spotify")
        page.locator("a[href='/music/login/spotify']").click()
        page.get_by_label("Account").fill("local")
        page.get_by_role("button", name="Allow").click()
        told(page, "good", "Spotify")
        becomes(page, served.base, "spotify", "ok")
        expect(row(page, "spotify")).to_contain_text("The access ends")

        page.goto(f"{served.base}/music/back/spotify?state=forged&code=stolen")
        expect(page.locator("#said .said.bad")).to_be_visible()
        row(page, "spotify").locator("form[action='/music/disconnect/spotify'] button").click()
        told(page, "good", "Spotify")
        expect(row(page, "spotify").locator("[data-state=none]")).to_be_visible()
