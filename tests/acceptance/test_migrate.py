"""The blocks of migrate-from-celery-huey-tenacity.md do what the page says, and Tidegate's are the shortest."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from tidegate import BreakerOpen
from tidegate.testing import Simulator, Status

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "migrate-from-celery-huey-tenacity.md"
DELAY = 300.0  # seconds
ALLOWED = 60.0  # seconds that a block may take to run


def blocks() -> dict[str, dict[str, str]]:
    """The code of each section by library."""
    _, *sections = PAGE.read_text().split("\n## ")
    found = {
        each.splitlines()[0]: dict(re.findall(r"^### (\S+)\n\n```python\n(.*?)^```$", each, re.MULTILINE | re.DOTALL))
        for each in sections
    }
    return {title: code for title, code in found.items() if code}


BLOCKS = blocks()
RETRY, BREAKER, HUEY, CELERY = BLOCKS.values()


@pytest.fixture
def service() -> Iterator[Simulator]:
    with Simulator() as simulator:
        yield simulator


def run(code: str, service: Simulator | None = None) -> dict[str, Any]:
    """The names that a block defines; with a *service* it has the client of the page."""
    names: dict[str, Any] = {"__name__": "page"}
    if service is not None:
        names |= {"httpx": httpx, "URL": service.url, "client": httpx.Client(base_url=service.url)}
    exec(compile(code, "page", "exec", dont_inherit=True), names)
    return names


def length(code: str) -> int:
    return sum(bool(line.strip()) for line in code.splitlines())


def test_the_page_compares_with_these_libraries() -> None:
    assert [list(each) for each in BLOCKS.values()] == [
        ["tenacity", "stamina", "Tidegate"],
        ["pybreaker", "Tidegate"],
        ["Huey", "Tidegate"],
        ["Celery", "Tidegate"],
    ]


@pytest.mark.parametrize("task", BLOCKS)
def test_ours_is_not_longer_than_the_shortest_other(task: str) -> None:
    lengths = {library: length(code) for library, code in BLOCKS[task].items()}

    assert lengths["Tidegate"] == min(lengths.values())


@pytest.mark.parametrize("library", RETRY)
def test_the_third_attempt_succeeds_and_there_is_no_fourth(library: str, service: Simulator) -> None:
    names = run(RETRY[library], service)
    service.on("GET /users/7", Status(503), Status(503), {"name": "Ada"})
    service.on("GET /users/8", Status(503))

    assert names["user"](7) == {"name": "Ada"}
    with pytest.raises(httpx.HTTPStatusError):
        names["user"](8)

    assert (service.count("GET /users/7"), service.count("GET /users/8")) == (3, 3)
    names["client"].close()


def test_a_404_is_retried_by_others_and_not_by_ours(service: Simulator) -> None:
    service.on("GET /users/9", Status(404))

    asked = {}
    for library, code in RETRY.items():
        before = service.count("GET /users/9")
        names = run(code, service)
        with pytest.raises(httpx.HTTPStatusError):
            names["user"](9)
        names["client"].close()
        asked[library] = service.count("GET /users/9") - before

    assert asked == {"tenacity": 3, "stamina": 3, "Tidegate": 1}


@pytest.mark.parametrize("library", BREAKER)
def test_after_five_failures_nothing_reaches_the_service(library: str, service: Simulator) -> None:
    import pybreaker

    names = run(BREAKER[library], service)
    get: Callable[[str], object] = names.get("get") or names["client"].get
    service.on("GET /users/7", Status(503))
    for _ in range(5):
        with contextlib.suppress(httpx.HTTPStatusError, pybreaker.CircuitBreakerError):
            get("/users/7")
    with pytest.raises((BreakerOpen, pybreaker.CircuitBreakerError)):
        get("/users/7")

    assert service.count("GET /users/7") == 5
    names["client"].close()


@pytest.mark.parametrize(("library", "opens"), [("Tidegate", False), ("pybreaker", True)])
def test_responses_404_open_the_other_breaker_and_not_ours(library: str, opens: bool, service: Simulator) -> None:
    names = run(BREAKER[library], service)
    get: Callable[[str], object] = names.get("get") or names["client"].get
    service.on("GET /users/9", Status(404))
    for _ in range(8):
        with contextlib.suppress(Exception):
            get("/users/9")

    assert (service.count("GET /users/9") < 8) is opens
    names["client"].close()


@pytest.mark.parametrize("section", [HUEY, CELERY], ids=["Huey", "Celery"])
def test_our_job_is_due_in_five_minutes_with_five_attempts(
    section: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = run(section["Tidegate"])

    with names["q"]:
        due_at = names["job"].get().due_at
        assert names["job"].get().most_attempts == 5
        assert DELAY - ALLOWED < due_at - datetime.now(UTC).timestamp() <= DELAY
        assert names["send"]("Ada", "hello") == "hello, Ada"


def test_the_job_of_huey_is_due_in_five_minutes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = run(HUEY["Huey"])
    huey = names["huey"]
    now = datetime.now(UTC).replace(tzinfo=None)

    task = huey.dequeue()

    assert (task.retries, task.retry_delay) == (4, 10)
    assert not huey.ready_to_run(task, now + timedelta(seconds=DELAY - ALLOWED))
    assert huey.ready_to_run(task, now + timedelta(seconds=DELAY))
    assert huey.execute(task, now + timedelta(seconds=DELAY)) == "hello, ada@example.org"
    huey.storage.close()


def test_the_job_of_celery_is_due_in_five_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CELERY_BROKER_URL", "memory://")  # instead of the Redis of the page
    names = run(CELERY["Celery"])

    assert names["send"].max_retries == 4
    with names["app"].connection_for_read() as connection:
        message = connection.default_channel.basic_get("celery")
    due = datetime.fromisoformat(message.headers["eta"])
    assert DELAY - ALLOWED < (due - datetime.now(UTC)).total_seconds() <= DELAY
    assert message.payload[0] == ["ada@example.org", "hello"]
