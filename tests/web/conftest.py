"""A server with a past for the tests of the pages, and a browser for those that need one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.web.api.building import Shop, filled, shop
from tests.web.seeding import END, seeded
from tests.web.serving import running
from tidegate import Queue
from tidegate.clock import VirtualClock
from tidegate.web.site import Site

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.web.browsing import Visit

NO_BROWSER = "NO BROWSER, so no page was tested: run `make browser`, or say in CHROMIUM where one is"


@pytest.fixture(scope="session")
def seed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The database of three hours, to be copied."""
    folder = tmp_path_factory.mktemp("seed")
    with seeded(folder):
        pass
    return folder / "tidegate.db"


@pytest.fixture
def q(seed: Path, tmp_path: Path) -> Iterator[Queue]:
    """A copy of it, at the moment where it ends."""
    shutil.copy(seed, tmp_path / "tidegate.db")
    with Queue(f"sqlite:///{tmp_path / 'tidegate.db'}", clock=VirtualClock(END), inline=True) as found:
        yield found


@pytest.fixture
def served(q: Queue) -> Iterator[str]:
    """The address of a server on that copy."""
    with running(Site(queue=q)) as base:
        yield base


@pytest.fixture
def serve() -> Iterator[Callable[[Site], str]]:
    """Starts a server of any site."""
    with ExitStack() as stack:
        yield lambda site: stack.enter_context(running(site))


# Not for longer than a module: its loop would be in the way of tests that run one of their own, as the seed does.
@pytest.fixture(scope="module")
def opened(seed: Path) -> Iterator[Browser]:
    from tests.web.browsing import browser, chromium

    if chromium() is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(NO_BROWSER)
    with browser() as found:
        yield found


# -- for pages that follow what happens --------------------------------------------------------------------------------


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Shop]:
    """A small server on the time of the machine."""
    from tests.web.living import elsewhere

    (tmp_path / "jobs.db").write_bytes(elsewhere(filled))
    with shop(tmp_path) as found:
        yield found


@pytest.fixture
def address(there: Shop) -> Iterator[str]:
    with running(Site(queue=there.queue)) as found:
        yield found


@pytest.fixture
def tab(opened: Browser, address: str) -> Iterator[Visit]:
    """A page of it."""
    from tests.web.browsing import visit

    with visit(opened, address) as found:
        yield found
