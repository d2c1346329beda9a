"""Who gets in: our own page, programs on this machine, and nobody who borrows somebody's browser."""

from __future__ import annotations

import contextlib
import http.client
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.web.api.building import HERE, Shop, client_of, listening, served
from tidegate.accounts import access
from tidegate.accounts.access import Issuer, Role
from tidegate.targets.table import targets
from tidegate.web.auth import Authenticator
from tidegate.web.middleware import CSP

CROSS_SITE = [
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://127.0.0.1:9999"},
    {"Origin": "http://127.0.0.1:8321.evil.example"},
    {"Origin": "http://user@127.0.0.1:8321"},
    {"Origin": "file://"},
    {"Origin": "http://[::1"},
    {"Origin": ""},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "whatever"},
    {"Sec-Fetch-Site": "cross-site", "Origin": HERE},
    {"Sec-Fetch-Site": "same-origin", "Origin": "https://evil.example"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
]
OURS = [
    {"Origin": HERE},
    {"Sec-Fetch-Site": "same-origin"},
    {"Sec-Fetch-Site": "none"},
    {"Sec-Fetch-Site": "same-origin", "Origin": HERE},
]
JSON = {"Content-Type": "application/json"}


def post(api: TestClient, path: str, headers: dict[str, str]) -> Any:
    return api.post(path, content=b'{"for": 60}', headers={**JSON, **headers})


@pytest.mark.parametrize("headers", CROSS_SITE)
def test_a_post_from_another_site_changes_nothing(unchanged: tuple[Shop, TestClient], headers: dict[str, str]) -> None:
    there, api = unchanged
    before = there.queue.store.read(targets)
    answer = post(api, "/api/v1/targets/mailer/pause", headers)
    assert (answer.status_code, answer.json()["code"]) == (403, "cross_site")
    assert api.post("/jobs/2/retry", data={"back": "/"}, headers=headers).status_code == 403
    assert there.queue.store.read(targets) == before
    assert there.queue.get(2).state == "failed"


@pytest.mark.parametrize("headers", OURS)
def test_a_post_from_our_own_page_passes(api: TestClient, headers: dict[str, str]) -> None:
    assert post(api, "/api/v1/targets/mailer/pause", headers).status_code == 200


def test_a_program_that_says_nothing_may_use_the_api_and_no_form(unchanged: tuple[Shop, TestClient]) -> None:
    there, api = unchanged
    assert api.post("/api/v1/classify", json={"status": 200}).status_code == 200
    refused = api.post("/jobs/2/retry", data={"back": "/"})
    assert refused.status_code == 403
    assert refused.headers["content-type"].startswith("text/html")
    assert there.queue.get(2).state == "failed"


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_our_data_is_not_fetched_into_a_foreign_page_and_links_to_us_work(still: TestClient, site: str) -> None:
    foreign = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors"}
    assert still.get("/api/v1/jobs", headers=foreign).status_code == 403
    assert still.get("/", headers={"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate"}).status_code == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8321", 200), ("127.0.0.1", 200), ("localhost:1", 200), ("LOCALHOST", 200), ("localhost.", 200),
        ("[::1]:8321", 200), ("tide.example:443", 200),
        ("evil.example", 421), ("127.0.0.1.evil.example", 421), ("localhost.evil.example:8321", 421), ("10.0.0.7", 421),
        ("127.0.0.1@evil.example", 400), ("127.0.0.1:8321/", 400), ("", 400), ("a b", 400), ("[::1", 400),
        ("127.0.0.1:99999999", 400),
    ],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/api/v1/codes/network", "/help", "/health/live", "/metrics"])
def test_only_requests_for_our_own_names_are_answered(named: TestClient, path: str, host: str, status: int) -> None:
    answer = named.get(path, headers={"Host": host})
    assert answer.status_code == status
    if status == 421:
        assert "evil" not in answer.text
        assert "tidegate_" not in answer.text


