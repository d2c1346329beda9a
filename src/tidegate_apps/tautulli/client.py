"""A client for Tautulli's API v2. `target.wrap(client)` guards it.

with Tautulli("http://tautulli:8181", key) as client:
    client.status()
    for play in client.get_history(HistoryQuery(length=100)).plays: ...
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError
from contextlib import closing
from dataclasses import dataclass
from datetime import date
from typing import Self

import httpx2
from pydantic_core import from_json

from tidegate import Fault, net, rules
from tidegate.faults import Code
from tidegate_apps.tautulli import models
from tidegate_apps.tautulli.models import Activity, GeoLocation, PlayHistory, TautulliStatus

_REDIRECTS = 3
_MAX_BYTES = 64 * 1024 * 1024  # a page of 500 rows has about 1 MB


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTiming:
    """Timeouts in seconds: until the response begins, and for the whole call."""

    begin: float = 10.0
    total: float = 30.0
    clock: Callable[[], float] = time.monotonic


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryQuery:
    """A query of the history. Days are in Tautulli's time zone, and inclusive."""

    start: int = 0
    length: int = 25
    oldest_first: bool = False
    after: date | None = None
    before: date | None = None
    start_date: date | None = None
    user: str = ""
    user_id: int | None = None
    rating_key: int | None = None
    section_id: int | None = None
    media_type: str = ""
    search: str = ""
    expected: bool = False  # rows must exist: an empty result raises EmptyHistory

    def as_query(self) -> dict[str, str]:
        """Return the parameters: single rows, not grouped, without running streams."""
        parameters: dict[str, object] = {
            "start": self.start,
            "length": self.length,
            "order_column": "date",
            "order_dir": "asc" if self.oldest_first else "desc",
            "grouping": 0,
            "include_activity": 0,
            "after": self.after,
            "before": self.before,
            "start_date": self.start_date,
            "user": self.user,
            "user_id": self.user_id,
            "rating_key": self.rating_key,
            "section_id": self.section_id,
            "media_type": self.media_type,
            "search": self.search,
        }
        return {name: str(value) for name, value in parameters.items() if value not in ("", None)}


@dataclass(frozen=True, slots=True)
class TautulliResponse:
    """A response, with what classification needs."""

    status_code: int
    headers: Mapping[str, str]
    content: bytes


class TautulliError(Exception):
    """Tautulli refused or failed a call; *message* is its text, *response* the response."""

    def __init__(self, message: str, response: TautulliResponse) -> None:
        self.message = message
        self.response = response
        super().__init__(message or f"HTTP status {response.status_code} without a message")

    @property
    def unknown_command(self) -> bool:
        """Return whether this version of Tautulli lacks the command."""
        return self.message.startswith("Unknown command")


class EmptyHistory(TautulliError):
    """No rows where some were expected. A failed database query in Tautulli looks the same."""


class NoEnvelope(json.JSONDecodeError):
    """JSON without the envelope that Tautulli writes."""


