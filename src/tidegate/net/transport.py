"""Transports for httpx2: connections to checked addresses, and calls that end at a deadline or by another thread.

httpx2 has no setting for the network backend, so this module replaces its private `_pool`.
"""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import httpcore2
import httpx2

from tidegate.net.addresses import AddressCheck, Resolver, resolve_checked, system_resolver

_MAX_IDLE = 50  # connections
_KEEP_SECONDS = 5.0
_CONNECT_SECONDS = 5.0  # of a call that has a deadline and no timeout
_POLL_SECONDS = 0.25  # between two checks whether a waiting call should stop


@cache
def _trusted() -> ssl.SSLContext:
    """Load the certificate authorities. That takes long, so all transports share them."""
    return httpx2.create_ssl_context()


# -- asynchronous, with checked addresses ------------------------------------------------------------------------------


def async_transport(
    *, check: AddressCheck | None = None, resolver: Resolver = system_resolver
) -> httpx2.AsyncHTTPTransport:
    """Return a transport that connects only to addresses that *check* allows. None: the host is trusted.

    The checked address is the one connected to. Connections are kept per host name, so a kept one is never used for
    another name. A blocked address raises `BlockedAddress`, everything else the errors of httpx2.
    """
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=_MAX_IDLE, keepalive_expiry=_KEEP_SECONDS)
    transport = httpx2.AsyncHTTPTransport(verify=_trusted(), limits=limits)
    if check is not None:
        transport._pool = httpcore2.AsyncConnectionPool(
            ssl_context=_trusted(),
            max_connections=None,
            max_keepalive_connections=_MAX_IDLE,
            keepalive_expiry=_KEEP_SECONDS,
            network_backend=_CheckedBackend(resolver, check),
        )
    return transport


class _CheckedBackend(httpcore2.AsyncNetworkBackend):
    """Resolves a name, checks every address and connects to one of them."""

    def __init__(self, resolver: Resolver, check: AddressCheck) -> None:
        self._resolver, self._check = resolver, check
        self._backend = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        try:
            addresses = await resolve_checked(host, port, self._resolver, self._check)
        except (OSError, UnicodeError) as error:
            raise httpcore2.ConnectError(f"the name {host} could not be resolved: {error}") from error
        failed: Exception = httpcore2.ConnectError(f"{host} has no address")
        for address in addresses:
            try:
                return await self._backend.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failed = error  # nothing was sent, so the next address may work
        raise failed


# -- synchronous, with a deadline for the whole call -------------------------------------------------------------------


class CallStopped(Exception):
    """The caller no longer waits for the response."""


@dataclass(frozen=True, slots=True)
class _Deadline:
    """The end of a call: at *end* in monotonic time, or when *stop* returns true."""

    end: float
    stop: Callable[[], bool]

    def remaining(self, late: type[Exception], timeout: float | None = None) -> float:
        """Return the seconds that remain, up to *timeout*. Raises *late* if there are none, CallStopped on stop."""
        if self.stop():
            raise CallStopped
        remaining = self.end - time.monotonic()
        if remaining <= 0:
            raise late("the whole call took too long")
        return remaining if timeout is None else min(remaining, timeout)


class DeadlineTransport(httpx2.HTTPTransport):
    """A transport whose calls end at a deadline. httpx2 only limits single waits."""

    def __init__(self) -> None:
        super().__init__(verify=_trusted(), trust_env=False)
        self._local = threading.local()  # one thread makes one call
        self._aborts = 0
        self._pool = httpcore2.ConnectionPool(
            ssl_context=_trusted(),
            max_connections=None,
            max_keepalive_connections=_MAX_IDLE,
            keepalive_expiry=_KEEP_SECONDS,
            network_backend=_DeadlineBackend(lambda: getattr(self._local, "deadline", None)),
        )

    @contextmanager
    def until(self, seconds: float, stop: Callable[[], bool] = lambda: False) -> Iterator[None]:
        """Set the deadline of calls that this thread makes in the block.

        They raise a timeout of httpx2, or CallStopped when *stop* returns true or another thread calls `abort`.
        """
        aborts = self._aborts
        self._local.deadline = _Deadline(time.monotonic() + seconds, lambda: stop() or self._aborts != aborts)
        try:
            yield
        finally:
            self._local.deadline = None

    def abort(self) -> None:
        """Stop the calls of all threads that have a deadline. The transport can still be used."""
        self._aborts += 1


class _DeadlineBackend(httpcore2.SyncBackend):
    def __init__(self, deadline: Callable[[], _Deadline | None]) -> None:
        self._deadline = deadline

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.NetworkStream:
        if (deadline := self._deadline()) is not None:
            timeout = deadline.remaining(httpcore2.ConnectTimeout, timeout or _CONNECT_SECONDS)
        stream = super().connect_tcp(host, port, timeout, local_address, socket_options)
        return _DeadlineStream(stream, self._deadline)


class _DeadlineStream(httpcore2.NetworkStream):
    def __init__(self, stream: httpcore2.NetworkStream, deadline: Callable[[], _Deadline | None]) -> None:
        self._stream, self._deadline = stream, deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        deadline, began = self._deadline(), time.monotonic()
        if deadline is None:
            return self._stream.read(max_bytes, timeout)
        while True:
            remaining = deadline.remaining(httpcore2.ReadTimeout, _POLL_SECONDS)
            try:
                return self._stream.read(max_bytes, remaining)
            except httpcore2.ReadTimeout:
                if timeout is not None and time.monotonic() - began >= timeout:
                    raise

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        deadline, began = self._deadline(), time.monotonic()
        if deadline is None:
            self._stream.write(buffer, timeout)
            return
        # A timeout of the stream would not tell how much was sent.
        sock, unsent = self._stream.get_extra_info("socket"), memoryview(buffer)
        while unsent:
            sock.settimeout(deadline.remaining(httpcore2.WriteTimeout, _POLL_SECONDS))
            try:
                unsent = unsent[sock.send(unsent) :]
                began = time.monotonic()
            except TimeoutError as error:
                if timeout is not None and time.monotonic() - began >= timeout:
                    raise httpcore2.WriteTimeout(str(error)) from error
            except OSError as error:
                raise httpcore2.WriteError(str(error)) from error

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        if (deadline := self._deadline()) is not None:
            timeout = deadline.remaining(httpcore2.ConnectTimeout, timeout or _CONNECT_SECONDS)
        return _DeadlineStream(self._stream.start_tls(ssl_context, server_hostname, timeout), self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)
