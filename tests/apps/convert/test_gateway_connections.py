"""The gateway looks at its connections as the server does: none is endless, and there are not more than fit."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from tests.apps.convert.waiting import until
from tidegate_apps.convert.gateway import Embedded, GatewayLimits

FEW = GatewayLimits(uploads=1, waiting=0, conversions=1)  # so four at once may come


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with Embedded(FEW) as found:
        yield found


def connected(url: str) -> socket.socket:
    where = urlsplit(url)
    return socket.create_connection((where.hostname or "", where.port or 0), timeout=60)


def said(line: socket.socket) -> bytes:
    """What it says first; nothing when the connection broke."""
    try:
        return line.recv(65_536)
    except ConnectionError:
        return b""


def test_a_head_without_an_end_is_not_kept(url: str) -> None:
    with connected(url) as line:
        sent = 0
        try:
            line.sendall(b"GET /health HTTP/1.1\r\n")
            while sent < 60_000_000:
                sent += line.send(b"x: y\r\n" * 1000)
        except ConnectionError:
            pass
    assert sent < 20_000_000, "it took all that came"  # sockets keep some


def test_twice_as_many_may_come_as_are_served_and_those_who_leave_make_room(url: str) -> None:
    def asked(line: socket.socket) -> bytes:
        line.sendall(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n")
        return said(line)

    lines = [connected(url) for _ in range(4)]
    assert all(asked(line).startswith(b"HTTP/1.1 200 ") for line in lines)
    with connected(url) as fifth:
        told = said(fifth)
    assert told.startswith(b"HTTP/1.1 503 ")
    assert b"retry-after: 5" in told
    for line in lines:
        line.close()

    def again() -> bool:
        with connected(url) as line:
            try:
                return asked(line).startswith(b"HTTP/1.1 200 ")
            except ConnectionError:
                return False

    until(again)
