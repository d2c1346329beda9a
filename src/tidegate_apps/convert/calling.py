"""One call of the gateway: the PDF goes out as it is read, and the XML is written as it comes."""

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
from tidegate_apps.convert.in_time import DeadlineTransport
from tidegate_apps.convert.settings import ConvertSettings
from tidegate_apps.convert.storage import Draft

if TYPE_CHECKING:
    from tidegate_apps.convert.gateway import GatewayLimits, Mappings

_PROBE = 5.0  # seconds
_MAX_RESULT = 512 * MEGABYTE
_TOO_LARGE = 413
_MAX_SAID = 4096  # bytes of an answer that is no XML


@dataclass(frozen=True, slots=True)
class ConvertRequest:
    """What is to be converted."""

    source: BinaryIO
    mapping: str
    job_id: str  # the same at every attempt, so that the gateway need not do it twice


class Bounds(Protocol):
    """A transport of httpx2 whose calls are bounded as a whole."""

    def handle_request(self, request: httpx2.Request) -> httpx2.Response: ...

    def until(self, seconds: float, stop: Callable[[], bool] = ...) -> AbstractContextManager[object]: ...


class Gateway:
    """The gateway of the settings; without an address, the one that is built in, begun at the first call."""

    def __init__(
        self,
        settings: ConvertSettings,
        closing: ExitStack,
        mappings: Mappings | None = None,
        most_result: int = _MAX_RESULT,
        probe: float = _PROBE,
        transport: Bounds | None = None,
    ) -> None:
        """*transport*: for a gateway without sockets."""
        self._settings, self._closing, self._mappings = settings, closing, mappings
        self._most_result, self._probe = most_result, probe
        self._lock = threading.Lock()
        self._url = settings.gateway_url
        self._transport = transport or DeadlineTransport()
        way: Any = self._transport  # the client only wants what every transport has
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
                    # As a gateway elsewhere that is down: jobs wait, and it is tried again.
                    raise httpx2.ConnectError("the gateway that is built in could not be started") from error
                self._closing.callback(embedded.stop)
            return self._url

    def probe(self) -> None:
        """Whether it is well; raises when it is not."""
        health = f"{self.url}/health"
        with self._transport.until(self._probe), self._client.stream("GET", health) as answer:
            answer.raise_for_status()

    def convert(self, request: ConvertRequest, draft: Draft, stop: Callable[[], bool]) -> int:
        """Writes the XML to *draft*, and returns the status of the answer.

        Raises what the client raises, BadAnswer for what is no XML, and Stopped when *stop* says so meanwhile.
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
    """Whether the answer says itself that it is no XML; a page to sign in may look like some."""
    kind = answer.headers.get("content-type", "").lower()
    return kind.startswith(("text/html", "application/json"))


def limits_of(settings: ConvertSettings) -> GatewayLimits:
    """Those of the gateway that is built in: whoever waits longer lets it work longer."""
    from tidegate_apps.convert.gateway import GatewayLimits

    return GatewayLimits.for_one_who_waits(float(settings.gateway_timeout), settings.most_bytes)


def _begun(answer: httpx2.Response) -> None:
    """Reads the beginning of an answer, and lets go of the rest: it may be long."""
    said = b""
    for piece in answer.iter_bytes():
        said += piece
        if len(said) >= _MAX_SAID:
            break
    answer.extensions["said"] = said[:_MAX_SAID]


def more_of(error: httpx2.HTTPStatusError) -> str:
    """What the answer adds to the line for people, in our own words; empty when it has none of the codes we know."""
    try:
        told: Any = json.loads(error.response.extensions.get("said", b""))
    except ValueError:
        told = None
    known = told if isinstance(told, dict) else {}
    if error.response.status_code == _TOO_LARGE:
        limit = known.get("most_bytes")
        return too_large(limit) if isinstance(limit, int) and limit > 0 else MORE["too_large"]
    code = known.get("code")
    return MORE.get(code, "") if isinstance(code, str) else ""


class _Wellformed:
    """Follows XML as it comes; BadAnswer as soon as it is none."""

    def __init__(self) -> None:
        self._parser = expat.ParserCreate()
        self._parser.StartDoctypeDeclHandler = self._doctype  # entities of its own could grow without bound

    def add(self, piece: bytes, *, last: bool = False) -> None:
        try:
            self._parser.Parse(piece, last)
        except (expat.ExpatError, LookupError, ValueError) as error:  # the latter two of encodings that nobody knows
            raise BadAnswer(f"no XML: {error}") from None

    def end(self) -> None:
        self.add(b"", last=True)

    def _doctype(self, *_: object) -> None:
        raise BadAnswer("it has a document type of its own")
