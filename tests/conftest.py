from __future__ import annotations

import gc
import logging
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import argon2
import pytest
from hypothesis import HealthCheck, settings

from tests.tiers import mark_full

if TYPE_CHECKING:
    from tests.databases import Database

pytest_plugins = ["tools.recorder"]

# The same examples every time, however long the machine takes for one of them.
settings.register_profile("steady", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")


def pytest_configure() -> None:
    """A password costs 200 ms of the processor, on purpose; in this process a thousandth, as it is never attacked."""
    cheap = partial(argon2.PasswordHasher, time_cost=1, memory_cost=64, parallelism=1)
    pytest.MonkeyPatch().setattr(argon2, "PasswordHasher", cheap)
    # Who was started in the background by a shell ignores Ctrl-C, and so would all that the tests start.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)  # before -m chooses by marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks what only `make test-full` runs, and starts the tests with the longest time limits first."""
    mark_full(items)
    usual = config.getoption("timeout") or float(config.getini("timeout"))

    def allowed(item: pytest.Item) -> float:
        own = item.get_closest_marker("timeout")
        return usual if own is None else float(own.args[0])

    items.sort(key=allowed, reverse=True)


def pytest_collection_finish() -> None:
    """What was loaded by now stays: whoever collects garbage, as many tests do, need not look at it each time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _the_log_stays_as_it_was() -> Iterator[None]:
    """A command that runs in this process writes its log to a stream that is closed when its test has ended."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    for each in [each for each in root.handlers if each.get_name() == "tidegate" and each not in handlers]:
        root.removeHandler(each)
    root.setLevel(level)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Coroutine tests run on asyncio, the one loop that Tidegate supports."""
    return "asyncio"


@pytest.fixture(params=["sqlite-apsw", "postgres"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """An empty database: SQLite by apsw, and PostgreSQL; parametrize it indirectly to choose among all there are."""
    from tests.databases import database  # most tests need none of it

    with database(request.param, tmp_path) as found:
        yield found
