"""While no user exists, only a browser on this machine that nothing stands before is trusted without signing in."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient
from starlette.types import Receive, Scope, Send

from tests.web.api.building import HERE, Shop, client_of, listening, served
from tests.web.local import LocalClient
from tidegate.accounts import users
from tidegate.store.base import Tx
from tidegate.web.auth import COOKIE
from tidegate.web.site import Site

# One line of each kind of proxy: what was tried against the server, and what the documentation of each names.
PROXY_HEADERS = [
    "Forwarded", "Forwarded-For", "X-Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto",
    "X-Forwarded-Port", "X-Forwarded-Server", "X-Forwarded-Scheme", "X-Forwarded-Ssl", "X-Forwarded-Prefix",
    "X-Real-IP", "X-Real-Port", "Via", "CF-Connecting-IP", "CF-Ray", "CF-IPCountry", "CF-Visitor", "CDN-Loop",
    "True-Client-IP", "X-Client-IP", "Client-IP", "X-Cluster-Client-IP", "Fastly-Client-IP", "X-Original-Host",
    "X-Original-For", "X-Original-URL", "X-ProxyUser-IP", "X-Host", "X-Envoy-External-Address", "X-Request-From",
    "X-Remote-Addr", "X-Amzn-Trace-Id", "X-Azure-ClientIP", "X-AppEngine-User-IP", "Fly-Client-IP",
    "WL-Proxy-Client-IP", "X-Varnish", "X-Scheme", "Tailscale-User-Login", "Remote-User", "X-Auth-Request-User",
    "X-BlueCoat-Via", "X-Cloud-Trace-Context", "Proxy-Connection", "X-Iinfo", "Akamai-Origin-Hop",
    "X-Akamai-Edgescape", "Incap-Client-IP", "X-Sucuri-ClientIP", "X-SSL-Client-Verify", "SSL-Client-Cert",
]  # fmt: skip
HOSTS = [
    ("127.0.0.1", 200), ("127.0.0.1:8321", 200), ("[::1]", 200), ("[::1]:8321", 200), ("localhost", 200),
    ("localhost:80", 200), ("LOCALHOST", 200), ("localhost.", 200), ("127.0.0.1.evil.org", 421), ("evil.org", 421),
    ("localhost.evil.org", 421), ("2130706433", 421), ("0x7f.1", 421), ("0177.0.0.1", 421), ("127.1", 421),
    ("0.0.0.0", 421), ("[::]", 421), ("[::ffff:127.0.0.1]", 421), ("127.0.0.1@evil.org", 400), ("", 400),
]  # fmt: skip
PEERS = [
    ("127.0.0.1", 200), ("127.8.9.1", 200), ("::1", 200), ("::ffff:127.0.0.1", 200), ("203.0.113.5", 401),
    ("2001:db8::5", 401), ("::ffff:203.0.113.5", 401), ("10.0.0.1", 401), ("fe80::1%eth0", 401), ("testclient", 401),
    ("", 401),
]  # fmt: skip


@pytest.fixture
def local(there: Shop) -> Iterator[TestClient]:
    with client_of(served(there)) as client:
        yield client


def spellings(name: str) -> list[str]:
    return [name, name.lower(), name.upper(), name.replace("-", "_"), name.lower().replace("-", "_")]


@pytest.mark.parametrize("name", PROXY_HEADERS)
def test_a_request_with_a_header_of_a_proxy_is_not_local(local: TestClient, name: str) -> None:
    for spelling in spellings(name):
        for value in ("127.0.0.1", ""):
            answer = local.get("/api/v1/jobs", headers={spelling: value})
            assert (answer.status_code, answer.json()["code"]) == (401, "no_users"), spelling


@pytest.mark.parametrize(
    "name", ["Accept-Language", "X-Request-ID", "Traceparent", "Sec-CH-UA", "DNT", "X-Requested-With"]
)
def test_a_header_of_a_browser_or_a_program_is_none_of_a_proxy(local: TestClient, name: str) -> None:
    assert local.get("/api/v1/jobs", headers={name: "x"}).status_code == 200


@pytest.mark.parametrize(("host", "status"), HOSTS)
def test_only_a_host_that_is_this_machine_is_local(local: TestClient, host: str, status: int) -> None:
    assert local.get("/api/v1/jobs", headers={"host": host}).status_code == status


@pytest.mark.parametrize(("peer", "status"), PEERS)
def test_only_a_loopback_peer_is_local(there: Shop, peer: str, status: int) -> None:
    with LocalClient(served(there), base_url=HERE, client=(peer, 50000)) as client:
        assert client.get("/api/v1/jobs").status_code == status


@pytest.mark.parametrize(
    ("hosts", "status"),
    [(("127.0.0.1",), 200), (("::1",), 200), (("localhost",), 200), (("tide.example.org",), 401), (("0.0.0.0",), 401),
     (("tide.example.org", "127.0.0.1"), 401), (("192.0.2.7",), 401)],
)  # fmt: skip
def test_a_server_with_a_name_that_others_use_trusts_no_request_for_being_local(
    there: Shop, hosts: tuple[str, ...], status: int
) -> None:
    with client_of(served(there, hosts=hosts)) as client:
        assert client.get("/api/v1/jobs").status_code == status


@pytest.mark.parametrize(("version", "status"), [("0.9", b"401"), ("1.0", b"401"), ("1.1", b"200"), ("2.0", b"401")])
def test_only_the_http_version_of_browsers_is_local(there: Shop, version: str, status: bytes) -> None:
    with listening(served(there)) as address:
        host = address.removeprefix("http://")
        with socket.create_connection(("127.0.0.1", int(host.rpartition(":")[2])), 60) as line:
            line.sendall(f"GET /api/v1/jobs HTTP/{version}\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
            assert line.recv(65_536).split()[1] == status


# The request of a proxy that speaks HTTP/1.1 and adds no header, sent by a process of another account.
_REQUEST = """
import http.client, os, socket, sys
line = http.client.HTTPConnection("127.0.0.1", int(sys.argv[2]), timeout=60)
os.setgroups([]), os.setgid(int(sys.argv[1])), os.setuid(int(sys.argv[1]))
line.sock = socket.socket()
line.sock.connect(("127.0.0.1", line.port))
for _ in range(2):
    line.request("GET", "/api/v1/jobs")
    answer = line.getresponse()
    print(answer.status, len(answer.read()) > 0)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows who opened a socket")
