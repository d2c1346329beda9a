"""An open page in a real browser: it shows what changes, keeps what its reader does, and says when it is stale."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Browser, Page, Request, Route, expect

from tests.web.api.building import Shop, filled, shop
from tests.web.browsing import Visit, visit
from tests.web.serving import running
from tidegate import Queue
from tidegate.ops import accounts, notices
from tidegate.store import notice_rows
from tidegate.store.notice_rows import NewNotice, Place
from tidegate.store.tx import Tx
from tidegate.web.access import COOKIE
from tidegate.web.live.policy import LivePolicy
from tidegate.web.site import Site

T = TypeVar("T")
SIXTY = 60_000  # milliseconds, for what needs some anyway
TOASTS = ".toast"


def elsewhere(work: Callable[[], T]) -> T:
    """Runs it in a thread without a loop: the browser has one in this."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(work).result()


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Shop]:
    (tmp_path / "jobs.db").write_bytes(elsewhere(filled))
    with shop(tmp_path) as found:
        yield found


@pytest.fixture
def address(there: Shop) -> Iterator[str]:
    with running(Site(queue=there.queue)) as found:
        yield found


@pytest.fixture
def tab(opened: Browser, address: str) -> Iterator[Visit]:
    with visit(opened, address) as found:
        yield found


def chip(page: Page) -> Page:
    """The page, when it says that it is alive."""
    expect(page.locator("#live")).to_have_text("Live")
    page.wait_for_timeout(600)  # what it had missed while it was loading has come by now
    return page


def pause(there: Shop, by: str = "ada") -> None:
    there.queue.target("mailer").pause("1h", by=by)


def tell(queue: Queue, episode: float = 1.0, level: str = "error", name: str = "mailer", **more: bool) -> None:
    new = NewNotice(
        kind="fatal" if level == "error" else level, level=level, place=Place(subject="target", name=name),
        episode=episode, title=f"{name} has notice {episode:g}", message="The service refused the credentials.",
        code=f"code-{episode:g}", over=more.get("over", False),
    )  # fmt: skip
    queue.put(lambda tx: notice_rows.raised(tx, new))


# -- what changes is shown -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/", "/targets", "/targets/mailer"])
def test_a_change_shows_without_a_reload(tab: Visit, there: Shop, path: str) -> None:
    page = chip(tab.go(path))
    page.evaluate("window.stayed = true")
    expect(page.locator("main")).not_to_contain_text("Paused by ada")
    pause(there)

    expect(page.locator("main")).to_contain_text("Paused by ada")
    assert page.evaluate("window.stayed") is True
    assert tab.complaints == []


SHOWN_AT = """(word) => new Promise((done) => {
    const look = () => document.querySelector("main").textContent.includes(word) && done(Date.now() / 1000);
    new MutationObserver(look).observe(document.body, { subtree: true, childList: true, characterData: true });
    look() })"""


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


def test_a_page_that_is_not_there_is_not_asked_for_again(tab: Visit, there: Shop) -> None:
    page = chip(tab.go("/targets/nobody"))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    pause(there)
    page.wait_for_timeout(1500)

    assert asked == []
    assert len(tab.complaints) == 1  # of the page itself


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


def test_what_is_typed_and_the_focus_survive_a_change(tab: Visit, there: Shop) -> None:
    page = chip(tab.go("/targets"))
    field = page.locator("main input[type=search], main input[type=text], main input:not([type])").first
    field.fill("mai")
    field.press("End")
    pause(there)

    expect(page.locator("#live")).to_have_text("News waits")
    expect(field).to_have_value("mai")
    assert page.evaluate("document.activeElement.tagName") == "INPUT"
    field.fill("")
    page.locator("h1").click()
    expect(page.locator("main")).to_contain_text("Paused by ada")
    expect(page.locator("#live")).to_have_text("Live")
    assert tab.complaints == []


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


def test_rows_do_not_move_under_the_pointer(tab: Visit, there: Shop) -> None:
    page = chip(tab.go("/queue?state=failed"))
    first = page.locator("main tbody tr").first
    before = first.locator("a").first.get_attribute("href")
    first.hover()
    there.broken.enqueue("another")
    elsewhere(lambda: there.queue.drain("mail"))

    expect(page.locator("#live")).to_have_text("News waits")
    assert first.locator("a").first.get_attribute("href") == before
    page.mouse.move(5, 400)
    expect(page.locator("main tbody tr")).to_have_count(4)
    assert first.locator("a").first.get_attribute("href") != before


