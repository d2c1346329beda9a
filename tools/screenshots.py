"""Pictures of every page, light and dark, narrow and wide, with and without data: `make screenshots`."""

from __future__ import annotations

import logging
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, FloatRect

from tests.web.browsing import browser, visit
from tests.web.every_page import Group, every_page
from tests.web.seeding import seeded
from tidegate.web.auth import COOKIE

# The notices beside a page were seen before, and the chip has its word: the same picture every time.
SEEN = "sessionStorage.setItem('tidegate.toasts', JSON.stringify([...Array(300).keys()]))"
ALIVE = "() => !document.getElementById('live')?.hidden"
WIDTHS = (360, 1280)
SCHEMES = ("light", "dark")
MOST_HEIGHT = 1800  # of a picture


def taken(opened: Browser, group: Group, into: Path, named: set[str]) -> int:
    """So many pictures were taken."""
    chosen = {name: path for name, path in group.pages.items() if not named or name in named}
    n = 0
    for scheme in SCHEMES:
        for width in WIDTHS if chosen else ():
            with visit(opened, group.base, scheme=scheme, width=width) as tab:
                if group.session:
                    tab.page.context.add_cookies([{"name": COOKIE, "value": group.session, "url": group.base}])
                tab.page.add_init_script(SEEN)
                for name, path in chosen.items():
                    page = tab.go(path)
                    page.wait_for_function(ALIVE)
                    height = min(MOST_HEIGHT, int(page.evaluate("document.documentElement.scrollHeight")))
                    picture: FloatRect = {"x": 0, "y": 0, "width": width, "height": height}
                    page.screenshot(path=into / f"{name}-{scheme}-{width}.png", full_page=True, clip=picture)
                    n += 1
                for complaint in tab.complaints:
                    print(complaint, file=sys.stderr)
    return n


def main() -> int:
    logging.disable(logging.CRITICAL)
    into = Path("build/screenshots")
    into.mkdir(parents=True, exist_ok=True)
    named = set(sys.argv[1:])
    with (
        tempfile.TemporaryDirectory() as folder,
        seeded(Path(folder)) as q,
        every_page(q, Path(folder)) as groups,
        browser() as opened,
    ):
        n = sum(taken(opened, group, into, named) for group in groups)
    print(f"{n} pictures are in {into}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
