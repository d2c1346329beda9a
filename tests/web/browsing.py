"""The system's Chromium, and pages that keep account of what goes wrong in them."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, ConsoleMessage, Page, Request, expect, sync_playwright

_NAMES = ("chromium", "chromium-browser", "google-chrome")
PATIENCE = 30_000  # milliseconds: nothing here is about how quick the machine is
expect.set_options(timeout=PATIENCE)


def chromium() -> str | None:
    """Where the browser is: $CHROMIUM, or the one of the system."""
    given = os.environ.get("CHROMIUM")
    if given:
        return given if Path(given).exists() else None
    return next((found for name in _NAMES if (found := shutil.which(name))), None)


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    found = chromium()
    if found is None:
        raise FileNotFoundError("there is no Chromium; install it (make browser), or say where it is in CHROMIUM")
    with sync_playwright() as playwright:
        # As root, as in a container, Chromium does not start with its sandbox.
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        opened = playwright.chromium.launch(executable_path=found, args=options, timeout=3 * PATIENCE)
        try:
            yield opened
        finally:
            opened.close()


@dataclass
class Visit:
    """One page of a browser, and what it complained of: errors, refused requests, broken policies."""

    page: Page
    base: str
    complaints: list[str] = field(default_factory=list)

    def go(self, path: str) -> Page:
        self.page.goto(self.base + path)
        return self.page

    def hear(self, path: str) -> Page:
        """Goes there, and waits for the server's first word: by then the notices stand beside the page."""
        self.go(path).locator("#live").wait_for()
        return self.page


def told(page: Page, tone: str, *about: str, undo: str = "") -> None:
    """Waits for a page with a message of this tone about these names, which can be undone at *undo* or not at all."""
    message = page.locator(f"#said .said.{tone}")
    expect(message.locator("form")).to_have_count(1 if undo else 0)
    if undo:
        expect(message.locator("form")).to_have_attribute("action", undo)
    for each in about:
        expect(message).to_contain_text(each)


@contextlib.contextmanager
def visit(
    opened: Browser, base: str, *, script: bool = True, scheme: Any = "light", width: int = 1280
) -> Iterator[Visit]:
    context = opened.new_context(
        java_script_enabled=script, color_scheme=scheme, viewport={"width": width, "height": 900},
        reduced_motion="reduce",
    )  # fmt: skip
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    found = Visit(page, base)

    def heard(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            found.complaints.append(f"{page.url}: {message.text}")

    def failed(request: Request) -> None:
        if request.failure != "net::ERR_ABORTED":  # the reader has gone on
            found.complaints.append(f"{request.url}: {request.failure}")

    page.on("console", heard)
    page.on("pageerror", lambda error: found.complaints.append(f"{page.url}: {error}"))
    page.on("requestfailed", failed)
    try:
        yield found
    finally:
        context.close()
