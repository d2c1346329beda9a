"""The page as people use it: with and without script, narrow and wide, dark and light."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Browser, expect

from tests.apps.convert.building import XML, pdf
from tests.web.browsing import browser, chromium, told, visit
from tests.web.conftest import NO_BROWSER
from tests.web.serving import running
from tidegate import Queue
from tidegate.apps import install
from tidegate.guard import Seconds
from tidegate.server import WorkerThread
from tidegate.web.site import Site
from tidegate_apps.convert.app import app
from tidegate_apps.convert.settings import ConvertSettings
from tidegate_demo.simulators.convert import FAILURES, PROCESS, GatewaySimulator

pytestmark = pytest.mark.skipif(chromium() is None, reason=NO_BROWSER)


class Served:
    """Convert with a worker, in this process, and its address."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.sim = stack.enter_context(GatewaySimulator())
        self.queue = stack.enter_context(Queue(f"sqlite:///{folder / 'jobs.db'}"))
        settings = ConvertSettings(
            gateway_url=self.sim.url, storage=str(folder / "files"), least_free=0, most_bytes=1024 * 1024,
            probe_every=Seconds(0.3), retry_after=Seconds(0.1), anonymous=True,
        )  # fmt: skip
        self.there = install(app, self.queue, settings)
        stack.push(self.there.closing)
        self.base = stack.enter_context(running(Site(queue=self.queue, apps=[self.there])))
        engine = WorkerThread(lambda stop: self.queue.arun_worker(4, stop=stop))
        engine.start()
        stack.callback(engine.join, 30)
        stack.callback(engine.ask)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with ExitStack() as stack:
        yield Served(tmp_path_factory.mktemp("page"), stack)


@pytest.fixture(scope="module")
def opened(served: Served) -> Iterator[Browser]:
    with browser() as found:
        yield found


def made(folder: Path, name: str, content: bytes) -> Path:
    (folder / name).write_bytes(content)
    return folder / name


def test_a_file_is_chosen_converted_seen_and_downloaded_with_the_page_left_open(
    served: Served, opened: Browser, tmp_path: Path
) -> None:
    with visit(opened, served.base) as tab:
        page = tab.go("/convert")
        expect(page.locator("#limits")).to_contain_text("1 MB")
        page.set_input_files("#file", made(tmp_path, "tide.pdf", pdf()))
        page.get_by_label("Mapping").select_option("layout")
        page.get_by_role("button", name="Convert", exact=True).click()
        row = page.locator("#files tr", has_text="tide.pdf")
        expect(row).to_contain_text("Complete")
        expect(row.locator("[data-label=Mapping]")).to_have_text("layout")
        expect(page.get_by_label("Mapping")).to_have_value("layout")
        expect(page.locator("#file")).to_have_value("")
        with page.expect_download() as download:
            row.locator("a[href$='/download']").click()
        assert download.value.suggested_filename == "tide.xml"
        assert b"<document" in Path(download.value.path()).read_bytes()
        row.get_by_role("link", name="tide.pdf").first.click()
        expect(page.locator("pre")).to_contain_text("<document")
        assert tab.complaints == []


def test_what_is_refused_says_why_beside_the_file(served: Served, opened: Browser, tmp_path: Path) -> None:
    with visit(opened, served.base, width=320) as tab:
        page = tab.go("/convert")
        page.set_input_files("#file", made(tmp_path, "large.pdf", pdf(size=1024 * 1024 + 1)))
        page.get_by_role("button", name="Convert", exact=True).click()
        expect(page.locator("#progress .state.bad")).to_contain_text("File exceeds 1 MB limit.")
        page.set_input_files("#file", made(tmp_path, "zip.pdf", b"PK zip"))
        page.get_by_role("button", name="Convert", exact=True).click()
        expect(page.locator("#progress")).to_contain_text("Only PDF files are supported.")
        row = page.locator("#files tr", has_text="zip.pdf")
        expect(row).to_contain_text("Failed")
        assert row.get_by_role("button", name="Retry").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth") <= 320


@pytest.mark.full
@pytest.mark.parametrize("beside", ["#upload", "#files"])
def test_a_file_that_is_dropped_on_the_page_is_taken(served: Served, opened: Browser, beside: str) -> None:
    with visit(opened, served.base) as tab:
        page = tab.go("/convert")
        name = f"dropped on {beside[1:]}.pdf"
        kept = page.evaluate(
            """([beside, name]) => {
                const data = new DataTransfer();
                data.items.add(new File([`%PDF-1.7 ${name}`], name, {type: "application/pdf"}));
                const event = new DragEvent("drop", {dataTransfer: data, bubbles: true, cancelable: true});
                return document.querySelector(beside).dispatchEvent(event);
            }""",
            [beside, name],
        )
        assert not kept, "the browser would show the file in place of the page"
        expect(page.locator("#files tr", has_text=name)).to_contain_text("Complete")


