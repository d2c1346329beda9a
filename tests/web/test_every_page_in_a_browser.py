"""Every page, light and dark, narrow and wide: no finding of axe, and nothing lies over what can be pressed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Browser, Page, expect

from tests.web.browsing import Visit, visit
from tests.web.every_page import Group, every_page
from tidegate import Queue
from tidegate.web.auth import COOKIE

AXE = Axe()
# A notice is shown once to each tab; these tabs have never seen one.
UNSEEN = "sessionStorage.removeItem('tidegate.toasts')"
# What a reader would press, brought into sight as little as possible: what is in its middle?
COVERED = """async () => {
    const found = [];
    for (const each of document.querySelectorAll("button, summary, a, input:not([type=hidden]), select")) {
        if (!each.checkVisibility({ visibilityProperty: true, contentVisibilityAuto: true }) || each.disabled) continue;
        if (each.matches(".skip, .toast *, #toasts-more")) continue;
        each.scrollIntoView({ block: "nearest", inline: "nearest", behavior: "instant" });
        const box = each.getClientRects()[0];
        if (!box || box.width < 2) continue;
        const hit = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
        if (!hit || !(each.contains(hit) || hit.contains(each) && !hit.closest("#toasts")))
            found.push(`${each.outerHTML.slice(0, 90)} is under ${hit?.outerHTML.slice(0, 90)}`);
    }
    return found }"""


# What is wider than the page although nothing around it scrolls, and what was squeezed until nobody can read it.
MISPLACED = """() => {
    const wide = innerWidth, found = [];
    const scrolls = (it) => it && (/auto|scroll/.test(getComputedStyle(it).overflowX) || scrolls(it.parentElement));
    for (const each of document.querySelectorAll("body *")) {
        if (!each.checkVisibility() || each.closest("svg, .hidden, .skip, [popover], thead") || scrolls(each)) continue;
        const box = each.getBoundingClientRect();
        if (box.width && (box.left < -1 || box.right > wide + 1)) found.push(`outside: ${each.outerHTML.slice(0, 90)}`);
    }
    const blocks = "main > :not(.hidden), main form input:not([type=hidden], [type=radio])";
    for (const each of document.querySelectorAll(blocks))
        if (each.checkVisibility() && each.offsetHeight && each.offsetWidth < Math.min(60, wide))
            found.push(`squeezed: ${each.outerHTML.slice(0, 90)}`);
    return found }"""


@pytest.fixture
def groups(q: Queue, tmp_path: Path) -> Iterator[list[Group]]:
    with every_page(q, tmp_path) as found:
        yield found


@contextmanager
def reader(opened: Browser, group: Group, **more: Any) -> Iterator[Visit]:
    with visit(opened, group.base, **more) as tab:
        if group.session:
            tab.page.context.add_cookies([{"name": COOKIE, "value": group.session, "url": group.base}])
        tab.page.add_init_script(UNSEEN)
        yield tab


def findings(page: Page, where: str, **options: Any) -> list[str]:
    """What axe calls serious or critical."""
    return [
        f"{where}: {each['id']} {node['html'][:150]}"
        for each in AXE.run(page, options={"resultTypes": ["violations"], **options}).response["violations"]
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]


@pytest.mark.full
@pytest.mark.timeout(600)  # all of them, however busy the machine is
def test_no_page_has_a_serious_finding_in_light_or_dark(opened: Browser, groups: list[Group]) -> None:
    found: list[str] = []
    for group in groups:
        with reader(opened, group) as tab:
            for name, path in group.pages.items():
                page = tab.go(path)
                found += findings(page, f"{name} in light")
                page.emulate_media(color_scheme="dark")
                # Of all that axe looks at, only colours are other ones in the dark.
                found += findings(page, f"{name} in dark", runOnly=["color-contrast"])
                page.emulate_media(color_scheme="light")
    assert found == []


# One page of each template.
SAMPLE = ("overview", "target-needs-you", "queue-failed", "job-failed", "failures", "notices", "settings", "sign-in")


def test_a_page_of_each_kind_has_no_serious_finding_and_nothing_misplaced(opened: Browser, groups: list[Group]) -> None:
    sample = [(group, name) for group in groups for name in SAMPLE if name in group.pages]
    assert {name for _, name in sample} == set(SAMPLE)
    for group, name in sample:
        with reader(opened, group) as tab:
            page = tab.go(group.pages[name])
            assert findings(page, name) == []
            assert page.evaluate(MISPLACED) == [], name


SILENT = ("sign-in",)  # nobody is recognised there, so no notice is shown


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("width", [320, 1280])
def test_all_is_in_its_place_and_can_be_hit_while_notices_are_shown(
    opened: Browser, groups: list[Group], width: int
) -> None:
    for group in groups:
        with reader(opened, group, width=width) as tab:
            for name, path in group.pages.items():
                page = tab.go(path)
                if name not in SILENT and group.base == groups[0].base:
                    # How many there is room for, the length of the menu decides; the next line judges them.
                    expect(page.locator(".toast").nth(1 if width == 1280 else 0)).to_be_visible()
                assert page.evaluate(COVERED) == [], name
                assert page.evaluate(MISPLACED) == [], name
                for between in (740, 1024) if width == 1280 else ():
                    page.set_viewport_size({"width": between, "height": 900})
                    assert page.evaluate(MISPLACED) == [], (name, between)
                page.set_viewport_size({"width": width, "height": 900})
