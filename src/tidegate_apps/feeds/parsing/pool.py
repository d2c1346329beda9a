"""Sends feeds to child processes and builds values from their results."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

from tidegate.children import ChildError, Children, Limits, run

# -- values of a parsed feed -------------------------------------------------------------------------------------------

AS_IT_IS, BASE64 = "", "base64"  # encodings of a body for the child process
_ENCODE = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode  # plain values contain no cycles


class ParseError(Exception):
    """The response is not a readable feed. The message says why, for users."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedEntry:
    """One entry. *key* identifies it across polls, *digest* changes with its content."""

    key: str  # its guid, else its link, else a hash of title and date
    guid: str | None
    link: str | None  # absolute, http or https
    title: str  # plain text
    author: str | None
    summary_html: str  # sanitized: no script, style or image; only http and https links
    published: float | None  # UNIX time
    updated: float | None
    digest: str


FIELDS = tuple(FeedEntry.__dataclass_fields__)  # the columns of a row


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """The content of one response."""

    title: str | None
    link: str | None
    ttl: float  # minimum seconds between polls; 0 if not given
    skip_hours: tuple[int, ...]  # of the day, in UTC
    skip_days: tuple[str, ...]  # "Monday"
    malformed: str | None  # what is wrong with it, although it could be parsed
    rows: str  # the entries as JSON, oldest first; only the database decodes it

    @property
    def entries(self) -> tuple[FeedEntry, ...]:
        """Return the entries, newest first."""
        rows = reversed(json.loads(self.rows).values())
        return tuple(FeedEntry(**dict(zip(FIELDS, row, strict=True))) for row in rows)


def rows_of(entries: Iterable[list[Any]]) -> str:
    """Return entries (newest first) as `Feed.rows`: {"0": [key, guid, ...], "1": ...}.

    Each key occurs once. It is an object, because SQLite and PostgreSQL can expand one with the same SQL.
    """
    once: dict[str, list[Any]] = {}
    for entry in entries:
        once.setdefault(entry[0], entry)
    return _ENCODE(dict(enumerate(reversed(once.values()))))


_BEYOND = {
    "child_time": "the feed takes too long to read",
    "child_memory": "the feed needs too much memory to read",
    "child_died": "the feed breaks its reader",
}
_MAX_CONCURRENT = max(2, os.cpu_count() or 2)
_CALLS_EACH = 1000  # starting a child takes as long as parsing 200 feeds

_Asked = list[str]
_Waiting = tuple[_Asked, "asyncio.Future[dict[str, Any]]"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Limits of parsing."""

    limits: Limits = field(default_factory=lambda: Limits(memory_mb=512, cpu="5s", time="60s", answer_mb=128))
    together: int = 16  # feeds per batch
    small: int = 200_000  # maximum bytes of a feed in a batch
    # a name, so that this process does not import its libraries
    function: str = "tidegate_apps.feeds.parsing.parser:read_all"


class ParserPool:
    """Batches feeds for child processes. Feeds that arrive while all children are busy share a batch."""

    def __init__(self, how: Reading | None = None, among: Children | None = None) -> None:
        """*among* are the child processes; by default, those that all pools share."""
        self._how, self._among = how or Reading(), among
        self._waiting: deque[_Waiting] = deque()
        self._busy: set[asyncio.Task[None]] = set()

    async def parse(self, body: bytes, content_type: str, url: str) -> Feed:
        """Parse one feed; see the function `parse`."""
        asked = [*packed(body), content_type[:200], url]
        if len(body) > self._how.small:
            [answer] = await self._answers([asked])
        else:
            future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
            self._waiting.append((asked, future))
            if len(self._busy) < _MAX_CONCURRENT:
                task = asyncio.create_task(self._read_waiting())
                self._busy.add(task)
                task.add_done_callback(self._busy.discard)
            answer = await future
        if "error" in answer:
            raise ParseError(answer["error"])
        return Feed(**{**answer, "skip_hours": tuple(answer["skip_hours"]), "skip_days": tuple(answer["skip_days"])})

    async def _read_waiting(self) -> None:
        while self._waiting:
            some = [self._waiting.popleft() for _ in range(min(self._how.together, len(self._waiting)))]
            some = [item for item in some if not item[1].done()]  # skip feeds whose caller no longer waits
            try:
                await self._read(some)
            finally:
                for _, future in some:
                    future.cancel()  # so that no caller waits forever if this task ends early

    async def _read(self, some: list[_Waiting]) -> None:
        outcomes: Iterable[dict[str, Any] | Exception]
        try:
            outcomes = await self._answers([asked for asked, _ in some])
        except (ChildError, ParseError) as error:
            if len(some) > 1:
                # One feed crashed the child: parse each alone, so that only that one fails.
                for item in some:
                    await self._read([item])
                return
            outcomes = [error]
        except Exception as error:  # a bug of ours: every poll of the batch reports it
            outcomes = [error] * len(some)
        for (_, future), outcome in zip(some, outcomes, strict=True):
            if future.done():
                continue
            if isinstance(outcome, Exception):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)

    async def _answers(self, asked: list[_Asked]) -> list[dict[str, Any]]:
        how = self._how
        try:
            results: list[dict[str, Any]] = await run(
                how.function, asked, how.limits, among=self._among or _readers(os.getpid())
            )
        except ChildError as error:
            # If this machine cannot start a process, that is not an error of the feed.
            if error.code in _BEYOND and not isinstance(error.__cause__, OSError):
                raise ParseError(_BEYOND[error.code]) from error
            raise
        return results


async def parse(body: bytes, content_type: str, url: str) -> Feed:
    """Return the feed in *body*. Raises ParseError.

    *content_type* is the header as received. *url* is where the body came from: the base of relative links.
    """
    loop = asyncio.get_running_loop()
    if loop not in _of_loops:
        _of_loops[loop] = ParserPool()
    return await _of_loops[loop].parse(body, content_type, url)


_of_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, ParserPool] = WeakKeyDictionary()


@lru_cache(maxsize=1)
def _readers(pid: int) -> Children:  # noqa: ARG001 - what it is cached by: those of a process that forked are not ours
    return Children(_MAX_CONCURRENT, calls_each=_CALLS_EACH)


def packed(body: bytes) -> tuple[str, str]:
    """Return a body as text, and its encoding. ASCII passes unchanged: that is fast, and most feeds are ASCII."""
    return (body.decode("ascii"), AS_IT_IS) if body.isascii() else (base64.b64encode(body).decode("ascii"), BASE64)
