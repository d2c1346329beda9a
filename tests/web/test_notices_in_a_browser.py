"""Notices beside an open page, in a real browser: each once, few at a time, and gone when they were read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Browser, expect

from tests.web.api.building import Shop
from tests.web.browsing import Visit, visit
from tests.web.living import TOASTS, chip, sign_in, tell
from tidegate.notices import inbox


def test_a_notice_shows_once_and_again_to_a_browser_that_comes_later(
    tab: Visit, there: Shop, opened: Browser, address: str
) -> None:
    page = chip(tab.go("/targets"))
    tell(there.queue)
    toast = page.get_by_role("alert").locator(TOASTS)
    expect(toast).to_contain_text("mailer has notice 1")
    page.reload()
    chip(page)
    page.wait_for_timeout(500)
    assert page.locator(TOASTS).count() == 0  # it was seen
    with visit(opened, address) as late:
        expect(late.go("/help").get_by_role("alert").locator(TOASTS)).to_contain_text("mailer has notice 1")
        assert late.complaints == []
    assert tab.complaints == []


@pytest.mark.full
def test_dismissing_an_error_marks_it_as_read_for_all(tab: Visit, there: Shop, opened: Browser, address: str) -> None:
    page = chip(tab.go("/targets"))
    tell(there.queue)
    with visit(opened, address) as other:
        expect(other.go("/help").locator(TOASTS)).to_have_count(1)
        page.locator(TOASTS).get_by_role("button", name="mailer has notice 1").click()
        expect(page.locator(TOASTS)).to_have_count(0)
        expect(other.page.locator(TOASTS)).to_have_count(0)
        expect(page.locator("#bell")).to_have_attribute("aria-label", "Notices")
    assert there.queue.store.read(inbox.unread) == 0
    assert page.goto(f"{address}/targets") is not None
    assert page.locator("#said").inner_text() == ""
    assert tab.complaints == []


@pytest.mark.full
def test_three_at_most_are_shown_and_escape_closes(tab: Visit, there: Shop) -> None:
    page = chip(tab.go("/targets"))
    for n in range(5):
        tell(there.queue, float(n + 1), name=f"target-{n}")
    expect(page.locator(TOASTS)).to_have_count(3)
    expect(page.locator("#toasts-more")).to_have_text("2 more")
    assert page.locator("#toasts").evaluate("each => each.innerHTML.includes('style=')") is False
    results = Axe().run(page).response["violations"]
    assert [each["id"] for each in results if each["impact"] in ("serious", "critical")] == []
    for left in (3, 3, 2, 1, 0):
        page.keyboard.press("Escape")
        expect(page.locator(TOASTS)).to_have_count(left)
    expect(page.locator("#toasts-more")).to_be_hidden()
    assert tab.complaints == []


@pytest.mark.full
def test_good_news_goes_by_itself_but_not_under_the_pointer(tab: Visit, there: Shop) -> None:
    tab.page.clock.install()
    page = chip(tab.go("/targets"))
    page.clock.pause_at(datetime.now(UTC) + timedelta(seconds=10))  # from here on, time passes only as it is told to
    tell(there.queue, level="success", over=True)
    toast = page.get_by_role("status").locator(TOASTS)
    expect(toast).to_have_count(1)
    toast.hover()
    page.clock.run_for(7000)
    assert toast.count() == 1
    page.mouse.move(5, 400)
    page.clock.run_for(7000)
    expect(toast).to_have_count(0)
    assert there.queue.store.read(inbox.unread) == 1  # nobody has said that it was read


@pytest.mark.full
def test_who_may_only_look_dismisses_for_themselves(tab: Visit, there: Shop) -> None:
    sign_in(tab, there, "viewer")
    page = chip(tab.go("/targets"))
    tell(there.queue)
    page.locator(TOASTS).get_by_role("button", name="mailer has notice 1").click()
    expect(page.locator(TOASTS)).to_have_count(0)
    page.wait_for_timeout(500)

    assert there.queue.store.read(inbox.unread) == 1
    assert tab.complaints == []
