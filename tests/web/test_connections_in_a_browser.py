"""How an open page hears from its server: by one connection, without one, and when nobody is there any more."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Request, Route, expect

from tests.web.api.building import Shop
from tests.web.browsing import Visit, visit
from tests.web.living import SIXTY, TOASTS, chip, pause, sign_in, tell
from tests.web.serving import running
from tidegate.accounts import users
from tidegate.web.site import LivePolicy, Site

# -- one connection, or none -----------------------------------------------------------------------------------------


@pytest.mark.full
def test_tabs_share_one_connection_and_another_takes_over(tab: Visit, there: Shop) -> None:
    streams: list[str] = []

    def asked(request: Request) -> None:
        if request.resource_type == "eventsource":
            streams.append(request.url)

    tab.page.context.on("request", asked)
    chip(tab.go("/targets"))
    other = tab.page.context.new_page()
    other.goto(f"{tab.base}/targets/mailer")
    chip(other)
    pause(there)
    expect(other.locator("main")).to_contain_text("Paused by ada")
    assert len(streams) == 1
    tab.page.close()
    there.queue.target("mailer").resume(by="ada")
    expect(other.locator("main")).not_to_contain_text("Paused by ada")
    expect(other.locator("#live")).to_have_attribute("data-state", "live")
    assert len(streams) == 2


@pytest.mark.full
def test_a_connection_that_is_made_anew_worries_nobody(opened: Browser, there: Shop) -> None:
    streams: list[str] = []
    with running(Site(queue=there.queue, live=LivePolicy(longest=0.5))) as address, visit(opened, address) as found:
        found.page.on("request", lambda each: streams.append(each.url) if each.resource_type == "eventsource" else None)
        page = chip(found.go("/targets"))
        page.evaluate("""() => { window.words = new Set();
            new MutationObserver(() => window.words.add(document.getElementById("live").textContent))
                .observe(document.getElementById("live"), { childList: true, subtree: true }) }""")
        end = time.monotonic() + 60
        while len(streams) <= 3 and time.monotonic() < end:
            page.wait_for_timeout(100)
        pause(there)
        expect(page.locator("main")).to_contain_text("Paused by ada")

        assert len(streams) > 3
        assert set(page.evaluate("[...window.words]")) <= {"Live"}
        assert found.complaints == []


HIDE = """(hidden) => { Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
    document.dispatchEvent(new Event("visibilitychange")) }"""


@pytest.mark.full
def test_a_page_that_nobody_sees_asks_for_nothing_and_catches_up_when_it_is_shown(tab: Visit, there: Shop) -> None:
    page = chip(tab.go("/targets"))
    page.evaluate(HIDE, True)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    pause(there)
    page.wait_for_timeout(2000)
    assert asked == []
    page.evaluate(HIDE, False)

    expect(page.locator("main")).to_contain_text("Paused by ada")
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    assert tab.complaints == []


@pytest.mark.full
def test_off_means_off_and_is_kept(tab: Visit, there: Shop) -> None:
    page = chip(tab.go("/targets"))
    page.get_by_role("button", name="Turn updates off").click()
    expect(page.locator("#live")).to_have_attribute("data-state", "off")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    pause(there)
    tell(there.queue)
    page.wait_for_timeout(2000)

    assert asked == []
    assert "Paused by ada" not in page.locator("main").inner_text()
    assert page.locator(TOASTS).count() == 0
    page.reload()
    expect(page.locator("#live")).to_have_attribute("data-state", "off")
    assert not any(url.endswith("/live") or "/live?" in url for url in asked)
    there.queue.target("mailer").resume(by="ada")
    page.get_by_role("button", name="Turn updates on").click()
    expect(page.locator("main")).not_to_contain_text("Paused by ada")
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    assert tab.complaints == []


@pytest.mark.full
def test_without_a_stream_the_page_asks_every_ten_seconds(opened: Browser, address: str, there: Shop) -> None:
    def refuse(route: Route) -> None:
        if route.request.resource_type == "eventsource":
            route.fulfill(status=503)
        else:
            route.continue_()

    with visit(opened, address) as found:
        found.page.route(re.compile("/live"), refuse)
        page = found.go("/targets")
        expect(page.locator("#live")).to_have_attribute("data-state", "polling")
        pause(there)
        expect(page.locator("main")).to_contain_text("Paused by ada", timeout=60_000)
        expect(page.locator("#live")).to_have_attribute("data-state", "polling")


@pytest.mark.full
def test_a_page_says_that_its_reader_is_signed_out(tab: Visit, there: Shop) -> None:
    secret = sign_in(tab, there, "operator")
    page = chip(tab.go("/targets"))
    there.queue.store.write(lambda tx: users.end_session(tx, secret))
    pause(there)

    expect(page.locator("#live")).to_have_attribute("data-state", "gone")
    expect(page.locator("#stale p")).to_be_visible()
    assert page.locator("main").inner_text().count("Paused by ada") == 0
    page.reload()
    expect(page.locator("h1")).to_have_text("Sign in")
    assert page.locator("#live").count() == 0
    assert tab.complaints == []


# -- what is dead is said to be --------------------------------------------------------------------------------------


@contextmanager
def process(*command: str) -> Iterator[subprocess.Popen[str]]:
    started = subprocess.Popen([sys.executable, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield started
    finally:
        started.kill()
        started.communicate()


@contextmanager
def served_from(folder: Path, address: str = "") -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server in a process of its own, and its address; at the same one as another before it, if that is given."""
    port = address.rsplit(":", 1)[-1] or "0"
    with process("-m", "tests.web.crowd", "serve", str(folder), port) as server:
        assert server.stdout is not None
        yield server, server.stdout.readline().strip()


