"""Calls that end in time, whatever the other side does: the client itself bounds each wait, and not all of them.

transport = Bounded()
with httpx2.Client(transport=transport) as client, transport.until(180.0, lambda: job.cancelled):
    client.post(...)
"""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpcore2
import httpx2

CONNECT = 5.0  # seconds
_STOP_POLL_INTERVAL = 1.0  # seconds between two looks whether anybody still waits
_MAX_KEPT_CONNECTIONS = 40  # connections


class ConversionStopped(Exception):
    """Nobody waits for the answer any more."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """How long somebody waits: until *end*, or until *stop* says so."""

    end: float  # of the monotonic clock
    stop: Callable[[], bool]

    def left(self, late: type[Exception]) -> float:
        """Seconds; raises *late* when there are none, and Stopped when nobody waits."""
        if self.stop():
            raise ConversionStopped
        left = self.end - time.monotonic()
        if left <= 0:
            raise late("the whole call took too long")
        return left


class DeadlineTransport(httpx2.HTTPTransport):
    """HTTP with a bound for each call as a whole; a call without one is bounded wait by wait, as the client is set."""

    def __init__(self) -> None:
        super().__init__(trust_env=False)
        self._waits = threading.local()  # a call is made by one thread
        # The client has no setting for this.
        self._pool = httpcore2.ConnectionPool(
            ssl_context=httpx2.create_ssl_context(trust_env=False), max_connections=None,
            max_keepalive_connections=_MAX_KEPT_CONNECTIONS, keepalive_expiry=5.0,
            network_backend=_Backend(httpcore2.SyncBackend(), lambda: getattr(self._waits, "now", None)),
        )  # fmt: skip

    @contextmanager
    def until(self, seconds: float, stop: Callable[[], bool] = lambda: False) -> Iterator[Deadline]:
        """Bounds the calls that this thread makes meanwhile: they raise a timeout of the client, or Stopped."""
        self._waits.now = deadline = Deadline(time.monotonic() + seconds, stop)
        try:
            yield deadline
        finally:
            self._waits.now = None


class _Backend(httpcore2.NetworkBackend):
    def __init__(self, backend: httpcore2.NetworkBackend, wait: Callable[[], Deadline | None]) -> None:
        self._backend, self._wait = backend, wait

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.NetworkStream:
        wait = self._wait()
        if wait is not None:
            timeout = min(CONNECT, wait.left(httpcore2.ConnectTimeout))
        return _Stream(self._backend.connect_tcp(host, port, timeout, local_address, socket_options), self._wait)

    def sleep(self, seconds: float) -> None:
        self._backend.sleep(seconds)


class _Stream(httpcore2.NetworkStream):
    def __init__(self, stream: httpcore2.NetworkStream, wait: Callable[[], Deadline | None]) -> None:
        self._stream, self._wait = stream, wait

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        wait = self._wait()
        if wait is None:
            return self._stream.read(max_bytes, timeout)
        while True:
            left = wait.left(httpcore2.ReadTimeout)
            try:
                return self._stream.read(max_bytes, min(left, _STOP_POLL_INTERVAL))
            except httpcore2.ReadTimeout:
                continue  # whether there is any time left is asked above

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        wait = self._wait()
        self._stream.write(buffer, timeout if wait is None else wait.left(httpcore2.WriteTimeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        wait = self._wait()
        if wait is not None:
            timeout = min(CONNECT, wait.left(httpcore2.ConnectTimeout))
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, timeout), self._wait)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)