@pytest.fixture(scope="module")
def named(unchanged: tuple[Shop, TestClient]) -> Iterator[TestClient]:
    there, issuer = unchanged[0], Issuer.own(b"k" * 32)
    token = access.issue_token(issuer, "watcher", Role.ADMIN, 3600, there.queue.clock.now())
    with client_of(served(there, hosts=["tide.example"], access=Authenticator([issuer]))) as client:
        client.headers["Authorization"] = f"Bearer {token}"
        yield client


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"), ("GET", "/api/v1/jobs"), ("GET", "/api/v1/nope"), ("GET", "/nope"), ("GET", "/metrics"),
        ("GET", "/health/live"), ("GET", "/health/workers"), ("GET", "/static/tidegate.css"), ("GET", "/static/none"),
        ("POST", "/api/v1/jobs"), ("POST", "/jobs/1/retry"), ("HEAD", "/api/v1/jobs"), ("OPTIONS", "/"),
        ("GET", "/api/openapi.json"), ("TRACE", "/"), ("GET", "/api/v1/jobs/1?wait=x"),
    ],
)  # fmt: skip
def test_every_answer_has_the_headers_that_protect_it(still: TestClient, method: str, path: str) -> None:
    answer = still.request(method, path)
    assert answer.headers["content-security-policy"] == CSP
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "same-origin"
    assert "server" not in answer.headers
    assert "access-control-allow-origin" not in answer.headers
    assert answer.headers["cache-control"] in ("no-store", "private, no-cache", "no-cache")
    if not path.startswith(("/static", "/api")):
        assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-request-id"]


def test_a_refused_request_has_them_too(still: TestClient) -> None:
    for headers in ({"Host": "evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        assert still.get("/", headers=headers).headers["content-security-policy"] == CSP


# -- bodies ----------------------------------------------------------------------------------------------------------


def test_a_body_that_says_it_is_too_large_is_not_read(still: TestClient) -> None:
    answer = still.post("/api/v1/classify", content=b"x" * 1_000_001, headers=JSON)
    assert (answer.status_code, answer.json()["code"], answer.json()["most_bytes"]) == (413, "too_large", 1_000_000)
    assert answer.headers["connection"] == "close"


def test_a_body_in_pieces_is_counted_while_it_is_read(still: TestClient) -> None:
    sent = 0

    def pieces() -> Iterator[bytes]:
        nonlocal sent
        for _ in range(100):
            sent += 1
            yield b"x" * 100_000

    answer = still.post("/api/v1/classify", content=pieces(), headers=JSON)
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
    form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": HERE}
    page = still.post("/jobs/2/retry", content=iter([b"back=" + b"x" * 600_000, b"x" * 600_000]), headers=form)
    assert page.status_code == 413
    assert page.headers["content-type"].startswith("text/html")


@pytest.mark.parametrize("length", ["-1", "1e3", "9" * 30, "+5"])
def test_a_length_that_is_no_number_is_refused(still: TestClient, length: str) -> None:
    headers = {**JSON, "Content-Length": length}
    answer = still.post("/api/v1/classify", content=b"{}", headers=headers)
    assert answer.status_code == 400


# -- hostile inputs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/v1/jobs/0", 422),
        ("/api/v1/jobs/-1", 422),
        ("/api/v1/jobs/1e3", 422),
        ("/api/v1/jobs/99999999999999999999", 422),
        ("/api/v1/jobs/%00", 422),
        ("/api/v1/targets/%00", 422),
        ("/api/v1/targets/%0a", 404),
        ("/api/v1/targets/" + "x" * 300, 422),
        ("/api/v1/targets/..%2f..%2fetc%2fpasswd", 404),
        ("/static/..%2f..%2f__init__.py", 404),
        ("/static/%2e%2e/__init__.py", 404),
        ("/api/v1/jobs?limit=0", 422),
        ("/api/v1/jobs?limit=201", 422),
        ("/api/v1/jobs?limit=٣", 422),
        ("/api/v1/jobs?older=nan", 422),
        ("/api/v1/jobs?older=inf", 422),
        ("/api/v1/jobs?older=-1", 422),
        ("/api/v1/jobs?state=DONE", 422),
        ("/api/v1/jobs?stat=done", 422),
        ("/api/v1/jobs?limit=1&limit=2", 422),
        ("/api/v1/jobs?cursor=zzz", 422),
        ("/api/v1/jobs?cursor=j" + "f" * 16, 200),
        ("/api/v1/jobs?queue='%3B%20drop%20table%20tg_job%3B--", 200),
        ("/api/v1/jobs?queue=%ED%A0%80", 200),
        ("/api/v1/events?after=-1", 422),
        ("/api/v1/events?after=9007199254740991", 200),
        ("/api/v1/jobs/1?", 200),
        ("/api/v1/codes/%3Cscript%3E", 422),
        ("/%3Cscript%3Ealert(1)%3C/script%3E", 404),
    ],
)
def test_hostile_addresses_get_a_plain_answer(still: TestClient, path: str, status: int) -> None:
    answer = still.get(path)
    assert answer.status_code == status
    assert "<script>alert" not in answer.text
    assert "root:" not in answer.text


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 422),
        (b"{", 400),
        (b"\xff\xfe", 400),
        (b"nul", 400),
        (b"null", 422),
        (b"[" * 100_000, 400),
        (b'{"status": NaN}', 422),
        (b'{"status": 1e400}', 422),
        (b'{"status": 200, "status": "x"}', 422),
        (b'{"status": 200, "__proto__": 1}', 422),
        (b'{"message": "\\ud800"}', 422),
        (b'{"status": 99999999999999999999}', 422),
    ],
)
def test_hostile_bodies_get_a_plain_answer(still: TestClient, body: bytes, status: int) -> None:
    answer = still.post("/api/v1/classify", content=body, headers=JSON)
    assert answer.status_code == status


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"Content-Type": "text/plain"}, 415, "media_type"),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415, "media_type"),
        ({"Content-Type": ""}, 415, "media_type"),
        ({**JSON, "Accept": "text/html"}, 406, "not_acceptable"),
        ({**JSON, "Accept": "application/json;q=0"}, 406, "not_acceptable"),
        ({**JSON, "Accept": "text/html, application/*;q=0.5"}, 200, None),
        ({**JSON, "Accept": ""}, 200, None),
        ({"Content-Type": "application/json; charset=utf-8"}, 200, None),
    ],
)
def test_only_json_goes_in_and_out(still: TestClient, headers: dict[str, str], status: int, code: str | None) -> None:
    answer = still.post("/api/v1/classify", content=b'{"status": 200}', headers=headers)
    assert answer.status_code == status
    assert code is None or answer.json()["code"] == code


