"""Loopback servers that each misbehave in one way, for the clients whose exceptions the classifier has to know."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# Signed by itself, for a host called elsewhere.invalid.
CERTIFICATE = Path(__file__).with_name("certificate.pem")

Script = Callable[[socket.socket, threading.Event], None]


@contextlib.contextmanager
def serving(script: Script, *, tls: bool = False) -> Iterator[str]:
    """The address of a server that runs *script* on each connection, in a thread of its own."""
    over = threading.Event()
    threads: list[threading.Thread] = []
    listener = socket.create_server(("127.0.0.1", 0))
    wrap = _tls().wrap_socket if tls else None

    def talk(connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            connection.settimeout(60)
            if wrap is None:
                script(connection, over)
            else:
                with wrap(connection, server_side=True) as secured:
                    script(secured, over)

    def accept() -> None:
        while not over.is_set():
            with contextlib.suppress(OSError):
                thread = threading.Thread(target=talk, args=(listener.accept()[0],), daemon=True)
                threads.append(thread)
                thread.start()

    acceptor = threading.Thread(target=accept, daemon=True)
    acceptor.start()
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{listener.getsockname()[1]}/path"
    finally:
        over.set()
        # A blocked accept() does not notice that its socket was closed, but it does notice a shutdown.
        listener.shutdown(socket.SHUT_RDWR)
        acceptor.join()
        listener.close()
        for thread in threads:
            thread.join()


def says(answer: bytes) -> Script:
    """Reads the request, answers and closes."""

    def script(connection: socket.socket, over: threading.Event) -> None:
        if _request(connection):
            connection.sendall(answer)

    return script


def resets(answer: bytes = b"") -> Script:
    """Reads the request, sends *answer* and resets the connection once the client has seen it."""

    def script(connection: socket.socket, over: threading.Event) -> None:
        _request(connection)
        if answer:
            connection.sendall(answer)
            # A reset overtakes what is still in the client's buffer. Many short waits: in one, all may stand still.
            for _ in range(25):
                over.wait(0.02)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    return script


def hangs(answer: bytes = b"") -> Script:
    """Reads the request, sends *answer* and says no more."""

    def script(connection: socket.socket, over: threading.Event) -> None:
        _request(connection)
        connection.sendall(answer)
        over.wait()

    return script


def speaks_first(greeting: bytes) -> Script:
    """Sends *greeting* whatever the client says."""

    def script(connection: socket.socket, over: threading.Event) -> None:
        connection.recv(65536)
        connection.sendall(greeting)

    return script


def answer(status: int, body: bytes = b"", *, missing: int = 0, **headers: str) -> bytes:
    """An HTTP/1.1 answer; its Content-Length promises *missing* bytes more than it has."""
    lines = [f"HTTP/1.1 {status} Said So", f"Content-Length: {len(body) + missing}", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


@contextlib.contextmanager
def nowhere() -> Iterator[str]:
    """An address whose host has no name. The resolver is not asked: some answer after seconds, some answer for all."""
    real = socket.getaddrinfo

    def resolve(*given: Any, **named: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    socket.getaddrinfo = resolve
    try:
        yield "http://nope.invalid:80/path"
    finally:
        socket.getaddrinfo = real


@contextlib.contextmanager
def refused() -> Iterator[str]:
    """An address where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    yield f"http://127.0.0.1:{port}/path"


@contextlib.contextmanager
def full() -> Iterator[str]:
    """The address of a listener whose queue is full: a new connection gets no answer at all."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/path"


def _request(connection: socket.socket) -> bytes:
    got = b""
    while b"\r\n\r\n" not in got:
        more = connection.recv(65536)
        if not more:
            break
        got += more
    return got


def _tls() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    return context
