"""How many connections a server has room for, and how long the kernel keeps what a client does not take."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from tidegate.web.connections import listening_at

ROOM = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[2])))
from tidegate.web.connections import room
print(room(), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


@pytest.mark.parametrize(("soft", "hard", "room", "raised"), [(100, 100, 50, 100), (100, 200, 100, 200)])
def test_half_of_the_files_that_may_be_open_are_for_connections(soft: int, hard: int, room: int, raised: int) -> None:
    run = subprocess.run([sys.executable, "-c", ROOM, str(soft), str(hard)], check=True, capture_output=True, text=True)
    assert run.stdout.split() == [str(room), str(raised)]


@pytest.mark.skipif(sys.platform != "linux", reason="other kernels have no such option")
def test_the_kernel_drops_after_a_minute_what_a_client_does_not_take() -> None:
    with listening_at("127.0.0.1", 0) as server, socket.create_connection(server.getsockname(), 60):
        accepted, _ = server.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 60_000
