"""The whole story as somebody sees it who follows its links, and the buttons of its page."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.text import numbers
from tests.web.local import LocalClient
from tests.web.serving import running
from tidegate import server
from tidegate.cli.demo import settled
from tidegate.server import WorkerThread
from tidegate.web.site import Site
from tidegate_demo.player import DemoRunner, StoryPlayer
from tidegate_demo.stage import VISITOR, DemoEnvironment, Services
from tidegate_demo.story import STORY

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.web.browsing import Visit

SLOW = 120_000  # milliseconds: what happens, happens when it may, however slow the machine is
# No step ends by itself here: the test has seen it first.
STEPS = [replace(step, lasts=86_400) for step in STORY]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, DemoRunner]]:
    theatre = DemoRunner(DemoEnvironment(Services()), StoryPlayer(STEPS))
    loaded, apps = settled(theatre, tmp_path_factory.mktemp("demo"), 0)
    with server.assembled(loaded, apps, simulators=True) as there, ExitStack() as stack:
        engine = WorkerThread(lambda stop: there.queue.arun_worker(20, stop=stop, grace=2))
        engine.start()
        stack.callback(engine.join, 60)
        stack.callback(engine.ask)
        theatre.open(there.apps)
        stack.callback(theatre.close)
        yield stack.enter_context(running(Site(queue=there.queue, apps=there.apps, visitor=VISITOR))), theatre


def step(page: Page, number: int) -> None:
    """The strip is at that step, and the story says that what it tells was seen."""
    from playwright.sync_api import expect

    strip = page.locator("aside.strip")
    expect(strip).to_contain_text(f"Step {number} of 7: {STEPS[number - 1].title}", timeout=SLOW)
    expect(page.locator("ol.steps > li[aria-current=step]")).to_contain_text("Seen", timeout=SLOW)
    expect(page).to_have_title("Simulated: Demo · Tidegate")


@pytest.mark.full
@pytest.mark.timeout(600)
def test_the_story_happens_and_every_page_it_leads_to_shows_it(
    demo: tuple[str, DemoRunner], look: Callable[..., Visit]
) -> None:
    from playwright.sync_api import expect

    base, _ = demo
    visit = look(base)
    told: list[str] = []

    def at(number: int) -> None:
        """Follows each link of the step, then comes back to its story."""
        page = visit.go("/demo")
        step(page, number)
        told.append(page.locator("aside.strip").inner_text())

    def sees(path: str, *words: str | re.Pattern[str]) -> None:
        page = visit.go(path)
        expect(page.locator("aside.strip .mark")).to_have_text("Simulated")
        for each in words:
            expect(page.locator("main")).to_contain_text(each, timeout=SLOW)

    def in_state(state: str, path: str) -> None:
        expect(visit.go(path).locator(f"main [data-state={state}]").first).to_be_visible(timeout=SLOW)

    def goes_on() -> None:
        visit.go("/demo").get_by_role("button", name="Next step").click()

    at(1)
    in_state("done", "/convert")
    assert "Only you see" not in visit.page.locator("main").inner_text()  # all browsers see the same here
    sees("/feeds", "Simulated feed 3")
    sees("/tautulli", re.compile(r"[\d,]+ plays since"))
    goes_on()

    at(2)
    assert max(numbers(told[-1])) >= 8  # uploads that wait
    expect(visit.page.locator("#service-gateway .state")).to_have_class("state bad")
    sees("/convert", "Gateway busy, paused.")
    in_state("paused", "/convert")
    in_state("open", "/targets/convert-gateway")
    goes_on()

    at(3)
    sees("/notices", "Spotify")
    assert visit.page.locator("main li.card.bad", has_text="Spotify").count() == 1
    in_state("action", "/music")
    assert "The access ends" not in visit.page.locator("main").inner_text()
    goes_on()

    at(4)
    assert {3, 7} <= set(numbers(told[-1]))  # answers in a row, of this feed
    in_state("disabled", "/feeds/7")
    goes_on()

    at(5)
    sees("/lidarr")
    expect(visit.page.locator("#gauge")).to_have_text("40/40", timeout=SLOW)
    expect(visit.page.locator("#last-wake")).to_have_attribute("data-outcome", "full")
    goes_on()

    at(6)
    in_state("done", "/lidarr?state=submitted")
    goes_on()

    at(7)
    lost = visit.page.request.get(f"{base}/api/v1/jobs?queue=convert&state=failed").json()
    assert lost["items"] == []
    in_state("ok", "/targets/convert-gateway")
    in_state("done", "/convert")
    goes_on()

    page = visit.go("/demo")
    expect(page.locator("aside.strip")).not_to_contain_text("Step 7", timeout=SLOW)
    expect(page.locator("ol.steps > li .state.good")).to_have_count(7)
    expect(page.locator("ol.steps")).not_to_contain_text("Not seen")
    assert not visit.complaints


@pytest.mark.full
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (360, "dark")])
def test_the_page_of_the_demo_is_for_everybody_and_nothing_stands_out_of_it(
    demo: tuple[str, DemoRunner], look: Callable[..., Visit], width: int, scheme: str
) -> None:
    from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]

    page = look(demo[0], width=width, scheme=scheme).go("/demo")
    page.locator("aside.strip").wait_for()

    found = Axe().run(page).response["violations"]
    assert [(each["id"], each["nodes"][0]["html"]) for each in found if each["impact"] in ("serious", "critical")] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.full
@pytest.mark.timeout(300)
def test_buttons_break_and_mend_without_a_script(demo: tuple[str, DemoRunner], look: Callable[..., Visit]) -> None:
    from playwright.sync_api import expect

    base, theatre = demo
    visit = look(base, script=False)

    page = visit.go("/demo")
    row = page.locator("#service-gone")
    expect(row).to_contain_text("Well")
    row.locator("form[action='/demo/services/gone/break'] button").click()

    expect(page.locator("#service-gone .state")).to_have_class("state bad")
    expect(page.locator("#said .said.good")).to_contain_text("11")
    assert theatre.environment.services.feeds.state(11) == "gone"
    rests(visit.page, f"{base}/feeds/11")

    page = visit.go("/demo")
    page.locator("#service-gone").get_by_role("button", name="Mend it").click()
    expect(page.locator("#service-gone")).to_contain_text("Well")
    assert theatre.environment.services.feeds.state(11) == "well"


def rests(page: Page, url: str) -> None:
    """Without a script nothing refreshes itself."""
    from playwright.sync_api import expect

    for _ in range(60):
        page.goto(url)
        if page.locator("h1 + *, .head").get_by_text("Resting").count():
            return
        page.wait_for_timeout(500)
    expect(page.locator("main")).to_contain_text("Resting")


@pytest.mark.full
def test_every_button_breaks_its_service_and_mends_it(demo: tuple[str, DemoRunner]) -> None:

    from tidegate.web.app import build
    from tidegate_demo.story import TROUBLES

    stage = demo[1].environment
    site = Site(queue=stage["demo"].queue, apps=[stage["demo"]])
    client = LocalClient(
        build(site), client=("127.0.0.1", 50000), base_url="http://127.0.0.1", headers={"origin": "http://127.0.0.1"}
    )
    for name, trouble in TROUBLES.items():
        for verb, on in (("break", True), ("mend", False)):
            found = client.post(f"/demo/services/{name}/{verb}", follow_redirects=False)
            assert (found.status_code, trouble.on(stage)) == (303, on), (name, verb)
    assert client.post("/demo/services/nobody/break").status_code == 404
    stranger = client.post("/demo/services/gateway/break", headers={"origin": "http://elsewhere.example"})
    assert (stranger.status_code, stage.services.gateway.state) == (403, "well")

    client.post("/demo/services/navidrome/break")
    assert client.post("/demo/story/again", follow_redirects=False).status_code == 303
    assert not any(trouble.on(stage) for trouble in TROUBLES.values())
    assert stage["feeds"].jobs.sources.get(11).feed_disabled_at is None
    assert demo[1].player.place in (None, 0)
    client.post("/demo/story/end")
    assert demo[1].player.over
