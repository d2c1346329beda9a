"""Whose failure it is: what a client library raises while it reads a response is the service's, else the program's."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import ssl
import urllib.request
import xml.etree.ElementTree as ET
from collections.abc import Callable
from email.message import EmailMessage
from email.mime.text import MIMEText
from pathlib import Path
from typing import Any

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
    async def main() -> None:
        async with aiohttp.ClientSession() as session, session.get(URL, **options):
            pass

    asyncio.run(main())


def in_library(module: str, function: str, what: str) -> Callable[[], object]:
    """A function of a client library that runs *what*."""
    names: dict[str, Any] = {"__name__": module}
    exec(compile(f"def {function}():\n    {what}", "client.py", "exec"), names)
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
    assert not is_own_bug(group(bug, ValueError("unknown")))
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