@pytest.mark.skipif(sys.platform == "linux" and os.getuid() != 0, reason="only root can start programs of others")
@pytest.mark.parametrize(
    ("account", "uid", "status"),
    [("a login account", 1000, "200"), ("nobody", 65_534, "401"), ("www-data", 33, "401"), ("the server's", 0, "200")],
)
def test_a_program_of_a_system_account_is_not_local(there: Shop, account: str, uid: int, status: str) -> None:
    with listening(served(there)) as address:
        port = address.rpartition(":")[2]
        ran = subprocess.run(
            [sys.executable, "-c", _REQUEST, str(uid), port], capture_output=True, text=True, check=True
        )
        assert ran.stdout.split() == [status, "True"] * 2, account


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows who opened a socket")
def test_a_connection_whose_owner_is_unknown_is_not_local(there: Shop) -> None:
    with TestClient(served(there), base_url=HERE, client=("127.0.0.1", 1)) as client:  # no such socket exists
        assert client.get("/api/v1/jobs").json()["code"] == "no_users"


def test_a_connection_without_an_address_is_not_local(there: Shop) -> None:
    async def over_unix_socket(scope: Scope, receive: Receive, send: Send) -> None:
        await served_app({**scope, "client": None, "server": ("/run/tidegate.sock", None)}, receive, send)

    served_app = served(there)
    with LocalClient(over_unix_socket, base_url=HERE) as client:
        assert client.get("/api/v1/jobs").json()["code"] == "no_users"


def test_without_users_a_stranger_gets_a_page_that_says_how_to_add_one_and_no_form(local: TestClient) -> None:
    through = {"x-forwarded-proto": "https"}
    page = local.get("/jobs/2", headers=through, follow_redirects=True)
    assert (page.status_code, page.url.path) == (200, "/sign-in")
    assert "<pre>tidegate user add" in page.text
    assert 'type="password"' not in page.text
    form = {"name": "ada", "password": "correct horse battery"}
    tried = local.post("/sign-in", headers={**through, "origin": HERE}, data=form)
    assert (tried.status_code, "set-cookie" in tried.headers) == (401, False)
    changed = local.post("/people/add", headers={**through, "origin": HERE}, data={**form, "role": "admin"})
    assert changed.status_code == 401
    assert local.get("/people").status_code == 200


def test_with_a_user_the_code_says_to_sign_in(there: Shop, local: TestClient) -> None:
    there.queue.store.write(lambda tx: users.add_user(tx, "ada", "admin", "no password fits"))
    assert local.get("/api/v1/jobs").json()["code"] == "not_signed_in"
    assert 'type="password"' in local.get("/sign-in", headers={"via": "1.1 proxy"}).text


def test_a_site_behind_no_proxy_trusts_only_this_machine_as_one(there: Shop) -> None:
    assert Site(queue=there.queue).trusted_proxies == ("127.0.0.1", "::1")


def test_while_the_database_is_away_nobody_is_trusted_who_was_before_the_first_user_signed_in(there: Shop) -> None:
    with client_of(served(there)) as client:
        assert client.get("/api/v1/config").status_code == 200
        session = there.queue.store.write(_first_user)
        assert client.get("/api/v1/jobs", headers={"cookie": f"{COOKIE}={session}"}).status_code == 200
        there.queue.away = True
        assert client.get("/api/v1/config").status_code == 503
        there.queue.away = False


def _first_user(tx: Tx) -> str:
    users.add_user(tx, "ada", "admin", "no password fits")
    return users.begin_session(tx, "ada")
