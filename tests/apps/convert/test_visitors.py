"""Visitors who are not signed in: shut out by default, limited where they are let in, unable to count jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.apps.convert.building import Place, code_of, pdf, type_of
from tests.apps.convert.building import place as made
from tests.databases import database
from tests.web.api.building import HERE
from tidegate.accounts import users
from tidegate.store.base import Tx
from tidegate.testing import Status
from tidegate.web.auth import COOKIE
from tidegate_apps.convert.models import PUBLIC_ID
from tidegate_apps.convert.service import Upload, VisitorQuota

Making = Callable[..., Place]


@pytest.fixture
def making(tmp_path: Path) -> Iterator[Making]:
    """Makes convert with settings."""
    with ExitStack() as stack:

        def make(**settings: Any) -> Place:
            db = stack.enter_context(database("sqlite-apsw", tmp_path))
            return stack.enter_context(made(db, tmp_path, **settings))

        yield make


@contextmanager
def visitor(place: Place, address: str = "203.0.113.7") -> Iterator[TestClient]:
    with place.another() as client:
        client.headers.update({"X-Forwarded-For": address})
        yield client


def sent(client: TestClient, content: bytes | None = None) -> Any:
    return client.post("/api/upload", files={"file": ("a.pdf", pdf() if content is None else content)})


def add_user(place: Place) -> str:
    """Adds a user; returns the secret of a session."""

    def work(tx: Tx) -> str:
        users.add_user(tx, "ada", "admin", "no password fits")
        return users.begin_session(tx, "ada")

    return place.queue.store.write(work)


def test_a_stranger_uploads_nothing_unless_the_setting_says_so(making: Making) -> None:
    place = making(anonymous=False)
    with visitor(place) as stranger:
        assert code_of(sent(stranger)) == (401, "no_users")
        secret = add_user(place)
        assert code_of(sent(stranger)) == (401, "not_signed_in")
        form = {"Origin": "http://127.0.0.1:8321"}
        posted = stranger.post("/convert/upload", headers=form, files={"file": ("a.pdf", pdf())})
        assert posted.status_code == 401
        page = stranger.get("/convert", follow_redirects=False)
        assert (page.status_code, page.headers["location"].startswith("/sign-in")) == (303, True)
        for path in ("/api/jobs", f"/api/jobs/{'0' * 32}", f"/api/jobs/{'0' * 32}/download"):
            assert stranger.get(path).status_code == 401, path
        stranger.cookies.set(COOKIE, secret)
        assert sent(stranger).status_code == 202
        assert stranger.get("/convert").status_code == 200
    assert place.there.db.all("active_of", owner="user:ada") == [(1,)]


def test_a_browser_that_uploaded_before_there_was_a_user_still_fetches_its_files(making: Making) -> None:
    place = making(anonymous=False)
    job = place.new()
    place.work()
    add_user(place)
    assert place.client.get(f"/api/jobs/{job}/download").status_code == 200
    page = place.client.get("/convert")
    assert (page.status_code, 'data-closed="not_signed_in"' in page.text) == (200, True)
    assert place.upload().status_code == 401


def test_visitors_of_one_network_have_a_number_of_uploads_per_hour_whatever_their_cookies(making: Making) -> None:
    place = making(anonymous_uploads=2)
    with visitor(place) as client:

        def as_new(address: str = "203.0.113.7") -> Any:
            client.cookies.clear()
            client.headers["X-Forwarded-For"] = address
            return sent(client)

        assert [as_new().status_code for _ in range(2)] == [202, 202]
        refused = as_new()
        assert type_of(refused) == (429, "too_many")
        assert 3000 < int(refused.headers["retry-after"]) <= 3600
        assert as_new("203.0.113.8").status_code == 202
        del client.headers["X-Forwarded-For"]
        assert [sent(client).status_code for _ in range(5)] == [202] * 5, "who is signed in has no such limit"
        place.clock.advance(3601)
        assert as_new().status_code == 202


def test_visitors_of_one_network_have_a_number_of_bytes_per_hour(making: Making) -> None:
    place = making(anonymous_bytes=10_000)
    with visitor(place) as client:
        assert sent(client, pdf(size=6_000)).status_code == 202
        assert type_of(sent(client, pdf(size=6_000))) == (429, "too_many")
        assert sent(client, pdf(size=3_000)).status_code == 202, "the form around the first file does not count"


def test_uploads_that_are_still_coming_in_count_with_all_that_they_may_have() -> None:
    now = 0.0
    quota = VisitorQuota(lambda: now, 3, 1000)
    first, second = quota.begin(("a",), 600), quota.begin(("a",), 400)
    assert isinstance(first, Upload)
    assert isinstance(second, Upload)
    assert quota.begin(("a",), 1) == 3600
    first.bytes = 100
    assert isinstance(quota.begin(("a",), 500), Upload)
    now = 1000.0
    assert quota.begin(("a",), 0) == 2600
    assert isinstance(quota.begin(("b",), 1000), Upload)
    assert quota.begin(("c",), 1001) == 3600


def test_a_large_network_has_a_quota_too() -> None:
    quota = VisitorQuota(lambda: 0.0, 3, 1000)
    assert all(isinstance(quota.begin((f"{n}/64", "/56"), 300), Upload) for n in range(6))
    assert quota.begin(("new/64", "/56"), 1) == 3600
    assert isinstance(quota.begin(("new/64", "other/56"), 1), Upload)


def test_a_former_visitor_signs_in_before_a_retry(making: Making) -> None:
    place = making(anonymous=False, attempts=1)
    place.gateway.on("POST /process", Status(400))
    job = place.new()
    place.work(60)
    assert place.get(job)["status"] == "failed"
    session = add_user(place)

    assert place.client.post(f"/api/jobs/{job}/retry").status_code == 401
    form = place.client.post(f"/convert/jobs/{job}/retry", headers={"origin": HERE}, follow_redirects=False)
    assert (form.status_code, place.get(job)["status"]) == (401, "failed")
    assert place.client.get("/api/v1/jobs", headers={"cookie": f"{COOKIE}={session}"}).status_code == 200


def test_a_retry_of_a_visitor_counts_as_an_upload(making: Making) -> None:
    place = making(anonymous_uploads=3, attempts=1)
    place.gateway.on("POST /process", Status(400))
    with visitor(place) as client:
        job = sent(client).json()["id"]
        for _ in range(2):
            place.work(600)
            assert client.post(f"/api/jobs/{job}/retry").status_code == 202
            assert type_of(client.post(f"/api/jobs/{job}/retry")) == (409, "refused")  # does not count
        place.work(600)
        assert type_of(client.post(f"/api/jobs/{job}/retry")) == (429, "too_many")
        assert client.get(f"/api/jobs/{job}").json()["status"] == "failed"


def test_ids_in_urls_cannot_be_counted_and_numbers_are_nobodys(making: Making) -> None:
    place = making()
    with visitor(place) as client:
        ids = [sent(client).json()["id"] for _ in range(3)]
        assert all(PUBLIC_ID.fullmatch(each) for each in ids)
        assert len({each[:8] for each in ids}) == 3
        listed = client.get("/api/jobs?limit=2").json()
        assert [each["id"] for each in listed["jobs"]] == ids[:0:-1]
        assert listed["next_cursor"] == ids[1]
        assert listed["jobs"][0]["links"]["self"] == f"/api/jobs/{ids[2]}"
        refused = sent(client, b"no PDF")
        assert PUBLIC_ID.fullmatch(refused.json()["job"])
        for number in range(1, 6):
            assert type_of(client.get(f"/api/jobs/{number}")) == (404, "not_there")
            assert client.get(f"/convert/jobs/{number}").status_code == 404
        for page in ("/convert", f"/convert/jobs/{ids[0]}"):
            assert "#1" not in client.get(page).text
    assert code_of(place.client.get(f"/api/jobs/{ids[0]}")) == (403, "FORBIDDEN")
    assert type_of(place.client.get(f"/api/jobs/{'f' * 32}")) == (404, "not_there")
