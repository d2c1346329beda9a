"""A browser for the tests of the demo."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.web.browsing import Visit


@pytest.fixture(scope="module")
def opened() -> Iterator[Browser]:
    from tests.web.browsing import browser, chromium
    from tests.web.conftest import NO_BROWSER

    if chromium() is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(NO_BROWSER)
    with browser() as found:
        yield found


@pytest.fixture
def look(opened: Browser) -> Iterator[Callable[..., Visit]]:
    """Opens a page of a server, with what `visit` takes."""
    from tests.web.browsing import visit

    def at(base: str, **how: Any) -> Visit:
        return stack.enter_context(visit(opened, base, **how))

    with ExitStack() as stack:
        yield at
