"""The same failure gets the same verdict, whichever client library it comes through.

Every exception here is a real one: provoked over loopback, in every library that can run into it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.unit.faults.clients import CLIENTS, SOON, Ask, failure
from tests.unit.faults.wire import answer, full, hangs, nowhere, refused, resets, says, serving, speaks_first
from tidegate.faults.classification import classify

ALL = tuple(CLIENTS)
HTTP = tuple(name for name in ALL if name not in {"socket", "asyncio"})
REDIRECTING = tuple(name for name in HTTP if name != "http_client")
RAISING = tuple(name for name in REDIRECTING if name != "urllib3_without_retries")
DECODING = tuple(name for name in REDIRECTING if name != "urllib")
# urllib3 still takes an address without a scheme.
PARSING = tuple(name for name in REDIRECTING if not name.startswith("urllib3"))

JSON = "application/json"
PAGE = b"<!DOCTYPE html>\n<html><body>Please log in.</body></html>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One failure, and what it means; *but* names the libraries that cannot tell, with code and rule."""

    failure: str
    at: Callable[[], AbstractContextManager[str]]
    code: str
    reason: str
    reach: str
    retriable: bool
    rule: str
    status: int = 0
    retry_after: float | None = None
    clients: tuple[str, ...] = HTTP
    ask: dict[str, Any] = field(default_factory=dict)
    but: dict[str, tuple[str, str]] = field(default_factory=dict)


def over(script: Any, *, tls: bool = False) -> Callable[[], AbstractContextManager[str]]:
    return lambda: serving(script, tls=tls)


def at(url: str) -> Callable[[], AbstractContextManager[str]]:
    return lambda: nullcontext(url)


@contextmanager
def without_tls() -> Iterator[str]:
    with serving(speaks_first(answer(400))) as url:
        yield url.replace("http:", "https:")


def transient(failure: str, at: Any, code: str, rule: str, **more: Any) -> Row:
    return Row(failure=failure, at=at, code=code, reason="transient", reach="target", retriable=True, rule=rule, **more)


def config(failure: str, at: Any, code: str, rule: str, **more: Any) -> Row:
    return Row(failure=failure, at=at, code=code, reason="config", reach="target", retriable=False, rule=rule, **more)


def status(number: int, code: str, reason: str, reach: str, *, retriable: bool, **more: Any) -> Row:
    return Row(
        failure=f"status {number}", at=over(says(answer(number, b"{}", Content_Type=JSON))), code=code, reason=reason,
        reach=reach, retriable=retriable, rule=f"status:{number}", status=number, clients=RAISING, **more,
    )  # fmt: skip


# A bare stream sees bytes and no answer, so for it a connection that ends is always one that ended too early.
STREAM = {"asyncio": ("cut_short", "kind:cut")}
# aiohttp forgets why the connection ended.
AIOHTTP_CUT = {"aiohttp": ("cut_short", "kind:cut")}
# openai hands a text to code that expects an object, and fails on that.
OPENAI_TEXT = {"openai": ("unexpected", "unknown"), "openai_async": ("unexpected", "unknown")}
PLAIN_VALUE_ERROR = {"urllib": ("bad_address", "own_bug:invalid ipv6 url")}