class Tautulli:
    """One method per command that we use. Raises TautulliError, JSONDecodeError, or errors of httpx2.

    Any thread may abort all calls with `connections.abort()`. They then raise CancelledError.
    """

    def __init__(
        self, url: str, key: str, times: ClientTiming | None = None, transport: httpx2.BaseTransport | None = None
    ) -> None:
        """*transport* replaces sockets in tests."""
        self._url = f"{url.rstrip('/')}/api/v2"
        self._key = key
        self._times = times or ClientTiming()
        self.connections = net.DeadlineTransport()
        headers = {"User-Agent": net.user_agent()}
        self._http = httpx2.Client(timeout=self._times.begin, transport=transport or self.connections, headers=headers)

    def status(self, check: str = "") -> TautulliStatus:
        """Check that Tautulli responds; with the check `database`, also the integrity of its database."""
        message, data = self._asked("status", {"check": check} if check else {})
        integrity = data.get("integrity_check") if isinstance(data, Mapping) else None
        return TautulliStatus(message, None if integrity is None else models.text(integrity))

    def server_status(self) -> bool:
        """Return whether Tautulli is connected to Plex, which says nothing about Tautulli's health."""
        _, data = self._asked("server_status", {})
        return isinstance(data, Mapping) and data.get("connected") is True

    def arnold(self) -> str:
        """Return a film quote: the cheapest command."""
        message, data = self._asked("arnold", {})
        return models.text(data) or message

    def get_history(self, query: HistoryQuery, begun: Callable[[], object] = lambda: None) -> PlayHistory:
        """Return a page of the history.

        *begun* is called when the response starts, so Tautulli has finished its query.
        """
        answer = self._sent("get_history", query.as_query(), begun)
        _, data = _opened(answer)
        history = models.history_of(data if isinstance(data, Mapping) else {})
        # A page after the first may be empty: rows were deleted meanwhile, or the count includes rows that are not
        # sent. A failed query returns no draw.
        ended = query.start > 0 and history.draw
        if query.expected and not history.rows and not ended:
            raise EmptyHistory("no rows, although there were some", answer)
        return history

    def get_activity(self, session_key: str = "") -> Activity:
        """Return the current streams."""
        _, data = self._asked("get_activity", {"session_key": session_key} if session_key else {})
        return models.activity_of(data if isinstance(data, Mapping) else {})

    def get_geoip_lookup(self, ip_address: str) -> GeoLocation:
        """Return the location of an IP address. Raises TautulliError if unknown."""
        answer = self._sent("get_geoip_lookup", {"ip_address": ip_address})
        _, data = _opened(answer)
        if not isinstance(data, Mapping) or data.get("error"):
            raise TautulliError(models.text(data.get("error") if isinstance(data, Mapping) else None), answer)
        return models.place_of(data)

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _asked(self, command: str, query: Mapping[str, str]) -> tuple[str, object]:
        return _opened(self._sent(command, query))

    def _sent(
        self, command: str, query: Mapping[str, str], begun: Callable[[], object] = lambda: None
    ) -> TautulliResponse:
        asked = {"apikey": self._key, "cmd": command, "out_type": "json", **query}
        request = self._http.build_request("GET", self._url, params=asked)
        try:
            with self.connections.until(self._times.total):
                return self._followed(request, self._times.clock() + self._times.total, begun)
        except net.CallStopped as error:
            raise CancelledError("the call was aborted") from error

    def _followed(self, request: httpx2.Request, end: float, begun: Callable[[], object]) -> TautulliResponse:
        """Follow redirects. One that would send the key to another server is returned as the response."""
        followed = 0
        while True:
            with closing(self._http.send(request, stream=True)) as response:
                onward = response.next_request
                if onward is None or followed == _REDIRECTS or not _may_follow(request.url, onward.url):
                    if response.status_code < 300:
                        begun()
                    return TautulliResponse(response.status_code, dict(response.headers), self._body(response, end))
            request, followed = onward, followed + 1

    def _body(self, response: httpx2.Response, end: float) -> bytes:
        pieces, size = list[bytes](), 0
        for piece in response.iter_bytes():
            pieces.append(piece)
            size += len(piece)
            if self._times.clock() > end:
                raise httpx2.ReadTimeout(f"the answer took longer than {self._times.total:g} s")
            if size > _MAX_BYTES:
                raise httpx2.RemoteProtocolError(f"the answer is longer than {_MAX_BYTES} bytes")
        return b"".join(pieces)


def _may_follow(here: httpx2.URL, there: httpx2.URL) -> bool:
    """Return whether a redirect stays on the server: the key is in the URL, and proxies repeat it in redirects."""
    return here.host == there.host and (here.scheme, there.scheme) != ("https", "http")


def _opened(answer: TautulliResponse) -> tuple[str, object]:
    """Return the message and the data of a successful response. Raises TautulliError for others."""
    if answer.status_code >= 300:
        raise TautulliError(_message(answer), answer)
    document = _read(answer.content)
    response = document.get("response") if isinstance(document, Mapping) else None
    if not isinstance(response, Mapping) or "result" not in response:
        raise NoEnvelope("there is no response in it", answer.content[:1000].decode("utf-8", "replace"), 0)
    message = models.text(response.get("message"))
    if response["result"] != "success":
        raise TautulliError(message, answer)
    return message, response.get("data")


def _read(content: bytes) -> object:
    try:
        return from_json(content, cache_strings="keys")  # twice as fast
    except ValueError:
        return json.loads(content)  # accepts more, and raises the usual error


def _message(answer: TautulliResponse) -> str:
    try:
        return models.text(json.loads(answer.content)["response"]["message"])
    except (ValueError, KeyError, TypeError):
        return ""


# -- codes of Tautulli's rule pack, and advice for some ----------------------------------------------------------------

TARGET = "tautulli-api"
PACK = rules.tautulli
CODES: tuple[Code, ...] = tuple(PACK.codes)

# Where the general advice is not specific enough.
_ADVICE = {
    "unauthorized": "Set tautulli.api_key to the key in the settings of Tautulli (Web Interface), and start again.",
    "bad_address": "Set tautulli.url to the address of Tautulli, with its root if it has one, and start again.",
    "api_off": "Switch the API on in the settings of Tautulli (Web Interface); then sync now.",
}


def no_rows(error: Exception) -> Fault | None:
    """Return the fault of an empty page where rows existed. Only the sync can detect it."""
    return PACK.code_book["empty_history"].fault("no-rows") if isinstance(error, EmptyHistory) else None


def advice_for(fault: Fault) -> str:
    """Return the text for users: what happened and what to do."""
    return f"{fault.message} {_ADVICE.get(fault.code, fault.advice)}"
