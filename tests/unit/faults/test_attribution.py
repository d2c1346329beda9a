"""Whose failure it is: what a client library raises while it reads a response is the service's, else the program's."""

from __future__ import annotations

import asyncio
import gzip
import http.client
import importlib
import json
import socket
import ssl
import sys
import sysconfig
import urllib.request
import xml.etree.ElementTree as ET
from collections.abc import Callable
from email.message import EmailMessage
from email.mime.text import MIMEText
from io import BytesIO
from pathlib import Path
from typing import Any, cast

import aiohttp
import httpx
import pytest
import requests

from tidegate import Fault, classify
from tidegate.faults.attribution import has_readable_text, is_own_bug

URL: Any = "http://127.0.0.1:9/"
WRONG: Any = object()
NONE: Any = None
MISSING = "/no/such/file.pem"


def raised(fn: Callable[[], object]) -> BaseException:
    with pytest.raises(BaseException) as caught:  # noqa: PT011
        fn()
    return caught.value


def verdict(fn: Callable[[], object]) -> Fault:
    fault = classify(raised(fn))
    assert fault is not None
    return fault


def of_aiohttp(**options: Any) -> None:
    of_aiohttp_at(URL, **options)


def of_aiohttp_at(url: str, **options: Any) -> None:
    async def main() -> None:
        async with aiohttp.ClientSession() as session, session.get(url, **options):
            pass

    asyncio.run(main())


def header_with_a_line_break() -> None:
    connection = http.client.HTTPConnection("127.0.0.1:9")
    connection.putrequest("GET", "/")
    connection.putheader("a", "b\nc")


INSTALLED = f"{sysconfig.get_path('purelib')}/client.py"


def in_library(module: str, function: str, what: str, file: str = INSTALLED) -> Callable[[], object]:
    """A function of a client library that runs *what*."""
    names: dict[str, Any] = {"__name__": module}
    exec(compile(f"def {function}():\n    {what}", file, "exec"), names)
    found: Callable[[], object] = names[function]
    return found


MISTAKES: dict[str, Callable[[], object]] = {
    "httpx header None": lambda: httpx.get(URL, headers={"Authorization": NONE}),
    "httpx header int": lambda: httpx.get(URL, headers={"a": WRONG}),
    "httpx header not ASCII": lambda: httpx.get(URL, headers={"a": "ä"}),
    "httpx cookies": lambda: httpx.get(URL, cookies=WRONG),
    "httpx auth": lambda: httpx.get(URL, auth=WRONG),
    "socket timeout": in_library("socket", "create_connection", "range('5')"),
    "requests option": lambda: requests.get(URL, tiemout=5),  # type: ignore[call-arg]
    "requests cookies": lambda: requests.get(URL, cookies=WRONG),
    "requests data": lambda: requests.post(URL, data=WRONG),
    "aiohttp option": lambda: of_aiohttp(tiemout=5),
    "aiohttp data": lambda: of_aiohttp(data=WRONG),
    "json.loads": lambda: json.loads(NONE),
    "json.load": lambda: json.load(NONE),
    "XML": lambda: ET.fromstring(NONE),
    "gzip": lambda: gzip.decompress(WRONG),
    "MIMEText": lambda: MIMEText(NONE),
    "EmailMessage": lambda: EmailMessage().set_content(NONE),
    "urlopen": lambda: urllib.request.urlopen(NONE),
    "urllib data": lambda: urllib.request.urlopen(urllib.request.Request(URL, data=b"".decode())),  # type: ignore[arg-type]
    "httpx URL": lambda: httpx.get("http://[::1/"),
    "httpx scheme": lambda: httpx.get("nope.invalid/path"),
    "requests without a scheme": lambda: requests.get("nope.invalid"),
    "requests scheme": lambda: requests.get("gopher://nope.invalid"),
    "requests URL": lambda: requests.get("http://"),
    "requests header": lambda: requests.get(URL, headers={"a": "b\nc"}),
    "requests JSON": lambda: requests.post(URL, json=float("nan")),
    "requests timeout": lambda: requests.get(URL, timeout=-1),
    "requests timeout text": lambda: requests.get(URL, timeout=cast("Any", "soon")),
    "aiohttp URL": lambda: of_aiohttp_at("http://"),
    "http.client URL": lambda: http.client.HTTPConnection("nope.invalid:port"),
    "http.client header": header_with_a_line_break,
    "urllib scheme": lambda: urllib.request.urlopen("nope.invalid"),
    "host name": lambda: socket.create_connection(("a" * 70 + ".example", 80)),
    "own number": lambda: int("abc"),
    "ssl file": lambda: ssl.create_default_context(cafile=__file__),
    "ssl key": lambda: ssl.create_default_context().load_cert_chain(__file__),
    "SDK value": in_library("openai.resources", "retrieve", "raise ValueError('Expected a non-empty value')"),
    "SDK argument": in_library("openai.resources", "create", "None.upper()"),
}


