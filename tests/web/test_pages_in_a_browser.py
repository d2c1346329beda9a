"""The pages in a real browser: nothing complains, everything works without script and with the keyboard alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.web.browsing import Visit, told, visit
from tests.web.seeding import END
from tidegate import Queue
from tidegate.clock import VirtualClock
from tidegate.jobs import listing
from tidegate.jobs.listing import Filter
from tidegate.targets import reports
from tidegate.web.site import Site

PAGES = (
    "/", "/targets", "/targets?state=action", "/targets/spotify", "/targets/lidarr", "/targets/gateway",
    "/targets/tautulli", "/targets/weather", "/queue", "/queue?state=failed&queue=convert", "/queue/lidarr",
    "/queue?kind=history&state=failed", "/bulk?action=retry&state=failed", "/workers", "/notices", "/settings", "/help",
    "/help/errors/rate_limited",
)  # fmt: skip
# What can be clicked, but for links inside of a text, is at least 24 px wide and high.
TOO_SMALL = """() => [...document.querySelectorAll("a, button, input:not([type=hidden]), select, summary")]
    .filter(each => each.checkVisibility() && getComputedStyle(each).display !== "inline")
    .map(each => [each.outerHTML.slice(0, 120), each.getBoundingClientRect()])
    .filter(([, box]) => box.width > 1 && (box.height < 24 || box.width < 24))
    .map(([html, box]) => `${Math.round(box.width)}x${Math.round(box.height)} ${html}`)"""
# Two ids that are the same, labels of nothing, controls without a name.
UNNAMED = """() => [...document.querySelectorAll("a, button, input:not([type=hidden]), select, summary")]
    .filter(each => !(each.getAttribute("aria-label") || each.innerText?.trim() || each.textContent.trim()
        || each.labels?.length))
    .map(each => each.outerHTML.slice(0, 120))"""
TWICE = """() => { const ids = [...document.querySelectorAll("[id]")].map(each => each.id);
    return ids.filter((id, at) => ids.indexOf(id) !== at) }"""


@pytest.fixture
def tab(opened: Browser, served: str) -> Iterator[Visit]:
    """A page without script: what works there works everywhere."""
    with visit(opened, served, script=False) as found:
        yield found


def jobs_of(q: Queue, **wanted: str) -> list[int]:
    return [line.id for line in q.store.read(lambda tx: listing.jobs(tx, Filter(**wanted), limit=500)).items]  # type: ignore[arg-type]


@pytest.mark.timeout(600)  # all of them, however busy the machine is
@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.full)])
def test_every_page_loads_without_a_complaint(opened: Browser, served: str, q: Queue, scheme: str) -> None:
    jobs = [f"/jobs/{jobs_of(q, state=state)[0]}" for state in ("done", "failed", "running", "ready", "blocked")]
    with visit(opened, served, scheme=scheme) as found:
        for path in (*PAGES, *jobs):
            page = found.go(path)
            assert page.locator("h1").count() == 1, path
            assert page.locator("main").count() == 1, path
            assert page.locator("nav[aria-label=Pages] a[aria-current=page]").count() == 1, path
            assert page.evaluate(TWICE) == [], path
            assert page.evaluate(UNNAMED) == [], path
        assert found.complaints == []


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("width", [320, 1280])
def test_nothing_is_cut_off_and_everything_is_large_enough_to_hit(
    opened: Browser, served: str, q: Queue, width: int
) -> None:
    with visit(opened, served, width=width) as found:
        for path in (*PAGES, f"/jobs/{jobs_of(q, state='failed')[0]}"):
            page = found.hear(path)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, path
            assert page.evaluate(TOO_SMALL) == [], path
            for each in page.locator("details").all():
                was = each.evaluate("it => it.open")
                for turned in (not was, was):
                    each.locator("summary").press("Enter")  # no click: a notice beside the page may lie over it
                    expect(each).to_have_js_property("open", turned)
                    assert page.evaluate("document.documentElement.scrollWidth") <= width, path
                    assert page.evaluate(TOO_SMALL) == [], path


def test_a_target_is_paused_and_resumed_without_script(tab: Visit, q: Queue) -> None:
    page = tab.go("/targets/spotify")
    page.locator("summary", has_text="Pause").click()
    page.locator("form[action='/targets/spotify/pause'] button[value='1h']").click()

    told(page, "good", "spotify", "15:30", undo="/targets/spotify/resume")
    assert page.url.endswith("/targets/spotify")
    assert q.store.read(lambda tx: reports.one(tx, "spotify")).report.paused_by == "local"

    page.get_by_role("button", name="Undo").click()
    told(page, "good", "spotify")
    assert q.store.read(lambda tx: reports.one(tx, "spotify")).report.paused_until is None
    page.reload()
    expect(page.locator("#said")).to_have_text("")


@pytest.mark.full
def test_a_pause_until_a_date_is_taken_and_one_that_is_over_is_not(tab: Visit) -> None:
    page = tab.go("/queue/feeds")
    page.locator("summary", has_text="Pause").click()
    page.get_by_label("Until").fill("2026-11-16T08:00")
    page.locator(".sheet form", has_text="Until").get_by_role("button", name="Pause").click()
    told(page, "good", "feeds", "08:00", undo="/queue/feeds/resume")

    page.locator("summary", has_text="Pause").click()
    page.get_by_label("Until").fill("2020-01-01T08:00")
    page.locator(".sheet form", has_text="Until").get_by_role("button", name="Pause").click()
    told(page, "bad")


def test_one_job_is_retried_and_the_filter_stays(tab: Visit, q: Queue) -> None:
    page = tab.go("/queue?state=failed&queue=convert&code=bad_request")
    (first, *others) = jobs_of(q, state="failed", queue="convert", code="bad_request")
    page.get_by_role("button", name=f"Retry job {first}", exact=True).click()

    told(page, "good", str(first))
    assert page.url.endswith("/queue?state=failed&queue=convert&code=bad_request")
    assert jobs_of(q, state="failed", queue="convert", code="bad_request") == others


@pytest.mark.full
def test_what_somebody_else_has_done_already_is_said(tab: Visit, q: Queue) -> None:
    page = tab.go("/queue?state=failed")
    first = jobs_of(q, state="failed")[0]
    q.retry(first)
    page.get_by_role("button", name=f"Retry job {first}", exact=True).click()

    told(page, "warn", str(first))


@pytest.mark.full
def test_all_that_match_are_retried_as_many_as_were_said(tab: Visit, q: Queue) -> None:
    matching = jobs_of(q, state="failed", queue="convert", code="bad_request")
    left_alone = set(jobs_of(q, state="failed")) - set(matching)
    page = tab.go("/queue?state=failed&queue=convert&code=bad_request")
    page.get_by_role("link", name=re.compile("Retry all")).click()
    expect(page.locator("h1")).to_have_text(f"Retry {len(matching)} jobs?")
    page.get_by_role("button", name=f"Retry {len(matching)} jobs").click()

    told(page, "good", str(len(matching)))
    assert page.url.endswith("/queue?state=failed&queue=convert&code=bad_request")
    assert set(jobs_of(q, state="failed")) == left_alone


@pytest.mark.full
def test_nothing_is_done_to_many_when_they_are_no_longer_as_many(tab: Visit, q: Queue) -> None:
    page = tab.go("/bulk?action=forget&state=failed&queue=convert")
    before = jobs_of(q, state="failed", queue="convert")
    q.retry(before[0])
    page.get_by_role("button", name=re.compile("^Forget")).click()

    told(page, "warn")
    assert jobs_of(q, state="failed", queue="convert") == before[1:]


def test_a_job_is_cancelled_and_that_is_undone(tab: Visit, q: Queue) -> None:
    first = jobs_of(q, state="ready", queue="lidarr")[0]
    page = tab.go(f"/jobs/{first}")
    page.get_by_role("button", name="Cancel").click()
    told(page, "good", str(first), undo=f"/jobs/{first}/retry")
    assert q.get(first).state == "cancelled"

    page.get_by_role("button", name="Undo").click()
    told(page, "good", str(first))
    assert q.get(first).state == "queued"


def test_a_job_is_forgotten_only_after_a_second_page(tab: Visit, q: Queue) -> None:
    first = jobs_of(q, state="failed")[0]
    page = tab.go(f"/jobs/{first}")
    page.get_by_role("link", name="Forget").click()
    forget = page.locator(f"form[action='/jobs/{first}/forget'] button")
    expect(forget).to_be_visible()
    assert q.get(first).state == "failed"
    forget.click()

    told(page, "good", str(first))
    assert first not in jobs_of(q, state="failed")


@pytest.mark.full
def test_a_key_that_was_refused_is_cleared(tab: Visit, q: Queue) -> None:
    page = tab.go("/")
    page.get_by_role("link", name=re.compile("Open spotify")).click()
    page.get_by_role("button", name="Clear key 7").click()

    told(page, "good", "7", "spotify")
    assert "7" not in {key.lane for key in q.store.read(lambda tx: reports.one(tx, "spotify")).keys}


@pytest.mark.full
def test_notices_are_marked_as_read(tab: Visit) -> None:
    page = tab.go("/notices")
    unread = page.get_by_role("button", name=re.compile("^Mark as read")).count()
    assert unread > 1
    page.get_by_role("button", name=re.compile("^Mark as read")).first.click()
    expect(page.get_by_role("button", name=re.compile("^Mark as read"))).to_have_count(unread - 1)
    page.locator("form[action='/notices/read'] button").click()
    expect(page.get_by_role("button", name=re.compile("^Mark as read"))).to_have_count(0)


@pytest.mark.full
def test_the_colours_that_were_chosen_are_kept(tab: Visit) -> None:
    def ground(page: Page) -> str:
        page.locator("footer.foot").wait_for()
        return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))

    page = tab.go("/queue?state=done")
    light = ground(page)
    for following in ("light", "dark"):
        page.locator(f"button[name='theme'][value='{following}']").click()
    page.locator("button[name='theme'][value='auto']").wait_for()
    assert ground(page) != light
    assert page.url.endswith("/queue?state=done")
    assert ground(tab.go("/help")) != light


def test_the_menu_of_a_narrow_page_opens_without_script(opened: Browser, served: str) -> None:
    with visit(opened, served, script=False, width=360) as found:
        page = found.go("/")
        menu = page.get_by_role("navigation", name="Pages")
        expect(menu).to_be_hidden()
        page.get_by_role("button", name="Menu").click()
        menu.get_by_role("link", name="Workers").click()
        expect(page.locator("h1")).to_have_text("Workers")


def focus(page: Page, name: str, most: int = 80) -> None:
    """Presses Tab until what has that name has the focus."""
    for _ in range(most):
        page.keyboard.press("Tab")
        has = "document.activeElement?.getAttribute('aria-label') || document.activeElement?.textContent"
        if name in str(page.evaluate(has)):
            return
    raise AssertionError(f"{name!r} was not reached")


def test_the_way_from_what_is_wrong_to_a_retry_needs_no_mouse(opened: Browser, served: str, q: Queue) -> None:
    with visit(opened, served) as found:
        page = found.go("/")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")  # the skip link
        assert page.evaluate("document.activeElement?.id") == "content"
        focus(page, "See the failures")
        page.keyboard.press("Enter")
        page.wait_for_url("**/failures")
        focus(page, "Retry… gateway overloaded")
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid"
        page.keyboard.press("Enter")
        page.wait_for_url("**/bulk?**")
        focus(page, "Retry 1 job")
        page.keyboard.press("Enter")
        told(page, "good", "1")
        assert found.complaints == []


@pytest.mark.full
def test_shortcuts_lead_to_pages_and_can_be_turned_off(opened: Browser, served: str) -> None:
    with visit(opened, served) as found:
        found.page.clock.set_fixed_time(END)  # two keys belong together only if they come soon after each other
        page = found.go("/help")
        page.keyboard.press("g")
        page.keyboard.press("w")
        page.wait_for_url("**/workers")
        page.keyboard.press("/")
        assert page.evaluate("document.activeElement?.id") == "find"
        page.keyboard.type("lidarr")
        page.keyboard.press("Enter")
        page.wait_for_url("**/targets/lidarr")

        found.go("/help").get_by_role("button", name="Turn shortcuts off").click()
        page.get_by_role("button", name="Turn shortcuts on").wait_for()
        page.keyboard.press("g")
        page.keyboard.press("w")
        page.keyboard.press("/")
        assert page.evaluate("document.activeElement?.id") != "find"
        assert page.url.endswith("/help")


def test_an_open_page_tells_ages_that_stay_true(opened: Browser, tmp_path: str, serve: Callable[[Site], str]) -> None:
    with Queue(f"sqlite:///{tmp_path}/now.db") as q:

        @q.job(queue="mail")
        def send(to: str) -> None: ...

        send.enqueue("ada")
        with visit(opened, serve(Site(queue=q))) as found:
            found.page.clock.install()
            page = found.go("/queue/mail")
            age = page.locator("tbody time").first
            page.clock.fast_forward(130_000)
            expect(age).to_have_text("2 min ago")
            assert found.complaints == []


@pytest.mark.full
def test_a_new_server_shows_how_to_begin(opened: Browser, tmp_path: str, serve: Callable[[Site], str]) -> None:
    with Queue(f"sqlite:///{tmp_path}/new.db", clock=VirtualClock()) as q, visit(opened, serve(Site(queue=q))) as found:
        for path in ("/", "/targets", "/queue", "/workers", "/notices", "/settings"):
            page = found.go(path)
            assert page.locator("h1").count() == 1
            assert page.evaluate(TOO_SMALL) == []
        assert "Three steps" in found.go("/").locator("main").inner_text()
        assert found.complaints == []
