"""What pages say where something is missing, empty or not allowed: whole sentences, and buttons that lead somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.text import names
from tests.web.api.building import HERE, client_of
from tests.web.every_page import people
from tidegate import Again, Queue
from tidegate.accounts.access import Permission
from tidegate.web.app import build
from tidegate.web.auth import COOKIE
from tidegate.web.site import Site


@pytest.fixture
def pages(q: Queue) -> Iterator[TestClient]:
    with client_of(build(Site(queue=q)), HERE) as client:
        yield client


@pytest.mark.parametrize("path", ["/nowhere", "/targets/nobody", "/jobs/4711", "/people/nobody"])
def test_a_page_that_is_not_there_leads_to_the_overview(pages: TestClient, path: str) -> None:
    found = pages.get(path)
    assert found.status_code == 404
    assert re.search(r'<a class="button primary" href="/">', found.text)
    assert "openapi" not in found.text.split("<main", 1)[1].split("</main", 1)[0]


def test_what_a_role_may_not_do_is_said_in_words(pages: TestClient, q: Queue) -> None:
    pages.cookies.set(COOKIE, q.store.write(people)["vera"])
    refused = pages.get("/settings")
    assert refused.status_code == 403
    assert names(refused.text, "viewer", Permission.SEE_SETTINGS.words)
    assert "_" not in "".join(right.words for right in Permission)


def test_no_button_of_the_overview_is_about_nothing(pages: TestClient) -> None:
    text = pages.get("/").text
    assert "See the failures" in text
    assert "()" not in text


def test_a_failure_that_cannot_be_retried_offers_no_retry(tmp_path: Path) -> None:
    with Queue(f"sqlite:///{tmp_path / 'new.db'}", inline=True) as fresh, client_of(build(Site(queue=fresh))) as client:

        @fresh.job(queue="convert", attempts=1)
        def convert(name: str) -> None:
            raise Again(1, code="timeout", message="It took too long.")

        convert.refuse(("notes.txt",), "bad_request", "It is no PDF.")
        text = client.get("/failures").text
        assert "no PDF" in text
        assert "Discard…" in text
        assert "Retry…" not in text
        assert "action=retry" not in client.get("/").text

        barred = convert.enqueue("a.pdf").id
        fresh.drain()
        assert f'action="/jobs/{barred}/retry"' in client.get(f"/jobs/{barred}").text
        assert "Retry…" in client.get("/failures").text
        fresh.forbid_retry(barred)
        assert f'action="/jobs/{barred}/retry"' not in client.get(f"/jobs/{barred}").text
        assert "Retry…" not in client.get("/failures").text


def test_an_empty_list_names_the_filter(pages: TestClient) -> None:
    text = pages.get("/queue?kind=history&state=failed").text
    assert re.search(r'<div class="empty">.*\bfailed\b.*\bhistory\b', text)


def test_jobs_that_gave_up_are_not_said_to_be_tried_again(pages: TestClient) -> None:
    unknown = pages.get("/failures?bucket=unclassified").text
    assert "3 gave up" in unknown
    assert "tried again" not in unknown
    refused = pages.get("/failures?bucket=needs_you").text
    assert "1 waiting" in refused
    assert "retrying" not in refused.split("<table", 1)[1]


def test_a_target_whose_numbers_are_known_is_known_to_have_no_breaker(pages: TestClient) -> None:
    assert 'data-breaker="none"' in pages.get("/targets/spotify").text


def test_a_page_that_needs_the_database_is_no_help_while_it_is_away(tmp_path: Path) -> None:
    away = Queue(f"sqlite:///{tmp_path / 'away.db'}")
    away.close()
    with client_of(build(Site(queue=away))) as client:
        text = client.get("/queue").text
    assert "store_away" in text
    assert "/help/errors" not in text


def test_a_job_says_what_it_waits_for_only_while_it_does(tmp_path: Path) -> None:
    with Queue(f"sqlite:///{tmp_path / 'new.db'}", inline=True) as fresh, client_of(build(Site(queue=fresh))) as client:

        @fresh.job(queue="war of the worlds")
        def send(n: int) -> None: ...

        first = send.enqueue(1).id
        second = send.options(after=[first]).enqueue(2).id
        fresh.pause("war of the worlds", "1h")
        assert "<dt>Waits for</dt>" in client.get(f"/jobs/{second}").text
        assert "<dt>Waiting for it</dt>" in client.get(f"/jobs/{first}").text
        assert 'href="/targets/"' not in client.get(f"/jobs/{first}").text, "the queue is no target"
        fresh.resume("war of the worlds")
        fresh.drain()
        assert "<dt>Came after</dt>" in client.get(f"/jobs/{second}").text
        assert "<dt>Came before</dt>" in client.get(f"/jobs/{first}").text


def test_a_span_of_the_past_keeps_the_filter_of_the_jobs(pages: TestClient) -> None:
    text = pages.get("/queue/lidarr?state=failed&code=timeout").text
    assert 'href="/queue/lidarr?state=failed&amp;code=timeout&amp;span=7d#past"' in text
    assert 'href="/queue/lidarr?span=7d#past"' in pages.get("/queue/lidarr").text


@pytest.mark.parametrize(("kind", "said"), [("", "Retry {} jobs?"), ("nobody's", "There is nothing to retry")])
def test_the_title_of_a_question_is_the_question(pages: TestClient, kind: str, said: str) -> None:
    text = pages.get("/bulk", params={"action": "retry", "state": "failed", "kind": kind}).text
    asked = re.findall(r"<h1>(.*?)</h1>", text)[0]
    assert asked == said.format(*re.findall(r"\d+", asked))
    assert f"<title>{asked} · Tidegate</title>" in text


@pytest.mark.parametrize(
    ("code", "said"),
    [("store_away", "may work later"), ("no_such_path", "fails again"), ("timeout", "tried again by itself")],
)
def test_the_page_of_a_code_says_who_tries_again(pages: TestClient, code: str, said: str) -> None:
    assert said in pages.get(f"/help/errors/{code}").text


@pytest.mark.parametrize("path", ["/", "/targets", "/queue", "/workers"])
def test_an_empty_page_shows_no_folder(tmp_path: Path, path: str) -> None:
    with Queue(f"sqlite:///{tmp_path / 'new.db'}") as fresh, client_of(build(Site(queue=fresh))) as client:
        assert str(tmp_path) not in client.get(path).text


def test_an_address_of_nothing_offers_what_its_reader_may_do(pages: TestClient, q: Queue) -> None:
    assert 'href="/people"' in pages.get("/nowhere").text  # while nobody has a password
    secrets = q.store.write(people)
    stranger = pages.get("/nowhere")
    assert stranger.status_code == 404
    assert "<nav" not in stranger.text
    assert 'href="/sign-in?next=%2Fnowhere"' in stranger.text
    pages.cookies.set(COOKIE, secrets["vera"])
    assert 'href="/people"' not in pages.get("/nowhere").text
    assert "vera (viewer)" in pages.get("/nowhere").text
    assert pages.get("/api/v1/nowhere").json()["code"] == "no_such_path"
