"""The pictures of the demo in the documentation, light and dark: `make pictures`. It plays the story for them."""

from __future__ import annotations

import json
import logging
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Literal

from PIL import Image
from playwright.sync_api import Page, expect

from tests.web.browsing import browser, visit

INTO = Path("docs/pictures")
# At which step of the story, of which page, under which name.
PICTURES = (
    (2, "/convert", "demo-convert"),
    (3, "/music", "demo-music"),
    (5, "/", "demo-overview"),
    (7, "/demo", "demo-story"),
)
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
WIDTH, HEIGHT = 1280, 800
COLOURS = 128
# Notices stay beside the pages; the same ones on every picture.
SEEN = "sessionStorage.setItem('tidegate.toasts', JSON.stringify([...Array(300).keys()]))"


@contextmanager
def demo() -> Iterator[str]:
    """The address of one that runs."""
    command = [str(Path(sys.executable).with_name("tidegate")), "demo", "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        try:
            if running.stdout is None:
                raise RuntimeError("the demo says nothing")
            yield json.loads(running.stdout.readline())["address"].removesuffix("/demo")
        finally:
            running.send_signal(signal.SIGINT)


def go_on_to(page: Page, base: str, step: int) -> None:
    """Waits until what each step tells has happened, and presses the button for the next."""
    for number in range(1, step + 1):
        page.goto(f"{base}/demo")
        at = int(page.locator("aside.strip").inner_text().partition("Step ")[2].partition(" of ")[0] or 1)
        if at > step:
            raise RuntimeError(f"step {step} is over before its pictures were taken; try again")
        if at > number:
            continue  # it has ended by itself
        expect(page.locator("ol.steps > li[aria-current=step]")).to_contain_text("Seen", timeout=120_000)
        if number < step:
            page.get_by_role("button", name="Next step").click()
            expect(page.locator("aside.strip")).to_contain_text(f"Step {number + 1} of", timeout=30_000)


def taken(page: Page) -> bytes:
    """As few colours as it needs: a picture of a page has few."""
    picture = Image.open(BytesIO(page.screenshot())).convert("RGB").quantize(COLOURS)
    out = BytesIO()
    picture.save(out, "PNG", optimize=True)
    return out.getvalue()


def main() -> int:
    logging.disable(logging.CRITICAL)
    with demo() as base, browser() as opened, visit(opened, base, width=WIDTH) as tab:
        tab.page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
        tab.page.add_init_script(SEEN)
        for step, path, name in PICTURES:
            go_on_to(tab.page, base, step)
            tab.hear(path)
            for scheme in SCHEMES:
                tab.page.emulate_media(color_scheme=scheme)
                made = taken(tab.page)
                (INTO / f"{name}-{scheme}.png").write_bytes(made)
                print(f"{name}-{scheme}.png has {len(made) // 1024} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
