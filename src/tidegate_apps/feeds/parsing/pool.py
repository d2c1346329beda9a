"""Hands a body to a child process, and builds values from its answer."""

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

# What a feed says, whatever its format.

AS_IT_IS, BASE64 = "", "base64"  # ways of a body into a child process
_ENCODE = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode  # rows of plain values hold no circle


class ParseError(Exception):
    """What came is no feed that can be read; the message says why, for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedEntry:
    """One entry. *key* is the same for the same entry, *digest* changes with what it says."""

    key: str  # its guid, else its link, else a hash of its title and date
    guid: str | None
    link: str | None  # absolute, http or https
    title: str  # plain text
    author: str | None
    summary_html: str  # safe to show: no script, no style, no image, links of http and https alone
    published: float | None  # seconds since 1970
    updated: float | None
    digest: str


FIELDS = tuple(FeedEntry.__dataclass_fields__)  # of an entry as a row, in this order


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """What one answer held."""

    title: str | None
    link: str | None
    ttl: float  # seconds that it wants to be left alone for; 0 when it does not say
    skip_hours: tuple[int, ...]  # of the day, in UTC
    skip_days: tuple[str, ...]  # "Monday"
    malformed: str | None  # what is wrong with it, although it could be read
    rows: str  # its entries as JSON, the oldest first: the database reads it, and nobody else has to

    @property
    def entries(self) -> tuple[FeedEntry, ...]:
        """Its entries, the newest first."""
        rows = reversed(json.loads(self.rows).values())
        return tuple(FeedEntry(**dict(zip(FIELDS, row, strict=True))) for row in rows)


def rows_of(entries: Iterable[list[Any]]) -> str:
    """The entries of a feed, given with the newest first, as `Feed.rows`: {"0": [key, guid, ...], "1": ...}.

    Each is there once. It is an object, because that is what both databases take apart with the same words.
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
_CALLS_EACH = 1000  # to start a reader takes as long as to read two hundred feeds

_Asked = list[str]
_Waiting = tuple[_Asked, "asyncio.Future[dict[str, Any]]"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What readers may use."""

    limits: Limits = field(default_factory=lambda: Limits(memory_mb=512, cpu="5s", time="60s", answer_mb=128))
    together: int = 16  # feeds that are read in one go
    small: int = 200_000  # bytes that each of them may have for that
    function: str = "tidegate_apps.feeds.parsing.parser:read_all"  # named: this process needs none of its libraries


class ParserPool:
    """Feeds that wait to be read: whoever comes while all children are busy is read together with the others."""

    def __init__(self, how: Reading | None = None, among: Children | None = None) -> None:
        """*among* are the child processes; there are some for all, if none are given."""
        self._how, self._among = how or Reading(), among
        self._waiting: deque[_Waiting] = deque()
        self._busy: set[asyncio.Task[None]] = set()

    async def parse(self, body: bytes, content_type: str, url: str) -> Feed:
        """As `parse`."""
        asked = [*packed(body), content_type[:200], url]
        if len(body) > self._how.small:
            [answer] = await self._answers([asked])
        else:
            answer = await self._in_line(asked)
        if "error" in answer:
            raise ParseError(answer["error"])
        return _feed(answer)

    async def _in_line(self, asked: _Asked) -> dict[str, Any]:
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting.append((asked, future))
        if len(self._busy) < _MAX_CONCURRENT:
            task = asyncio.ensure_future(self._read())
            self._busy.add(task)
            task.add_done_callback(self._busy.discard)
        return await future

    async def _read(self) -> None:
        while self._waiting:
            some = [self._waiting.popleft() for _ in range(min(self._how.together, len(self._waiting)))]
            some = [each for each in some if not each[1].done()]  # the others are not waited for any more
            try:
                await self._read_these(some)
            finally:
                for _, future in some:
                    future.cancel()  # no-one is left waiting if this ends early

    async def _read_these(self, some: list[_Waiting]) -> None:
        try:
            answers = await self._answers([asked for asked, _ in some])
        except (ChildError, ParseError) as error:
            if len(some) > 1:
                # One of them breaks its reader: each by itself, so that it breaks for that one alone.
                for each in some:
                    await self._read_these([each])
            else:
                _settle(some[0][1], error)
        except Exception as error:  # of ours: each poll says it as its own
            for _, future in some:
                _settle(future, error)
        else:
            for (_, future), answer in zip(some, answers, strict=True):
                _settle(future, answer)

    async def _answers(self, asked: list[_Asked]) -> list[dict[str, Any]]:
        how = self._how
        try:
            found: list[dict[str, Any]] = await run(
                how.function, asked, how.limits, among=self._among or _readers(os.getpid())
            )
        except ChildError as error:
            # That this machine can start no process is not the fault of a feed.
            if error.code in _BEYOND and not isinstance(error.__cause__, OSError):
                raise ParseError(_BEYOND[error.code]) from error
            raise
        return found


async def parse(body: bytes, content_type: str, url: str) -> Feed:
    """The feed in *body*; ParseError when there is none.

    *content_type* is the header as it came, *url* where it came from: what relative links are relative to.
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
    """A body as text, and how: plain ASCII goes as it is, which is quick and what most feeds are."""
    return (body.decode("ascii"), AS_IT_IS) if body.isascii() else (base64.b64encode(body).decode("ascii"), BASE64)


def _settle(future: asyncio.Future[dict[str, Any]], outcome: dict[str, Any] | Exception) -> None:
    if future.done():
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


def _feed(answer: dict[str, Any]) -> Feed:
    return Feed(
        title=answer["title"],
        link=answer["link"],
        ttl=answer["ttl"],
        skip_hours=tuple(answer["skip_hours"]),
        skip_days=tuple(answer["skip_days"]),
        malformed=answer["malformed"],
        rows=answer["rows"],
    )
