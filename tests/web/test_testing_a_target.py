"""Test now, on the page of a target: there when something holds it, and an honest word about what came of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.text import message, names
from tests.web.local import LocalClient
from tidegate import Queue, Target
from tidegate.targets import table
from tidegate.web.app import build
from tidegate.web.site import Site

HERE = "http://127.0.0.1"
BUTTON = 'action="/targets/mailer/test"'


@pytest.fixture
def q(tmp_path: Path) -> Iterator[Queue]:
    with Queue(f"sqlite:///{tmp_path / 'jobs.db'}") as found:

        @found.job(queue="mail", name="send", target=Target("mailer", breaker=True), key=lambda to: to)
        def send(to: str) -> None: ...

        send.enqueue("7")
        found.target("mailer").reset()
        yield found


@pytest.fixture
def pages(q: Queue) -> TestClient:
    return LocalClient(build(Site(queue=q)), client=("127.0.0.1", 50000), base_url=HERE, headers={"origin": HERE})


def said(pages: TestClient, **fields: str) -> str:
    """What the page says after the button."""
    answer = pages.post("/targets/mailer/test", data={"back": "/targets/mailer", **fields})
    assert answer.status_code == 200
    return message(answer.text)[1]


def test_the_button_is_there_while_something_holds_the_target(q: Queue, pages: TestClient) -> None:
    mailer = q.target("mailer")
    assert BUTTON not in pages.get("/targets/mailer").text
    mailer.force("open", "1h")
    assert BUTTON in pages.get("/targets/mailer").text
    mailer.pause("1h")
    assert BUTTON not in pages.get("/targets/mailer").text  # the pause comes first, and is a person's
    mailer.resume()
    mailer.reset()
    mailer.key("7").disable("1h")
    assert pages.get("/targets/mailer").text.count(BUTTON) == 2  # of the target, and of its key


def test_what_came_of_it_is_said_and_is_done(q: Queue, pages: TestClient) -> None:
    q.target("mailer").force("open", "1h")

    assert names(said(pages), 1, 7, "mailer")

    row = q.store.read(lambda tx: table.target(tx, "mailer"))
    assert row is not None
    assert row.breaker.state == "half-open"
    assert re.search(r'class="events".*\bjob 1\b', pages.get("/targets/mailer").text, re.DOTALL)
    assert "mailer" in said(pages)


def test_a_key_is_tested_by_a_job_of_its_own(q: Queue, pages: TestClient) -> None:
    q.target("mailer").key("8").disable("1h")
    assert names(said(pages, key="8"), 8, "mailer")
    q.target("mailer").key("7").disable("1h")
    assert names(said(pages, key="7"), 1, 7, "mailer")
