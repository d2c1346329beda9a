"""A crowd of clients that are slow in every way, in a process of its own; who is cut comes back at once.

python -m tests.web.slow_crowd PORT 1000      until its input ends; then it says how the connections went
"""

from __future__ import annotations

import errno
import json
import select
import socket
import sys
import time
from dataclasses import dataclass, field

_TURN = 0.1  # seconds
_DRIP = 1.0
_HOST = b"host: 127.0.0.1\r\n"
_FORM = b"POST /api/v1/classify HTTP/1.1\r\n" + _HOST + b"content-type: application/json\r\n"


@dataclass(frozen=True, slots=True)
class Kind:
    """What such a client says first, and then every second; one that does not read has little room for answers."""

    first: bytes
    more: bytes = b""
    reads: bool = True


KINDS = {
    "says nothing": Kind(b""),
    "head": Kind(b"GET / HTTP/1.1\r\n" + _HOST, b"x: y\r\n"),
    "body": Kind(_FORM + b"content-length: 100000\r\n\r\n", b" " * 10),
    "body in pieces": Kind(_FORM + b"transfer-encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
    "reads no answer": Kind((b"GET /api/openapi.json HTTP/1.1\r\n" + _HOST + b"\r\n") * 50, reads=False),
    "reads no stream": Kind(b"GET /live HTTP/1.1\r\n" + _HOST + b"accept: text/event-stream\r\n\r\n", reads=False),
}


@dataclass(slots=True)
class Client:
    kind: str
    line: socket.socket
    since: float
    told: bool = False  # what it says first


@dataclass(slots=True)
class Crowd:
    """All of them, on one thread that never waits for any."""

    port: int
    here: dict[int, Client] = field(default_factory=dict)
    lives: dict[str, list[float]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    poll: select.epoll = field(default_factory=select.epoll)
    dripped: float = 0.0

    def come(self, kind: str) -> None:
        line = socket.socket()
        # As on a network: with the large packets of loopback, the kernel takes megabytes for who reads nothing.
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 1400)
        if not KINDS[kind].reads:
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        line.setblocking(False)
        if line.connect_ex(("127.0.0.1", self.port)) not in (0, errno.EINPROGRESS):
            raise OSError("there is no way to connect")
        self.here[line.fileno()] = Client(kind, line, time.monotonic())
        self.poll.register(line, select.EPOLLOUT | select.EPOLLRDHUP)

    def turn(self) -> None:
        """Whoever was cut comes again; whoever is due says a little."""
        for number, events in self.poll.poll(_TURN):
            client = self.here[number]
            if events & (select.EPOLLHUP | select.EPOLLERR | select.EPOLLRDHUP):
                self._gone(number)
            elif not client.told:
                client.told = True
                self._say(client, KINDS[client.kind].first)
                self.poll.modify(number, select.EPOLLRDHUP)
        now = time.monotonic()
        if now - self.dripped > _DRIP:
            self.dripped = now
            for client in list(self.here.values()):
                if client.told:
                    self._say(client, KINDS[client.kind].more)

    def _say(self, client: Client, what: bytes) -> None:
        try:
            if what:
                client.line.send(what)
        except OSError:
            return  # its end is told by the poll

    def _gone(self, number: int) -> None:
        client = self.here.pop(number)
        self.poll.unregister(number)
        client.line.close()
        self.lives[client.kind].append(time.monotonic() - client.since)
        self.come(client.kind)


def main(port: int, n: int) -> None:
    crowd = Crowd(port)
    kinds = list(KINDS)
    for at in range(n):
        crowd.come(kinds[at % len(kinds)])
        if at % 50 == 0:
            crowd.turn()
    while not select.select([sys.stdin], [], [], 0)[0]:
        crowd.turn()
    now = time.monotonic()
    oldest = {kind: max((now - each.since for each in crowd.here.values() if each.kind == kind), default=0.0)
              for kind in kinds}  # fmt: skip
    sys.stdout.write(json.dumps({"lives": crowd.lives, "oldest": oldest}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
