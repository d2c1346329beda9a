"""Clients that are slow, silent or endless lose their connection, and nobody else notices."""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx2
import pytest
from fastapi.responses import Response

from tests.web.api.building import Shop, app_with, listening, served, shop
from tidegate.web.connections import ConnectionTimeouts

QUICK = ConnectionTimeouts(head=0.3, grace=0.3, poll_interval=0.05)
HEAD = b"POST /api/v1/classify HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
DEADLINE = 60.0  # seconds; nothing here takes one


def large() -> Response:
    return Response(b"x" * 30_000_000)


def thoughtful() -> Response:
    time.sleep(4 * QUICK.head)
    return Response(b"thought over")


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with shop(tmp_path_factory.mktemp("slow")) as found:
        yield found


@pytest.fixture(scope="module")
def address(there: Shop) -> Iterator[str]:
    with listening(served(there, app_with(large=large, thoughtful=thoughtful)), patience=QUICK) as found:
        yield found


@pytest.fixture(scope="module")
def calm(there: Shop) -> Iterator[str]:
    """A server that looks at nobody's time: only sizes and numbers count."""
    with listening(
        served(there), patience=ConnectionTimeouts(head=1000, grace=1000, poll_interval=1000, max_connections=3)
    ) as found:
        yield found


def connected(address: str) -> socket.socket:
    parts = urlsplit(address)
    assert parts.hostname is not None
    made = socket.create_connection((parts.hostname, parts.port or 0), timeout=DEADLINE)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def last_words(line: socket.socket) -> bytes:
    """All that the server says until it ends the connection; AssertionError when it never does."""
    said = b""
    try:
        while piece := line.recv(65_536):
            said += piece
    except ConnectionError:
        pass
    except TimeoutError:
        pytest.fail("the connection is still there")
    return said


def drip(line: socket.socket, first: bytes, piece: bytes) -> None:
    """Sends *first* and then *piece* again and again, slowly, until the server has had enough."""

    def send() -> None:
        try:
            line.sendall(first)
            end = time.monotonic() + DEADLINE
            while time.monotonic() < end:
                line.sendall(piece)
                time.sleep(0.02)
        except OSError:
            return

    threading.Thread(target=send, daemon=True).start()


