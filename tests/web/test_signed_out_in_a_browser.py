"""A page whose reader was signed out says so, also when nothing happens on the server."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from tests.web.api.building import Shop
from tests.web.browsing import visit
from tests.web.living import SIXTY, chip, sign_in
from tests.web.serving import running
from tidegate.accounts import users
from tidegate.web.site import LivePolicy, Site


@pytest.mark.full
def test_without_any_news_the_next_check_tells_a_page_that_its_reader_is_signed_out(
    opened: Browser, there: Shop
) -> None:
    with running(Site(queue=there.queue, live=LivePolicy(longest=0.5))) as address, visit(opened, address) as tab:
        sign_in(tab, there, "operator")
        page = chip(tab.go("/help"))
        there.queue.store.write(lambda tx: users.sign_out(tx, "operator", "ada"))
        expect(page.locator("#live")).to_have_attribute("data-state", "gone", timeout=SIXTY)
        expect(page.locator("#stale p")).to_be_visible()
