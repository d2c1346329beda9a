"""The socket of a server: of the page's, and of the gateway's."""

from __future__ import annotations

import socket
import sys

import pytest

from tidegate.web.connections import PortTaken, listening_at


def test_head_and_body_of_an_answer_leave_at_once_on_every_connection() -> None:
    """Else the body waits 40 ms for a client that keeps its connection to acknowledge the head."""
    with (
        listening_at("127.0.0.1", 0) as at,
        socket.create_connection(at.getsockname(), timeout=30),
        at.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has it")
def test_the_kernel_keeps_what_a_client_does_not_take_for_a_minute() -> None:
    with (
        listening_at("127.0.0.1", 0) as at,
        socket.create_connection(at.getsockname(), timeout=30),
        at.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 60_000


def test_a_port_that_is_taken_is_named() -> None:
    with listening_at("127.0.0.1", 0) as at:
        port = at.getsockname()[1]

        with pytest.raises(PortTaken, match=f"127.0.0.1:{port} cannot be used"):
            listening_at("127.0.0.1", port)
