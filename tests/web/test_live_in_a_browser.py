"""An open page in a real browser: it shows what changes, and keeps what its reader does."""

from __future__ import annotations

import re
import time

import pytest
from playwright.sync_api import Route, expect

from tests.web.api.building import Shop
from tests.web.browsing import Visit
from tests.web.living import chip, elsewhere, pause, tell
from tests.web.watching import SHOWN_AT

# -- what changes is shown -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/", pytest.param("/targets", marks=pytest.mark.full), "/targets/mailer"])
def test_a_change_shows_without_a_reload(tab: Visit, there: Shop, path: str) -> None:
    page = chip(tab.go(path))
    page.evaluate("window.stayed = true")
    expect(page.locator("main")).not_to_contain_text("Paused by ada")
    pause(there)

    expect(page.locator("main")).to_contain_text("Paused by ada")
    assert page.evaluate("window.stayed") is True
    assert tab.complaints == []


@pytest.mark.alone
def test_a_change_shows_within_a_second(tab: Visit, there: Shop) -> None:
    page = chip(tab.go("/targets"))
    took = []
    for n in range(6):
        pause(there, by=f"reader-{n}")
        written = time.time()
        took.append(page.evaluate(SHOWN_AT, f"reader-{n}") - written)
        page.wait_for_timeout(700)  # pages are fetched at most twice a second
    assert sorted(took)[1] < 1.0  # a machine that is busy with something else may hold up the others


def test_a_job_that_ends_shows_on_its_page_and_in_the_counts(tab: Visit, there: Shop) -> None:
    page = chip(tab.go("/jobs/7"))
    expect(page.locator("main .state").first).to_contain_text("Queued")
    there.queue.cancel(7)

    expect(page.locator("main .state").first).to_contain_text("Cancelled")
    assert tab.complaints == []


@pytest.mark.full
def test_a_page_catches_up_on_what_happened_while_it_was_loading(tab: Visit, there: Shop) -> None:
    tab.go("/help")  # the server looks already
    chip(tab.page)
    page = tab.page

    def late(route: Route) -> None:
        pause(there)  # after the page was made, before it follows
        page.wait_for_timeout(600)
        route.continue_()

    page.route("**/static/live.js*", late)
    tab.go("/targets")
    expect(page.locator("main")).to_contain_text("Paused by ada")


@pytest.mark.full
def test_a_page_that_is_not_there_is_not_asked_for_again(tab: Visit, there: Shop) -> None:
    page = chip(tab.go("/targets/nobody"))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    pause(there)
    page.wait_for_timeout(1500)

    assert asked == []
    assert len(tab.complaints) == 1  # of the page itself


@pytest.mark.full
def test_exact_times_are_there_for_a_pointer_and_for_the_keyboard(tab: Visit) -> None:
    def exact(selector: str) -> str:
        return str(page.locator(selector).first.evaluate("each => getComputedStyle(each, '::after').content"))

    page = tab.go("/jobs/2")
    moment = page.locator("main time[title]").first
    title = moment.get_attribute("title")
    assert title
    assert re.search(r"\d\d:\d\d:\d\d", title)
    assert exact("main time[title]") == "none"
    alone = page.locator("main time[tabindex='0']").first
    page.keyboard.press("Tab")  # the keyboard is in use
    alone.focus()
    assert exact("main time[tabindex='0']") != "none"
    page = tab.go("/queue")
    row = "main tbody tr:has(time)"
    assert page.locator(f"{row} time[tabindex]").count() == 0  # a stop for each would be a long way
    page.keyboard.press("Tab")
    page.locator(f"{row} a").first.focus()
    assert exact(f"{row} time[title]") != "none"


# -- what the reader does is kept ------------------------------------------------------------------------------------


@pytest.mark.full
def test_what_is_typed_and_the_focus_survive_a_change(tab: Visit, there: Shop) -> None:
    page = chip(tab.go("/targets"))
    field = page.locator("main input[type=search], main input[type=text], main input:not([type])").first
    field.fill("mai")
    field.press("End")
    pause(there)

    expect(page.locator("#live")).to_have_attribute("data-state", "held")
    expect(field).to_have_value("mai")
    assert page.evaluate("document.activeElement.tagName") == "INPUT"
    field.fill("")
    page.locator("h1").click()
    expect(page.locator("main")).to_contain_text("Paused by ada")
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    assert tab.complaints == []


@pytest.mark.full
def test_focus_scroll_and_open_details_stay(tab: Visit, there: Shop) -> None:
    page = chip(tab.go("/targets/mailer"))
    page.locator("#find").fill("half a na")  # outside of what is refreshed
    page.locator("main summary").first.click()
    assert page.locator("main details[open]").count() == 1
    page.locator("main summary").last.focus()
    page.evaluate("window.was = document.activeElement")
    there.queue.pause("mail", "1h")
    tell(there.queue)

    expect(page.locator("#bell")).to_have_attribute("aria-label", "Notices, 1 unread")
    page.wait_for_timeout(700)
    assert page.locator("main details[open]").count() == 1
    assert page.evaluate("document.activeElement === window.was")
    expect(page.locator("#find")).to_have_value("half a na")
    assert tab.complaints == []


@pytest.mark.full
def test_rows_do_not_move_under_the_pointer(tab: Visit, there: Shop) -> None:
    page = chip(tab.go("/queue?state=failed"))
    first = page.locator("main tbody tr").first
    before = first.locator("a").first.get_attribute("href")
    first.hover()
    there.broken.enqueue("another")
    elsewhere(lambda: there.queue.drain("mail"))

    expect(page.locator("#live")).to_have_attribute("data-state", "held")
    assert first.locator("a").first.get_attribute("href") == before
    page.mouse.move(5, 400)
    expect(page.locator("main tbody tr")).to_have_count(4)
    assert first.locator("a").first.get_attribute("href") != before


@pytest.mark.full
def test_selected_text_stays_selected(tab: Visit, there: Shop) -> None:
    page = chip(tab.go("/targets/mailer"))
    page.evaluate("getSelection().selectAllChildren(document.querySelector('h1'))")
    assert page.evaluate("getSelection().toString()").strip() == "mailer"
    pause(there)
    expect(page.locator("#live")).to_have_attribute("data-state", "held")
    assert page.evaluate("getSelection().toString()").strip() == "mailer"
    page.evaluate("getSelection().removeAllRanges()")
    expect(page.locator("main")).to_contain_text("Paused by ada")