SLOW = {
    "says nothing": (b"", b""),
    "never ends its head": (b"GET / HTTP/1.1\r\n", b"x: y\r\n"),
    "never ends its first line": (b"GET /", b"a"),
    "never ends a body whose length it said": (HEAD + b"content-length: 100000\r\n\r\n", b"a"),
    "never ends a body in pieces": (HEAD + b"transfer-encoding: chunked\r\n\r\n", b"1\r\na\r\n"),
    "never ends a body of empty lines": (HEAD + b"transfer-encoding: chunked\r\n\r\n1;", b"x"),
    "never ends the head of its second request": (
        b"GET /health/live HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\nGET / HTTP/1.1\r\n", b"x: y\r\n",
    ),
    "goes on after it was refused": (
        b"POST /nowhere HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked\r\n\r\n", b"1\r\na\r\n",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", SLOW)
def test_who_is_slow_is_told_and_cut(address: str, what: str) -> None:
    first, piece = SLOW[what]
    with connected(address) as line:
        if first:
            drip(line, first, piece)
        said = last_words(line)
    if "refused" not in what:
        assert b"408 Request Timeout" in said or not said, said  # a word that comes while we send may be lost
    assert httpx2.get(f"{address}/health/live", timeout=60).status_code == 200


ENDLESS = {
    "a head": (b"GET / HTTP/1.1\r\n", b"x: y\r\n" * 1000),
    "a line": (b"GET /", b"a" * 5000),
    "a header": (b"GET / HTTP/1.1\r\nx: ", b"a" * 5000),
    "trailers": (HEAD + b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n", b"x: y\r\n" * 1000),
    "the name of a piece": (HEAD + b"transfer-encoding: chunked\r\n\r\n1;", b"a" * 5000),
}


@pytest.mark.parametrize("what", ENDLESS)
def test_what_has_no_end_is_not_kept(calm: str, what: str) -> None:
    first, piece = ENDLESS[what]
    with connected(calm) as line:
        sent = 0
        try:
            line.sendall(first)
            while sent < 60_000_000:
                sent += line.send(piece)
        except ConnectionError:
            pass
    assert sent < 20_000_000, "it took all that came"  # sockets keep some


BURSTS = {
    "one header": b"GET /health/live HTTP/1.1\r\nhost: 127.0.0.1\r\nx: " + b"a" * 66_000 + b"\r\n\r\n",
    "many headers": b"GET /health/live HTTP/1.1\r\nhost: 127.0.0.1\r\n" + b"x: y\r\n" * 12_000 + b"\r\n",
    "a URL": b"GET /health/live?" + b"a" * 66_000 + b" HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n",
    "the second request": (
        b"GET /health/live HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
        b"GET /health/live HTTP/1.1\r\nhost: 127.0.0.1\r\nx: " + b"a" * 66_000 + b"\r\n\r\n"
    ),
    "trailers": HEAD + b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n" + b"x: y\r\n" * 12_000 + b"\r\n",
    "the extension of a chunk": (
        HEAD + b"transfer-encoding: chunked\r\n\r\n2;x=" + b"a" * 100_000 + b"\r\n{}\r\n0\r\n\r\n"
    ),
    "many extensions of chunks": (
        HEAD + b"transfer-encoding: chunked\r\n\r\n" + (b"1;x=" + b"a" * 1_000 + b"\r\n \r\n") * 100 + b"0\r\n\r\n"
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", BURSTS)
def test_a_head_that_is_too_long_is_refused_also_when_it_comes_at_once(calm: str, what: str) -> None:
    for _ in range(10):  # how much comes in one read is for the kernel to say
        with connected(calm) as line:
            line.sendall(BURSTS[what])
            said = last_words(line)
        # While the first request is being answered, the connection can only break.
        assert said.count(b"HTTP/1.1 200") <= (what == "the second request"), said[:200]
        assert b" 431 " in said or what == "the second request", said[:200]


def test_a_head_just_below_the_limit_is_answered(calm: str) -> None:
    with connected(calm) as line:
        line.sendall(
            b"GET /health/live HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\nx: " + b"a" * 65_000 + b"\r\n\r\n"
        )
        assert last_words(line).startswith(b"HTTP/1.1 200")


def test_who_does_not_read_is_cut(address: str) -> None:
    with connected(address) as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        line.sendall(b"GET /api/large HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
        hung_up = select.poll()
        hung_up.register(line, 0)  # only the end of the connection is told
        assert hung_up.poll(DEADLINE * 1000)


@pytest.mark.parametrize("more", [b"\r\n", b"GET / HTTP/1.1\r\n"])
def test_who_begins_another_request_too_soon_still_gets_the_answer_before_it(address: str, more: bytes) -> None:
    with connected(address) as line:
        line.sendall(b"GET /thoughtful HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
        time.sleep(QUICK.head)  # what comes in one piece with it is not looked at by itself
        line.sendall(more)
        said = last_words(line)
    assert said.startswith(b"HTTP/1.1 200 ")
    assert b"thought over" in said.partition(b"408 Request Timeout")[0]


@pytest.mark.parametrize("other", [b"websocket", b"h2c"])
def test_who_asks_for_another_protocol_is_answered_in_this_one_and_the_log_says_nothing(
    address: str, caplog: pytest.LogCaptureFixture, other: bytes
) -> None:
    asking = b"GET /health/live HTTP/1.1\r\nhost: 127.0.0.1\r\n"
    with connected(address) as line:
        line.sendall(asking + b"connection: upgrade\r\nupgrade: " + other + b"\r\n\r\n")
        assert line.recv(65_536).startswith(b"HTTP/1.1 200 ")
        line.sendall(asking + b"connection: close\r\n\r\n")
        assert b"HTTP/1.1 200 " in last_words(line)
    assert [record.getMessage() for record in caplog.records if "pgrade" in record.getMessage()] == []


def test_who_is_refused_while_the_body_still_comes_hears_why_and_may_ask_again(there: Shop) -> None:
    hasty = ConnectionTimeouts(
        head=1000, grace=0, rate=1, poll_interval=0.005
    )  # cuts at once who sends what nobody hears
    body, asking = b"x" * 500_000, b"GET /health/live HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n"
    with listening(served(there), patience=hasty) as address, connected(address) as line:
        line.sendall(HEAD.replace(b"/classify", b"/nowhere") + b"content-length: %d\r\n\r\n" % len(body))
        line.sendall(body[:1000])
        assert line.recv(65_536).startswith(b"HTTP/1.1 404 ")
        time.sleep(0.1)
        line.sendall(body[1000:] + asking)
        assert b"HTTP/1.1 200 " in last_words(line)


def test_who_is_refused_and_never_ends_is_not_heard_for_ever(there: Shop) -> None:
    short = ConnectionTimeouts(head=1000, grace=1000, hear_out=0.1, poll_interval=0.02)
    with listening(served(there), patience=short) as address, connected(address) as line:
        line.sendall(HEAD.replace(b"/classify", b"/nowhere") + b"transfer-encoding: chunked\r\n\r\n")
        assert line.recv(65_536).startswith(b"HTTP/1.1 404 ")
        drip(line, b"", b"400\r\n" + b"x" * 1024 + b"\r\n")
        last_words(line)  # fails when the connection never ends


def test_no_more_come_in_than_fit_and_those_who_leave_make_room(calm: str) -> None:
    asking = b"GET /health/live HTTP/1.1\r\nhost: 127.0.0.1\r\n"
    lines = [answered(calm, asking + b"\r\nGET ") for _ in range(3)]
    with connected(calm) as fourth:
        assert b"503 Service Unavailable" in last_words(fourth)
    lines.pop().close()
    answered(calm, asking + b"connection: close\r\n\r\n").close()
    for line in lines:
        line.close()


def answered(address: str, asking: bytes) -> socket.socket:
    """A connection on which the server has answered, as soon as there is room for one."""
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        line = connected(address)
        line.sendall(asking)
        if b"200 OK" in line.recv(65_536):
            return line
        line.close()
    raise AssertionError("there is no room")