@pytest.mark.parametrize("fn", MISTAKES.values(), ids=list(MISTAKES))
def test_a_wrong_argument_to_a_client_library_is_the_programs(fn: Callable[[], object]) -> None:
    assert verdict(fn).own_bug


@pytest.mark.parametrize(
    ("module", "function", "what"),
    [
        ("httpx._decoders", "decode", "b'\\xff'.decode()"),
        ("httpcore._sync.http11", "_receive_event", "{}['x']"),
        ("http.client", "getresponse", "None.read()"),
        ("urllib3.response", "read_chunked", "[][0]"),
        ("aiohttp.http_parser", "feed_data", "len(None)"),
        ("requests.sessions", "get_redirect_target", "b'\\xff'.decode()"),
        ("openai._base_client", "_parser", "''._set_private_attributes()"),
        ("botocore.parsers", "_parse_shape", "None.text"),
        ("spotipy.client", "current_user", "{}['items']"),
        ("urllib3.response", "read_chunked", "int('chunk')"),
        ("json", "loads", "b'\\xff'.decode()"),
        ("email.feedparser", "_parsegen", "[][0]"),
    ],
)
def test_what_a_client_library_raises_while_it_reads_is_the_services(module: str, function: str, what: str) -> None:
    fault = verdict(in_library(module, function, what))
    assert (fault.own_bug, fault.counts_as_failure) == (False, True)


