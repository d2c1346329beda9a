"""What a simulator was asked: one request as tests and handlers see it, and the journal that keeps the last ones."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping
from threading import Condition
from typing import Any
from urllib.parse import parse_qsl

from tidegate.core.redact import redact
from tidegate.testing.simulator.http import Headers, Read

# Bytes of bodies that the journal keeps at most, over all requests.
MAX_BYTES = 16 * 1024 * 1024
_SHOWN = 2000  # characters of a body in the journal of the control endpoint


class RecordedRequest:
    """One request that reached the simulator.

    *number* counts from 1, *at* is UNIX time, *params* are the parts of the path that a route names. *met* says what
    answered it ("step 1: 503", "answer: 200", "outage: reset"). It is *over* when the answer was sent or broken off;
    *gone*: the client went away before that.
    """

    __slots__ = ("at", "body", "gone", "headers", "met", "method", "number", "over", "params", "path", "raw_query")

    def __init__(self, read: Read, *, number: int, at: float) -> None:
        self.number = number
        self.at = at
        self.method = read.method
        self.path = read.path
        self.raw_query = read.query
        self.headers: Headers = read.headers
        self.body = read.body
        self.params: Mapping[str, str] = {}
        self.met = ""
        self.over = False
        self.gone = False

    @property
    def query(self) -> dict[str, str]:
        """The query by name; of a name that comes more than once, the last."""
        return dict(self.pairs)

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The query in its order, with every repetition."""
        return parse_qsl(self.raw_query, keep_blank_values=True)

    @property
    def form(self) -> dict[str, str]:
        """The fields of a body that is a form, as a browser sends one without files."""
        return dict(parse_qsl(self.text, keep_blank_values=True))

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")

    @property
    def json(self) -> Any:
        """The body as JSON; ValueError when it is none."""
        return json.loads(self.body)

    def as_json(self) -> dict[str, Any]:
        """For a page or a terminal: secrets are taken out, and a long body is cut."""
        return {
            "number": self.number,
            "at": self.at,
            "method": self.method,
            "path": self.path,
            "query": redact(self.raw_query, _SHOWN),
            "headers": {name: redact(f"{name}: {value}")[len(name) + 2 :] for name, value in self.headers.items()},
            "body": redact(self.text, _SHOWN),
            "length": len(self.body),
            "met": self.met,
            "over": self.over,
            "gone": self.gone,
        }

    def __repr__(self) -> str:
        query = f"?{self.raw_query}" if self.raw_query else ""
        return f"<Asked {self.number}: {self.method} {self.path}{query} -> {self.met}{', gone' if self.gone else ''}>"


class Journal:
    """The last requests, oldest first. Any thread may read it; the simulator's own writes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept: deque[RecordedRequest] = deque()
        self._bytes = 0
        self.total = 0
        self._changed = Condition()

    def add(self, request: RecordedRequest) -> None:
        with self._changed:
            self.total += 1
            self._kept.append(request)
            self._bytes += len(request.body)
            while len(self._kept) > self._limit or (self._bytes > MAX_BYTES and len(self._kept) > 1):
                self._bytes -= len(self._kept.popleft().body)
            self._changed.notify_all()

    def over(self, request: RecordedRequest, *, gone: bool) -> None:
        with self._changed:
            request.over, request.gone = True, gone
            self._changed.notify_all()

    def clear(self) -> None:
        with self._changed:
            self._kept.clear()
            self._bytes = self.total = 0

    def matching(self, wanted: Callable[[RecordedRequest], bool]) -> list[RecordedRequest]:
        with self._changed:
            return [each for each in self._kept if wanted(each)]

    def wait(self, enough: Callable[[], bool], timeout: float) -> bool:
        """Whether *enough* came true; it is asked again after each change."""
        with self._changed:
            return self._changed.wait_for(enough, timeout)