ROWS = (
    transient("nobody listens", refused, "network", "kind:refused", clients=ALL),
    transient("the name does not exist", nowhere, "network", "kind:dns", clients=ALL),
    transient("the connection is never accepted", full, "timeout", "kind:timeout", clients=ALL, ask={"timeout": SOON}),
    transient("no answer in time", over(hangs()), "timeout", "kind:timeout", clients=ALL, ask={"timeout": SOON}),
    transient("the body stops coming", over(hangs(answer(200, b"[1,", missing=9, Content_Type=JSON))), "timeout",
              "kind:timeout", ask={"timeout": SOON}),
    transient("closed without an answer", over(says(b"")), "network", "kind:reset", clients=(*HTTP, "asyncio"),
              but=STREAM),
    transient("reset without an answer", over(resets()), "network", "kind:reset", clients=ALL),
    transient("reset in the middle of the body", over(resets(answer(200, b"[1,", missing=9, Content_Type=JSON))),
              "network", "kind:reset", clients=ALL, but=AIOHTTP_CUT),
    transient("closed in the middle of the body", over(says(answer(200, b"[1,", missing=9, Content_Type=JSON))),
              "cut_short", "kind:cut", clients=(*HTTP, "asyncio")),
    transient("closed in the middle of a chunk",
              over(says(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nabc")), "cut_short", "kind:cut"),
    transient("a broken gzip", over(says(answer(200, b"\x1f\x8b\x08\x00 no deflate", Content_Encoding="gzip"))),
              "cut_short", "kind:cut", clients=DECODING),
    transient("no HTTP at all", over(says(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")), "network", "kind:protocol"),
    transient("TLS to a port without it", without_tls, "network", "kind:tls", clients=ALL),
    transient("half a JSON text", over(says(answer(200, b'{"a": [1, tr', Content_Type=JSON))), "cut_short", "kind:cut",
              ask={"json": True}),
    transient("a web page called HTML", over(says(answer(200, PAGE, Content_Type="text/html"))), "html_answer",
              "kind:html", ask={"json": True}, but=OPENAI_TEXT),
    transient("a web page called JSON", over(says(answer(200, PAGE, Content_Type=JSON))), "html_answer", "kind:html",
              ask={"json": True}),
    Row(failure="another language than JSON", at=over(says(answer(200, b'{"a": oops}', Content_Type=JSON))),
        code="bad_answer", reason="contract", reach="operation", retriable=False, rule="kind:not_json",
        ask={"json": True}),
    config("a certificate nobody vouches for", over(says(answer(200)), tls=True), "certificate", "kind:certificate",
           clients=ALL),
    config("a certificate of another host", over(says(answer(200)), tls=True), "certificate", "kind:certificate",
           clients=ALL, ask={"trusting": True}),
    config("a redirect to itself", over(says(answer(302, Location="/path"))), "redirected", "kind:redirects",
           clients=tuple(name for name in REDIRECTING if name != "urllib")),
    config("a redirect to itself", over(says(answer(302, Location="/path"))), "redirected", "status:302", status=302,
           clients=("urllib",)),
    config("an address that cannot be read", at("http://[::1/path"), "bad_address", "own_bug:bad_url",
           clients=REDIRECTING, but=PLAIN_VALUE_ERROR),
    config("an address without a scheme", at("nope.invalid/path"), "bad_address", "own_bug:bad_url", clients=PARSING,
           but={"urllib": ("bad_address", "own_bug:unknown url type")}),
    config("an unknown scheme", at("gopher://127.0.0.1:9/path"), "bad_address", "own_bug:bad_url", clients=REDIRECTING),
    status(400, "bad_request", "item", "item", retriable=False),
    status(401, "unauthorized", "auth", "credential", retriable=False),
    status(402, "quota_exhausted", "quota", "target", retriable=False),
    status(403, "forbidden", "auth", "operation", retriable=False),
    status(404, "not_found", "item", "item", retriable=False),
    status(408, "timeout", "transient", "target", retriable=True),
    status(409, "conflict", "transient", "item", retriable=True),
    status(410, "gone", "item", "item", retriable=False),
    status(422, "bad_request", "item", "item", retriable=False),
    status(429, "rate_limited", "throttled", "credential", retriable=True),
    status(500, "upstream_failure", "transient", "target", retriable=True),
    status(501, "not_supported", "config", "operation", retriable=False),
    status(502, "upstream_failure", "transient", "target", retriable=True),
    status(503, "overloaded", "overloaded", "target", retriable=True),
    status(504, "upstream_failure", "transient", "target", retriable=True),
)  # fmt: skip
CASES = [pytest.param(row, client, id=f"{row.failure}-{client}") for row in ROWS for client in row.clients]


@pytest.mark.req("SYNC-01", "SYNC-02", "FEED-02", "FEED-03")
@pytest.mark.parametrize(("row", "client"), CASES)
def test_the_verdict_does_not_depend_on_the_library(row: Row, client: str) -> None:
    with row.at() as url:
        error = failure(client, Ask(url=url, **row.ask))

    fault = classify(error)

    assert fault is not None
    code, rule = row.but.get(client, (row.code, row.rule))
    assert (fault.code, fault.rule, fault.status) == (code, rule, row.status)
    assert (fault.reason, fault.reach) == (row.reason, row.reach)
    assert fault.retriable is row.retriable
    assert fault.fatal is not row.retriable


KEEP_HEADERS = tuple(name for name in RAISING if name != "urllib3")


@pytest.mark.parametrize("client", KEEP_HEADERS)
def test_the_wait_that_an_answer_asks_for_is_read_through_every_library(client: str) -> None:
    with serving(says(answer(429, b"{}", Retry_After="7", Content_Type=JSON))) as url:
        fault = classify(failure(client, Ask(url=url)))

    assert fault is not None
    assert fault.retry_after == 7.0


@pytest.mark.parametrize("client", RAISING)
def test_a_wrapper_of_the_program_hides_nothing(client: str) -> None:
    with serving(says(answer(503, b"{}", Retry_After="7", Content_Type=JSON))) as url:
        error = failure(client, Ask(url=url))
    wrapper = RuntimeError("the sync of user 7 failed")
    wrapper.__cause__ = error

    assert (fault := classify(wrapper)) is not None
    assert (fault.code, fault.status) == ("overloaded", 503)
    assert client not in KEEP_HEADERS or fault.retry_after == 7.0