def test_a_response_that_is_read_inside_a_send_is_the_services() -> None:
    class Transport(httpx.BaseTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            return httpx.Response(200, headers={"content-encoding": "gzip"}, stream=Body())

    class Body(httpx.SyncByteStream):
        def __iter__(self) -> Any:
            return in_library("httpcore._sync.http11", "_receive_response_body", "{}['x']")()

    assert not verdict(lambda: httpx.Client(transport=Transport()).get(URL)).own_bug


def test_bytes_that_are_not_text_are_the_services_in_a_parser() -> None:
    assert not verdict(lambda: json.loads(b"\xff\xfe\xff")).own_bug
    assert verdict(b"\xff".decode).own_bug


FILES: dict[str, Callable[[], object]] = {
    "requests verify": lambda: requests.get("https://127.0.0.1:9/", verify=MISSING),
    "requests cert": lambda: requests.get("https://127.0.0.1:9/", cert=MISSING),
    "ssl": lambda: ssl.create_default_context(cafile=MISSING),
    "gzip": lambda: gzip.open(MISSING),  # noqa: SIM115
    "XML": lambda: ET.parse(MISSING),
    "in a function that reads": in_library("httpx._models", "read", f"open({MISSING!r})"),
}


@pytest.mark.parametrize("fn", FILES.values(), ids=list(FILES))
def test_a_missing_file_or_certificate_is_the_programs(fn: Callable[[], object]) -> None:
    assert verdict(fn).own_bug


def test_a_missing_unix_socket_is_the_services(tmp_path: Path) -> None:
    gone = str(tmp_path / "gone.sock")
    assert not verdict(lambda: asyncio.run(asyncio.open_unix_connection(gone))).own_bug

    def connect() -> object:
        raise FileNotFoundError(2, "No such file or directory")

    assert verdict(connect).own_bug, "the program's own function"
    assert not verdict(in_library("socket", "create_connection", "raise FileNotFoundError(2, 'No such file')")).own_bug


def test_permission_denied_is_the_programs_only_for_a_file() -> None:
    def no_file() -> None:
        raise PermissionError(1, "Operation not permitted")

    def file() -> None:
        raise PermissionError(13, "Permission denied", MISSING)

    assert not verdict(no_file).own_bug
    assert verdict(file).own_bug


def key_error() -> object:
    return dict[str, int]()["user"]


def group(*members: Exception) -> BaseException:
    def fail() -> None:
        raise ExceptionGroup("tasks", members)

    return raised(fail)


def test_a_group_is_the_programs_if_each_of_its_members_is() -> None:
    bug, other = (raised(key_error) for _ in range(2))
    assert isinstance(bug, Exception)
    assert isinstance(other, Exception)

    assert is_own_bug(group(bug, ExceptionGroup("inner", [other])))
    assert not is_own_bug(group(bug, LookupError("unknown")))
    assert not is_own_bug(group(bug, ExceptionGroup("inner", [KeyError("never raised")])))
    assert not is_own_bug(group(*[bug] * 1001)), "the walk has an end"
    fault = classify(group(bug))
    assert fault is not None
    assert (fault.own_bug, fault.code) == (True, "unexpected")


@pytest.mark.parametrize("timeout", [-1, "5"])
def test_a_wrong_timeout_is_not_a_timeout(timeout: Any) -> None:
    assert verdict(lambda: requests.get(URL, timeout=timeout)).code == "unexpected"


def test_the_message_of_a_plain_type_is_read_if_a_response_was() -> None:
    words = "raise ValueError('connection timed out')"
    assert verdict(in_library("urllib3.response", "read", words)).code == "timeout"
    assert verdict(in_library("urllib3.connection", "__init__", words)).code == "unexpected"
    assert not has_readable_text(raised(in_library("urllib3.poolmanager", "request", words)))
    assert verdict(lambda: urllib.request.urlopen("example.com")).code == "bad_address"
    assert verdict(lambda: socket.create_connection(("a" * 70 + ".example", 80))).code == "bad_address"


@pytest.mark.parametrize("module", ["github", "jira", "telegram.bot", "requests_helper", "http"])
@pytest.mark.parametrize("what", ["{}['items']", "[][0]", "int('abc')"])
def test_a_module_of_the_program_that_is_called_like_a_library_is_not_one(
    module: str, what: str, tmp_path: Path
) -> None:
    assert verdict(in_library(module, "read", what, str(tmp_path / "client.py"))).own_bug


def test_a_vendored_copy_inside_an_installed_library_is_a_library() -> None:
    vendored = f"{sysconfig.get_path('purelib')}/acme/_vendor/urllib3/response.py"
    assert not verdict(in_library("urllib3.response", "read", "{}['x']", vendored)).own_bug


def test_a_class_of_the_program_does_not_become_one_of_a_library_by_its_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jira.py").write_text("class Late(LookupError): pass\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    jira = importlib.import_module("jira")
    monkeypatch.delitem(sys.modules, "jira")
    monkeypatch.setitem(sys.modules, "jira", jira)  # and removed after the test
    assert not has_readable_text(jira.Late("connection timed out"))


def redirected_to(target: str) -> Callable[[], object]:
    """Requests follows a redirect to *target*."""

    class Redirects(requests.adapters.BaseAdapter):
        def send(self, request: requests.PreparedRequest, **_: Any) -> requests.Response:  # type: ignore[override]
            response = requests.Response()
            response.status_code, response.url, response.request = 302, str(request.url), request
            response.headers["Location"] = target
            response._content = b""  # noqa: SLF001 - as its adapter does
            response.raw = BytesIO()
            return response

        def close(self) -> None: ...

    session = requests.Session()
    session.mount("http://", Redirects())
    return lambda: session.get(URL)


@pytest.mark.parametrize("target", ["http://", "gopher://nope.invalid/"])
def test_a_redirect_to_a_url_that_cannot_be_sent_is_the_services(target: str) -> None:
    assert not verdict(redirected_to(target)).own_bug


@pytest.mark.parametrize(
    ("function", "own"), [("do_handshake", False), ("read", False), ("load_cert_chain", True), ("wrap_context", True)]
)
def test_a_tls_error_is_the_programs_unless_the_peer_took_part(function: str, own: bool) -> None:
    fault = verdict(in_library("ssl", function, "raise __import__('ssl').SSLError(1, 'no start line')"))
    assert (fault.own_bug, fault.code) == (own, "network")
