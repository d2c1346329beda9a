"""The client of the gateway: streams the PDF out and the XML in, within a deadline for the whole call."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol
from xml.parsers import expat

import httpx2

from tidegate import net
from tidegate_apps.convert.codes import MEGABYTE, MORE, BadAnswer, too_large
from tidegate_apps.convert.settings import ConvertSettings
from tidegate_apps.convert.storage import Draft

if TYPE_CHECKING:
    from tidegate_apps.convert.gateway import GatewayLimits, Mappings


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
        self._transport = transport or net.DeadlineTransport()
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

        Raises the errors of httpx2, BadAnswer if the response is not XML, and CallStopped.
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
