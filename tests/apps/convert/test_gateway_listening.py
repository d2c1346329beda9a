"""The socket of the gateway."""

from __future__ import annotations

import socket

from tidegate_apps.convert.gateway.serving import listening_at


def test_head_and_body_of_an_answer_leave_at_once_on_every_connection_to_the_gateway() -> None:
    """Else the body waits 40 ms for a client that keeps its connection to acknowledge the head."""
    with (
        listening_at("127.0.0.1", 0) as at,
        socket.create_connection(at.getsockname(), timeout=30),
        at.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
