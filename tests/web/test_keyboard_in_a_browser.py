"""With the keyboard alone: everything is reached, in order, once, in sight, and can be pressed with Enter and Space."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.web.browsing import told, visit
from tests.web.every_page import Group, every_page
from tests.web.test_every_page_in_a_browser import reader
from tidegate import Queue

MOST = 400  # presses of Tab
WALKED = (
    "overview", "target-needs-you", "queue-failed", "sign-in", "job-failed", "notices", "people", "person", "help",
)  # fmt: skip
# The next Tab begins at the top of the page.
FROM_THE_TOP = """() => { const body = document.body; scrollTo(0, 0);
    body.tabIndex = -1; body.focus(); body.removeAttribute("tabindex") }"""
# All that a reader can stop at, as it stands in the page.
STOPS = """() => { window.stops = [...document.querySelectorAll(
        "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']")]
    .filter((each) => each.checkVisibility({ visibilityProperty: true }) && !each.disabled);
    const radios = new Set();
    window.stops = window.stops.filter((each) => each.type !== "radio" || each.checked && !radios.has(each.name)
        && radios.add(each.name));
    return window.stops.length }"""
# Where the focus is among them, and what is wrong with it there.
HERE = """() => { const at = document.activeElement, box = at.getBoundingClientRect(), style = getComputedStyle(at);
    const wrong = [];
    const ring = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
    if (!ring) wrong.push("no ring");
    if (box.bottom <= 0 || box.top >= innerHeight) wrong.push("out of sight");
    const hit = document.elementFromPoint(Math.min(box.x + box.width / 2, innerWidth - 1),
        Math.min(Math.max(box.y + Math.min(box.height, 20) / 2, 0), innerHeight - 1));
    if (!at.closest("#toasts") && hit?.closest("#toasts")) wrong.push("under a notice");
    return [window.stops.indexOf(at), wrong, at.outerHTML.slice(0, 100)] }"""


@pytest.fixture
def groups(q: Queue, tmp_path: Path) -> Iterator[list[Group]]:
    with every_page(q, tmp_path) as found:
        yield found


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("width", [360, 1280])
def test_tab_reaches_everything_once_in_order_and_in_sight(opened: Browser, groups: list[Group], width: int) -> None:
    for group in (groups[0], groups[2]):
        with reader(opened, group, width=width) as tab:
            for name in WALKED if width == 1280 else WALKED[::3]:
                if name not in group.pages:
                    continue
                page = tab.go(group.pages[name])
                if name != "sign-in":
                    page.locator(".toast").first.wait_for()
                    page.get_by_role("button", name="Turn updates off").click()  # what is walked over stays as it is
                n = page.evaluate(STOPS)
                page.evaluate(FROM_THE_TOP)
                seen: list[int] = []
                for _ in range(min(n, MOST)):
                    page.keyboard.press("Tab")
                    at, wrong, html = page.evaluate(HERE)
                    assert wrong == [], (name, html)
                    seen.append(at)
                assert seen == list(range(len(seen))), name
                assert len(seen) > 3
                page.evaluate("localStorage.clear()")


@pytest.mark.full
def test_what_opens_and_what_acts_does_so_with_space_and_with_enter(opened: Browser, served: str) -> None:
    with visit(opened, served, script=False) as tab:
        page = tab.go("/targets/lidarr")
        pause = page.get_by_text("Pause…", exact=True)
        pause.focus()
        page.keyboard.press("Space")
        page.keyboard.press("Tab")
        expect(page.get_by_label("Reason")).to_be_focused()
        page.keyboard.press("Tab")
        expect(page.locator("form[action='/targets/lidarr/pause'] button[value='15m']")).to_be_focused()
        page.keyboard.press("Space")
        told(page, "good", "lidarr", undo="/targets/lidarr/resume")
        page.get_by_role("button", name="Undo").focus()
        page.keyboard.press("Enter")
        told(page, "good", "lidarr")
        assert tab.complaints == []
