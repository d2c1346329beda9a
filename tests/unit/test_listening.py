"""The socket of the server."""

from __future__ import annotations

import socket

import pytest

from tidegate import assembly


def test_head_and_body_of_an_answer_leave_at_once_on_every_connection() -> None:
    """Else the body waits 40 ms for a client that keeps its connection to acknowledge the head."""
    with (
        assembly.listening("127.0.0.1", 0) as at,
        socket.create_connection(at.getsockname(), timeout=30),
        at.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


def test_a_port_that_is_taken_is_named() -> None:
    with assembly.listening("127.0.0.1", 0) as at:
        port = at.getsockname()[1]

        with pytest.raises(assembly.PortTaken, match=f"127.0.0.1:{port} cannot be used"):
            assembly.listening("127.0.0.1", port)