def stale_after(page: Page, seconds: int) -> None:
    """Lets so much time pass for the page, not for the machine: then it says that it is stale."""
    for _ in range(3):  # a last word of the server may have been on its way
        page.clock.run_for(seconds * 1000)
        if page.locator("#live").get_attribute("data-state") == "stale":
            break
    for since in ("#live", "#stale"):
        assert re.search(r"\b\d\d:\d\d\b", page.locator(since).text_content() or "")
    assert page.locator("#live").get_attribute("data-state") == "stale"


def alive(page: Page) -> None:
    """The page comes back by itself, and says so."""
    expect(page.locator("#live")).to_have_attribute("data-state", "live", timeout=SIXTY)
    expect(page.locator("#stale")).to_be_empty()


@pytest.mark.full
def test_a_page_says_that_it_is_stale_within_15_s_of_the_death_of_its_server_and_recovers_with_the_next(
    opened: Browser, there: Shop, tmp_path: Path
) -> None:
    with served_from(tmp_path) as (server, address), visit(opened, address) as found:
        found.page.clock.install()
        page = chip(found.go("/targets"))
        server.kill()  # without a word
        server.wait()
        expect(page.locator("#live")).to_have_attribute("data-state", "connecting")
        stale_after(page, 15)
        pause(there)
        with served_from(tmp_path, address):
            alive(page)
            expect(page.locator("main")).to_contain_text("Paused by ada")


@pytest.mark.full
def test_a_page_of_a_server_that_stands_still_is_stale_and_recovers_with_it(
    opened: Browser, there: Shop, tmp_path: Path
) -> None:
    with served_from(tmp_path) as (server, address), visit(opened, address) as found:
        found.page.clock.install()
        page = chip(found.go("/targets"))
        server.send_signal(signal.SIGSTOP)
        try:
            stale_after(page, 15)
            pause(there)
        finally:
            server.send_signal(signal.SIGCONT)
        alive(page)
        expect(page.locator("main")).to_contain_text("Paused by ada")


WORK = """
import sys
from pathlib import Path
from tests.web.api.building import shop
with shop(Path(sys.argv[1])) as there:
    there.queue.run_worker()
"""


@pytest.mark.full
def test_a_page_says_that_no_worker_is_heard_of(opened: Browser, address: str, tmp_path: Path) -> None:
    with process("-c", WORK, str(tmp_path)) as worker, visit(opened, address) as found:
        page = chip(found.go("/workers"))
        expect(page.locator("main")).to_contain_text(str(worker.pid))
        worker.kill()
        worker.wait()
        expect(page.locator("#live")).to_have_attribute("data-state", "silent", timeout=SIXTY)
        expect(page.locator("#stale")).to_contain_text(re.compile(r"\d\d:\d\d"))
        with process("-c", WORK, str(tmp_path)):
            expect(page.locator("#live")).to_have_attribute("data-state", "live")
            expect(page.locator("#stale")).to_be_empty()
        assert found.complaints == []