def test_selected_text_stays_selected(tab: Visit, there: Shop) -> None:
    page = chip(tab.go("/targets/mailer"))
    page.evaluate("getSelection().selectAllChildren(document.querySelector('h1'))")
    assert page.evaluate("getSelection().toString()").strip() == "mailer"
    pause(there)
    expect(page.locator("#live")).to_have_text("News waits")
    assert page.evaluate("getSelection().toString()").strip() == "mailer"
    page.evaluate("getSelection().removeAllRanges()")
    expect(page.locator("main")).to_contain_text("Paused by ada")


# -- one connection, or none -----------------------------------------------------------------------------------------


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
    expect(other.locator("#live")).to_have_text("Live")
    assert len(streams) == 2


def test_a_connection_that_is_made_anew_worries_nobody(opened: Browser, there: Shop) -> None:
    streams: list[str] = []
    with running(Site(queue=there.queue, live=LivePolicy(longest=0.5))) as address, visit(opened, address) as found:
        found.page.on("request", lambda each: streams.append(each.url) if each.resource_type == "eventsource" else None)
        page = chip(found.go("/targets"))
        page.evaluate("""() => { window.words = new Set();
            new MutationObserver(() => window.words.add(document.getElementById("live").textContent))
                .observe(document.getElementById("live"), { childList: true, subtree: true }) }""")
        page.wait_for_timeout(3000)
        pause(there)
        expect(page.locator("main")).to_contain_text("Paused by ada")

        assert len(streams) > 3
        assert set(page.evaluate("[...window.words]")) <= {"Live"}
        assert found.complaints == []


HIDE = """(hidden) => { Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
    document.dispatchEvent(new Event("visibilitychange")) }"""


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
    expect(page.locator("#live")).to_have_text("Live")
    assert tab.complaints == []


def test_off_means_off_and_is_kept(tab: Visit, there: Shop) -> None:
    page = chip(tab.go("/targets"))
    page.get_by_role("button", name="Turn updates off").click()
    expect(page.locator("#live")).to_have_text("Live off")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    pause(there)
    tell(there.queue)
    page.wait_for_timeout(2000)

    assert asked == []
    assert "Paused by ada" not in page.locator("main").inner_text()
    assert page.locator(TOASTS).count() == 0
    page.reload()
    expect(page.locator("#live")).to_have_text("Live off")
    assert not any(url.endswith("/live") or "/live?" in url for url in asked)
    there.queue.target("mailer").resume(by="ada")
    page.get_by_role("button", name="Turn updates on").click()
    expect(page.locator("main")).not_to_contain_text("Paused by ada")
    expect(page.locator("#live")).to_have_text("Live")
    assert tab.complaints == []


def test_without_a_stream_the_page_asks_every_ten_seconds(opened: Browser, address: str, there: Shop) -> None:
    def refuse(route: Route) -> None:
        if route.request.resource_type == "eventsource":
            route.fulfill(status=503)
        else:
            route.continue_()

    with visit(opened, address) as found:
        found.page.route(re.compile("/live"), refuse)
        page = found.go("/targets")
        expect(page.locator("#live")).to_have_text("Every 10 s")
        pause(there)
        expect(page.locator("main")).to_contain_text("Paused by ada", timeout=60_000)
        expect(page.locator("#live")).to_have_text("Every 10 s")


def sign_in(tab: Visit, there: Shop, role: str) -> str:
    """The session of a new user, which the browser has from now on."""

    def add(tx: Tx) -> str:
        accounts.add_user(tx, "ada", "admin", "no password fits")
        accounts.add_user(tx, role, role, "no password fits")
        return accounts.begin_session(tx, role)

    secret = there.queue.store.write(add)
    tab.page.context.add_cookies([{"name": COOKIE, "value": secret, "url": tab.base}])
    return secret


