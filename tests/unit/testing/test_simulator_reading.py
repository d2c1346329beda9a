"""Requests are read within bounds, in whatever pieces they come, and a hostile one harms nobody but its sender."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.text import numbers
from tidegate.testing import Hang, Simulator, Step
from tidegate.testing.simulator.requests import MAX_HEAD, Read, RequestReader, UnreadableRequest

MOST = 1000
PLAIN = b"GET /a?b=c#d HTTP/1.1\r\nHost: x\r\nX-Two: 1\r\nx-two: 2\r\n\r\n"
WITH_LENGTH = b"POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = (
    b"PUT /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5;ext=1\r\nhello\r\n6\r\n world\r\n0\r\nTrailer: yes\r\n\r\n"
)
OLD = b"GET http://x.test/d HTTP/1.0\r\n\r\n"
ALL = PLAIN + WITH_LENGTH + b"\r\n" + CHUNKED + OLD


def read_all(pieces: list[bytes]) -> list[Read]:
    reader, found = RequestReader(MOST), []
    for piece in pieces:
        reader.feed(piece)
        while (read := reader.next()) is not None:
            found.append(read)
    assert reader.waiting == 0
    return found


def test_requests_are_read_one_after_the_other() -> None:
    plain, sized, chunked, old = read_all([ALL])

    assert (plain.method, plain.path, plain.query, plain.body, plain.keep) == ("GET", "/a", "b=c", b"", True)
    assert plain.headers["X-Two"] == "1, 2"
    assert (sized.method, sized.body) == ("POST", b"hello")
    assert (chunked.method, chunked.body) == ("PUT", b"hello world")
    assert (old.path, old.keep) == ("/d", False)


@given(st.lists(st.integers(0, len(ALL)), max_size=40))
def test_the_pieces_in_which_they_come_make_no_difference(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(ALL)]

    assert read_all([ALL[a:b] for a, b in pairwise(edges)]) == read_all([ALL])


@given(st.binary(max_size=300))
def test_no_bytes_at_all_break_the_reader(data: bytes) -> None:
    reader = RequestReader(MOST)
    reader.feed(data)
    with suppress(UnreadableRequest):
        while reader.next() is not None:
            pass


@pytest.mark.parametrize(
    ("sent", "status", "says"),
    [
        (b"\x16\x03\x01\x02\x00\r\n\r\n", 400, "first line"),
        (b"GET / HTTP/2.0\r\n\r\n", 400, "first line"),
        (b"GET  / HTTP/1.1\r\n\r\n", 400, "first line"),
        (b"GET / HTTP/1.1\r\nno header\r\n\r\n", 400, "is not a header"),
        (b"GET / HTTP/1.1\r\nA: b\r\n folded\r\n\r\n", 400, "is not a header"),
        (b"GET / HTTP/1.1\r\nA: b\0c\r\n\r\n", 400, "is not a header"),
        (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 201 + b"\r\n", 431, "more than 200 headers"),
        (b"GET /" + b"a" * MAX_HEAD + b" HTTP/1.1\r\n\r\n", 431, "65536"),
        (b"GET /" + b"a" * MAX_HEAD, 431, "65536"),
        (b"POST / HTTP/1.1\r\nContent-Length: 1001\r\n\r\n", 413, "1000"),
        (b"POST / HTTP/1.1\r\nContent-Length: 9999999999999999999\r\n\r\n", 400, "is not a valid length"),
        (b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400, "is not a valid length"),
        (b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400, "is not a valid length"),
        (b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400, "has both"),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", 501, "send it chunked"),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", 400, "is not a valid size"),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n", 400, "is not a valid size"),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n", 413, "1000"),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n", 400, "longer"),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1;" + b"x" * 2000, 400, "is too long"),
    ],
)
def test_what_is_no_request_is_said(sent: bytes, status: int, says: str) -> None:
    reader = RequestReader(MOST)
    reader.feed(sent)

    with pytest.raises(UnreadableRequest, match=says) as refused:
        reader.next()
    assert refused.value.status == status


# -- over sockets ----------------------------------------------------------------------------------------------------


@pytest.fixture
def sim() -> Iterator[Simulator]:
    with Simulator(max_body=100_000) as running:
        running.on("/x", lambda asked: {"length": len(asked.body)})
        yield running


def exchanged(sim: Simulator, *sent: bytes) -> bytes:
    """All that comes back until the connection is closed."""
    with socket.create_connection(("127.0.0.1", int(sim.url.rpartition(":")[2])), timeout=60) as sock:
        for each in sent:
            sock.sendall(each)
        found = b""
        while piece := sock.recv(65536):
            found += piece
        return found


def test_requests_that_are_sent_ahead_are_answered_in_their_order(sim: Simulator) -> None:
    one = b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b"
    sent = b"".join(one % (n, b"." * n) for n in range(50))

    found = exchanged(sim, sent, b"GET /x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")

    answers = [part.rpartition(b"\r\n")[2] for part in found.split(b"HTTP/1.1 200 OK")[1:]]
    assert answers == [b'{"length":%d}' % n for n in (*range(50), 0)]


def test_a_client_that_waits_for_a_continue_gets_it(sim: Simulator) -> None:
    head = b"POST /x HTTP/1.1\r\nHost: x\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
    with socket.create_connection(("127.0.0.1", int(sim.url.rpartition(":")[2])), timeout=60) as sock:
        sock.sendall(head)
        assert sock.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        sock.sendall(b"hello")
        assert sock.recv(1000).startswith(b"HTTP/1.1 200 OK\r\n")


def test_an_old_client_sees_the_connection_closed(sim: Simulator) -> None:
    found = exchanged(sim, b"GET /x HTTP/1.0\r\n\r\n")

    assert b"\r\nConnection: close\r\n" in found
    assert found.endswith(b'{"length":0}')


@pytest.mark.parametrize("size", [100_001, 50_000_000])
def test_too_large_a_body_is_refused_and_the_client_reads_why(sim: Simulator, size: int) -> None:
    with httpx2.Client(timeout=60) as client:
        try:
            answer = client.post(f"{sim.url}/x", content=bytes(size))
        except httpx2.WriteError:
            assert size > 1_000_000  # it went on sending for too long
        else:
            assert (answer.status_code, numbers(answer.json()["error"])) == (413, [100000])
        assert client.post(f"{sim.url}/x", content=bytes(100_000)).json() == {"length": 100_000}
    assert sim.count() == 1


@pytest.mark.parametrize("sent", [b"\r\n" * 100_000, b"x" * 1_000_000, b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 100_000])
def test_endless_nonsense_ends_its_own_connection_alone(sim: Simulator, sent: bytes) -> None:
    assert exchanged(sim, sent, b"\r\n\r\n").startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 431 "))
    assert httpx2.get(f"{sim.url}/x", timeout=60).status_code == 200


def test_more_than_was_announced_is_really_sent(sim: Simulator) -> None:
    sim.on("GET /long", Step(body="0123456789", length=4, headers={"Connection": "close"}))

    found = exchanged(sim, b"GET /long HTTP/1.1\r\nHost: x\r\n\r\n")

    assert b"\r\nContent-Length: 4\r\n" in found
    assert found.endswith(b"\r\n\r\n0123456789")


def test_a_slow_answer_holds_back_what_is_sent_ahead(sim: Simulator) -> None:
    sim.on("GET /hang", Hang("1h"))
    sent, some = 0, bytes(1_000_000)
    with socket.create_connection(("127.0.0.1", int(sim.url.rpartition(":")[2])), timeout=0.5) as sock:
        sock.sendall(b"GET /hang HTTP/1.1\r\nHost: x\r\n\r\n")
        sim.wait_for("GET /hang")
        with suppress(TimeoutError):  # nobody reads it any more
            while sent < 100_000_000:
                sent += sock.send(some)

    assert sent < 50_000_000  # what the system keeps by itself