@pytest.mark.full
@pytest.mark.req("CNV-08")
def test_the_page_tells_of_a_gateway_that_is_away_and_of_its_return(
    served: Served, opened: Browser, tmp_path: Path
) -> None:
    served.sim.outage("1h down")
    try:
        with visit(opened, served.base) as tab:
            page = tab.go("/convert")
            page.set_input_files("#file", made(tmp_path, "held.pdf", pdf()))
            page.get_by_role("button", name="Convert", exact=True).click()
            expect(page.locator("#gateway")).to_contain_text("Gateway busy, paused. Will retry automatically.")
            expect(page.locator("#gateway a")).to_have_attribute("href", "/targets/convert-gateway")
            row = page.locator("#files tr", has_text="held.pdf")
            expect(row).to_contain_text("Gateway busy, paused. Will retry automatically.")
            served.sim.outage(None)
            expect(row).to_contain_text("Complete")
            expect(page.locator("#upload .drag")).to_be_visible()
            expect(page.locator("#file")).to_have_js_property("multiple", True)
            expect(page.locator("#gateway")).to_have_count(0)
    finally:
        served.sim.outage(None)


@pytest.mark.req("CNV-09")
def test_without_script_a_file_is_uploaded_retried_and_fetched(served: Served, opened: Browser, tmp_path: Path) -> None:
    served.sim.then(PROCESS, FAILURES["encrypted"])
    with visit(opened, served.base, script=False, scheme="dark", width=360) as tab:
        page = tab.go("/convert")
        page.set_input_files("#file", made(tmp_path, "plain.pdf", pdf()))
        page.get_by_role("button", name="Convert", exact=True).click()
        told(page, "good", "plain.pdf")
        row = page.locator("#files tr", has_text="plain.pdf")
        for _ in range(100):
            if row.locator("[data-state=failed]").count():
                break
            threading.Event().wait(0.1)
            page.reload()
        expect(row.locator(".how")).to_have_attribute("data-code", "GW_4XX")
        row.locator("form[action$='/retry'] button").click()
        told(page, "good", "plain.pdf")
        for _ in range(100):
            if row.locator("[data-state=done]").count():
                break
            threading.Event().wait(0.1)
            page.reload()
        expect(row.locator("a[href$='/download']")).to_be_visible()
        page.set_input_files("#file", made(tmp_path, "no.pdf", XML))
        page.get_by_role("button", name="Convert", exact=True).click()
        told(page, "bad", "Only PDF files are supported.")
        page.wait_for_load_state("load")  # with its style
        assert page.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.mark.full
def test_a_visitor_without_a_name_sees_their_own_and_the_list_stays_true(
    served: Served, opened: Browser, tmp_path: Path
) -> None:
    with visit(opened, served.base) as tab:
        tab.page.set_extra_http_headers({"X-Forwarded-For": "203.0.113.9"})
        page = tab.go("/convert")
        assert page.locator("#files tbody tr").count() == 0
        assert page.get_by_text("Pause uploads…").count() == 0
        page.set_input_files("#file", made(tmp_path, "visitor.pdf", pdf()))
        page.get_by_role("button", name="Convert", exact=True).click()
        expect(page.locator("#files tr", has_text="visitor.pdf")).to_contain_text("Complete")


@pytest.mark.full
@pytest.mark.req("CNV-18")
def test_uploads_are_paused_and_taken_again_on_the_page(served: Served, opened: Browser) -> None:
    with visit(opened, served.base) as tab:
        page = tab.go("/convert")
        page.get_by_text("Pause uploads…").click()
        page.locator("form[action='/convert/uploads/pause'] button[value='15m']").click()
        expect(page.locator("[data-closed='paused']")).to_be_visible()
        assert page.locator("#file").count() == 0
        page.locator("form[action='/convert/uploads/resume'] button").click()
        expect(page.locator("#file")).to_be_visible()


@pytest.mark.full
@pytest.mark.req("CNV-18")
def test_the_runbook_is_in_help_and_each_section_has_metric_page_and_command(served: Served, opened: Browser) -> None:
    with visit(opened, served.base) as tab:
        page = tab.go("/help")
        page.locator("main a[href='/convert/help']").click()
        sections = page.locator("section.panel")
        expect(sections).to_have_count(4)
        for n in range(4):
            assert sections.nth(n).locator("dt").all_inner_texts() == ["Metric", "Page", "Command"]
        for link in sections.locator("dd a").all():
            path = str(link.get_attribute("href"))
            # Nobody has called the gateway of this test by that name before the first job.
            assert page.request.get(served.base + path).ok, path


@pytest.mark.full
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_on_its_pages(served: Served, opened: Browser, tmp_path: Path, scheme: str) -> None:
    served.sim.then(PROCESS, FAILURES["encrypted"])
    with visit(opened, served.base, scheme=scheme, width=360) as tab:
        page = tab.go("/convert")
        page.set_input_files("#file", made(tmp_path, f"{scheme}.pdf", pdf()))
        page.get_by_role("button", name="Convert", exact=True).click()
        row = page.locator("#files tr", has_text=f"{scheme}.pdf")
        expect(row).to_contain_text("Failed")
        path = str(row.get_by_role("link").first.get_attribute("href"))
        for where in ("/convert", path, "/convert/help"):
            tab.go(where)
            found = Axe().run(tab.page, options={"resultTypes": ["violations"]}).response["violations"]
            assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in found] == [], where
            assert tab.page.evaluate("document.documentElement.scrollWidth") <= 360, where