def test_a_page_says_that_its_reader_is_signed_out(tab: Visit, there: Shop) -> None:
    secret = sign_in(tab, there, "operator")
    page = chip(tab.go("/targets"))
    there.queue.store.write(lambda tx: accounts.end_session(tx, secret))
    pause(there)

    expect(page.locator("#live")).to_have_text("Signed out")
    expect(page.locator("#stale")).to_contain_text("You are signed out.")
    assert page.locator("main").inner_text().count("Paused by ada") == 0
    page.reload()
    expect(page.locator("h1")).to_have_text("Sign in")
    assert page.locator("#live").count() == 0
    assert tab.complaints == []


def test_who_may_only_look_dismisses_for_themselves(tab: Visit, there: Shop) -> None:
    sign_in(tab, there, "viewer")
    page = chip(tab.go("/targets"))
    tell(there.queue)
    page.get_by_role("button", name="Dismiss: mailer has notice 1").click()
    expect(page.locator(TOASTS)).to_have_count(0)
    page.wait_for_timeout(500)

    assert there.queue.store.read(notices.unread) == 1
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


STALE = re.compile(r"^Stale since \d\d:\d\d$")


def stale_after(page: Page, seconds: int) -> None:
    """Lets so much time pass for the page, not for the machine: then it says that it is stale."""
    page.clock.run_for(seconds * 1000)
    assert STALE.fullmatch(page.locator("#live").text_content() or "")
    assert "The server does not answer. This is how things were at" in page.locator("#stale").inner_text()


def alive(page: Page) -> None:
    """The page comes back by itself, and says so."""
    expect(page.locator("#live")).to_have_text("Live", timeout=SIXTY)
    expect(page.locator("#stale")).to_be_empty()


def test_a_page_says_that_it_is_stale_within_15_s_of_the_death_of_its_server_and_recovers_with_the_next(
    opened: Browser, there: Shop, tmp_path: Path
) -> None:
    with served_from(tmp_path) as (server, address), visit(opened, address) as found:
        found.page.clock.install()
        page = chip(found.go("/targets"))
        server.kill()  # without a word
        server.wait()
        expect(page.locator("#live")).to_have_text("Reconnecting…")
        stale_after(page, 15)
        pause(there)
        with served_from(tmp_path, address):
            alive(page)
            expect(page.locator("main")).to_contain_text("Paused by ada")


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


def test_a_page_says_that_no_worker_is_heard_of(opened: Browser, address: str, tmp_path: Path) -> None:
    with process("-c", WORK, str(tmp_path)) as worker, visit(opened, address) as found:
        page = chip(found.go("/workers"))
        expect(page.locator("main")).to_contain_text(str(worker.pid))
        worker.kill()
        worker.wait()
        expect(page.locator("#stale")).to_contain_text(
            re.compile(r"No worker has been heard of since \d\d:\d\d\."), timeout=SIXTY
        )
        expect(page.locator("#live")).to_have_text("No worker")
        with process("-c", WORK, str(tmp_path)):
            expect(page.locator("#live")).to_have_text("Live")
            expect(page.locator("#stale")).to_be_empty()
        assert found.complaints == []


# -- notices beside the page -----------------------------------------------------------------------------------------


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


def test_dismissing_an_error_marks_it_as_read_for_all(tab: Visit, there: Shop, opened: Browser, address: str) -> None:
    page = chip(tab.go("/targets"))
    tell(there.queue)
    with visit(opened, address) as other:
        expect(other.go("/help").locator(TOASTS)).to_have_count(1)
        page.get_by_role("button", name="Dismiss: mailer has notice 1").click()
        expect(page.locator(TOASTS)).to_have_count(0)
        expect(other.page.locator(TOASTS)).to_have_count(0)
        expect(page.locator("#bell")).to_have_attribute("aria-label", "Notices")
    assert there.queue.store.read(notices.unread) == 0
    assert page.goto(f"{address}/targets") is not None
    assert page.locator("#said").inner_text() == ""
    assert tab.complaints == []


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


def test_good_news_goes_by_itself_but_not_under_the_pointer(tab: Visit, there: Shop) -> None:
    page = chip(tab.go("/targets"))
    tell(there.queue, level="success", over=True)
    toast = page.get_by_role("status").locator(TOASTS)
    expect(toast).to_have_count(1)
    toast.hover()
    page.wait_for_timeout(7000)
    assert toast.count() == 1
    page.mouse.move(5, 400)
    expect(toast).to_have_count(0)
    assert there.queue.store.read(notices.unread) == 1  # nobody has said that it was read
