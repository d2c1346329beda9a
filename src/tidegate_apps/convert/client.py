"""The client of the gateway: streams the PDF out and the XML in, within a deadline for the whole call."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol
from xml.parsers import expat

import httpcore2
import httpx2

from tidegate import net
from tidegate_apps.convert.codes import MEGABYTE, MORE, BadAnswer, too_large
from tidegate_apps.convert.settings import ConvertSettings
from tidegate_apps.convert.storage import Draft

if TYPE_CHECKING:
    from tidegate_apps.convert.gateway import GatewayLimits, Mappings


# -- deadlines for whole calls, because httpx2 only limits single waits ------------------------------------------------

CONNECT = 5.0  # seconds
_STOP_POLL_INTERVAL = 1.0  # seconds between two checks of `stop`
_MAX_KEPT_CONNECTIONS = 40  # connections


class ConversionStopped(Exception):
    """The caller no longer waits for the response."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """The end of a call: at *end*, or when *stop* returns true."""

    end: float  # monotonic time
    stop: Callable[[], bool]

    def left(self, late: type[Exception]) -> float:
        """Return the seconds that remain. Raises *late* if there are none, and ConversionStopped on stop."""
        if self.stop():
            raise ConversionStopped
        left = self.end - time.monotonic()
        if left <= 0:
            raise late("the whole call took too long")
        return left


class DeadlineTransport(httpx2.HTTPTransport):
    """A transport with a deadline per call. Calls without one have the timeouts of the client."""

    def __init__(self) -> None:
        super().__init__(trust_env=False)
        self._waits = threading.local()  # one thread makes one call
        # httpx2 has no setting for the network backend.
        self._pool = httpcore2.ConnectionPool(
            ssl_context=httpx2.create_ssl_context(trust_env=False),
            max_connections=None,
            max_keepalive_connections=_MAX_KEPT_CONNECTIONS,
            keepalive_expiry=5.0,
            network_backend=_Backend(httpcore2.SyncBackend(), lambda: getattr(self._waits, "now", None)),
        )

    @contextmanager
    def until(self, seconds: float, stop: Callable[[], bool] = lambda: False) -> Iterator[Deadline]:
        """Set the deadline of calls that this thread makes in the block.

        They raise a timeout of httpx2, or ConversionStopped.
        """
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
                continue  # the check above decides whether time remains

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


_PROBE = 5.0  # seconds
_MAX_RESULT = 512 * MEGABYTE
_TOO_LARGE = 413
_MAX_SAID = 4096  # bytes of a response that is not XML


@dataclass(frozen=True, slots=True)
class ConvertRequest:
    """One conversion to request."""

    source: BinaryIO
    mapping: str
    job_id: str  # the same for every attempt, so that the gateway can deduplicate


class Bounds(Protocol):
    """An httpx2 transport with deadlines for whole calls."""

    def handle_request(self, request: httpx2.Request) -> httpx2.Response: ...

    def until(self, seconds: float, stop: Callable[[], bool] = ...) -> AbstractContextManager[object]: ...


class Gateway:
    """The gateway of the settings. Without a URL it is the embedded one, started at the first call."""

    def __init__(
        self,
        settings: ConvertSettings,
        closing: ExitStack,
        mappings: Mappings | None = None,
        most_result: int = _MAX_RESULT,
        probe: float = _PROBE,
        transport: Bounds | None = None,
    ) -> None:
        """*transport* replaces sockets in tests."""
        self._settings, self._closing, self._mappings = settings, closing, mappings
        self._most_result, self._probe = most_result, probe
        self._lock = threading.Lock()
        self._url = settings.gateway_url
        self._transport = transport or DeadlineTransport()
        way: Any = self._transport  # httpx2 only needs what every transport has
        headers = {"User-Agent": net.user_agent()}
        self._client = closing.enter_context(
            httpx2.Client(transport=way, timeout=None, trust_env=False, headers=headers)
        )

    @property
    def url(self) -> str:
        with self._lock:
            if not self._url:
                from tidegate_apps.convert.gateway import Embedded

                embedded = Embedded(limits_of(self._settings), self._mappings)
                try:
                    self._url = embedded.start()
                except (OSError, RuntimeError) as error:
                    # Treat it like a remote gateway that is down: jobs wait, and the start is retried.
                    raise httpx2.ConnectError("the gateway that is built in could not be started") from error
                self._closing.callback(embedded.stop)
            return self._url

    def probe(self) -> None:
        """Raise unless the gateway is healthy."""
        health = f"{self.url}/health"
        with self._transport.until(self._probe), self._client.stream("GET", health) as answer:
            answer.raise_for_status()

    def convert(self, request: ConvertRequest, draft: Draft, stop: Callable[[], bool]) -> int:
        """Write the XML to *draft* and return the status code.

        Raises the errors of httpx2, BadAnswer if the response is not XML, and ConversionStopped.
        """
        process = f"{self.url}/process"
        fields = {"mapping": request.mapping, "pretty": "1", "job_id": request.job_id}
        file = {"file": ("document.pdf", request.source, "application/pdf")}
        with (
            self._transport.until(self._settings.gateway_timeout, stop),
            self._client.stream(
                "POST", process, data=fields, files=file, headers={"Accept": "application/xml"}
            ) as answer,
        ):
            if answer.status_code != httpx2.codes.OK:
                _begun(answer)
                answer.raise_for_status()
                raise BadAnswer(f"status {answer.status_code}")
            if _is_other(answer):
                raise BadAnswer(f"it is {answer.headers['content-type']:.60}")
            check = _Wellformed()
            for piece in answer.iter_bytes():
                if draft.size + len(piece) > self._most_result:
                    raise BadAnswer(f"more than {self._most_result} bytes")
                check.add(piece)
                draft.add(piece)
            check.end()
            return answer.status_code


def _is_other(answer: httpx2.Response) -> bool:
    """Return whether the response declares HTML or JSON. A login page may parse as XML."""
    kind = answer.headers.get("content-type", "").lower()
    return kind.startswith(("text/html", "application/json"))


def limits_of(settings: ConvertSettings) -> GatewayLimits:
    """Return the limits of the embedded gateway: a longer timeout allows longer conversions."""
    from tidegate_apps.convert.gateway import GatewayLimits

    return GatewayLimits.for_one_who_waits(float(settings.gateway_timeout), settings.most_bytes)


def _begun(answer: httpx2.Response) -> None:
    """Read the start of a response and discard the rest, which may be long."""
    said = b""
    for piece in answer.iter_bytes():
        said += piece
        if len(said) >= _MAX_SAID:
            break
    answer.extensions["said"] = said[:_MAX_SAID]


def more_of(error: httpx2.HTTPStatusError) -> str:
    """Return what the response adds to the error text, in our words; empty unless it has a code that we know."""
    try:
        document: Any = json.loads(error.response.extensions.get("said", b""))
    except ValueError:
        document = None
    known = document if isinstance(document, dict) else {}
    if error.response.status_code == _TOO_LARGE:
        limit = known.get("most_bytes")
        return too_large(limit) if isinstance(limit, int) and limit > 0 else MORE["too_large"]
    code = known.get("code")
    return MORE.get(code, "") if isinstance(code, str) else ""


class _Wellformed:
    """Parses XML as it arrives. Raises BadAnswer at the first error."""

    def __init__(self) -> None:
        self._parser = expat.ParserCreate()
        self._parser.StartDoctypeDeclHandler = self._doctype  # entities could expand without bound

    def add(self, piece: bytes, *, last: bool = False) -> None:
        try:
            self._parser.Parse(piece, last)
        except (expat.ExpatError, LookupError, ValueError) as error:  # the latter two come from unknown encodings
            raise BadAnswer(f"no XML: {error}") from None

    def end(self) -> None:
        self.add(b"", last=True)

    def _doctype(self, *_: object) -> None:
        raise BadAnswer("it has a document type of its own")