def test_an_action_that_takes_no_body_refuses_one(still: TestClient) -> None:
    assert still.post("/api/v1/jobs/1/retry", json={"force": True}).status_code == 422
    assert still.post("/api/v1/jobs/1/retry", json={}).status_code == 409


# -- over a real connection ------------------------------------------------------------------------------------------


def said(address: str, *pieces: bytes) -> bytes:
    """What a server answers to these bytes; it may answer before it has heard them all."""
    host, _, port = address.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        with contextlib.suppress(ConnectionError):
            for piece in pieces:
                connection.sendall(piece)
        found = b""
        with contextlib.suppress(ConnectionError):
            while part := connection.recv(65536):
                found += part
    return found


@pytest.fixture(scope="module")
def address(unchanged: tuple[Shop, TestClient]) -> Iterator[str]:
    with listening(served(unchanged[0])) as found:
        yield found


def test_a_body_without_an_end_is_answered_before_it_ends(address: str) -> None:
    head = (
        b"POST /api/v1/classify HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n"
    )
    answer = said(address, head, *[b"20000\r\n" + b" " * 0x20000 + b"\r\n"] * 10)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"content-security-policy" in answer.lower()
    assert b"\r\nserver:" not in answer.lower()


def test_who_sends_far_too_much_learns_why_it_was_refused(address: str) -> None:
    host, _, port = address.removeprefix("http://").partition(":")
    with contextlib.closing(http.client.HTTPConnection(host, int(port), timeout=60)) as connection:
        connection.request("POST", "/api/v1/classify", b"x" * 30_000_000, {"Content-Type": "application/json"})
        assert connection.getresponse().status == 413


def test_who_asks_before_sending_too_much_is_told_at_once(address: str) -> None:
    head = (
        b"POST /api/v1/classify HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: 30000000\r\nExpect: 100-continue\r\n\r\n"
    )
    assert said(address, head).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        (b"GET /health/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", b"200"),
        (b"GET /health/live HTTP/1.0\r\n\r\n", b"400"),
        (b"GET /health/live HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n", b"400"),
        (b"GET /health/live HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n", b"421"),
        (b"GET http://evil.example/health/live HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n", b"421"),
        (b"HEAD /health/live HTTP/1.1\r\nHost: [::1]:8321\r\nConnection: close\r\n\r\n", b"200"),
    ],
)
def test_the_host_is_checked_as_it_comes_over_the_wire(address: str, lines: bytes, status: bytes) -> None:
    assert said(address, lines).split(b" ", 2)[1] == status
