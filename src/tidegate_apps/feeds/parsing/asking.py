"""Hands a body to a child process, and builds values from its answer."""

from __future__ import annotations

import asyncio
import base64
import os
from collections import deque
from typing import Any
from weakref import WeakKeyDictionary

from tidegate.children import ChildError, Children, Limits, run
from tidegate_apps.feeds.parsing.values import Entry, Feed, ParseError

LIMITS = Limits(memory_mb=512, cpu="5s", time="60s", answer_mb=128)

_CHILD = "tidegate_apps.feeds.parsing.inside:read_all"  # named: this process needs none of its libraries
_BEYOND = {
    "child_time": "the feed takes too long to read",
    "child_memory": "the feed needs too much memory to read",
    "child_died": "the feed breaks its reader",
}
_TOGETHER, _SMALL = 8, 200_000  # feeds that are read in one go, and characters that each of them may have for that
_AT_ONCE = max(2, os.cpu_count() or 2)

_Asked = list[str]
_Waiting = tuple[_Asked, "asyncio.Future[dict[str, Any]]"]


async def parse(body: bytes, content_type: str, url: str, *, among: Children | None = None) -> Feed:
    """The feed in *body*; ParseError when there is none.

    *content_type* is the header as it came, *url* where it came from: what relative links are relative to.
    """
    asked = [base64.b64encode(body).decode("ascii"), content_type[:200], url]
    if among is not None or len(asked[0]) > _SMALL:
        [answer] = await _answers([asked], among)
    else:
        answer = await _line_of(asyncio.get_running_loop()).answer(asked)
    if "error" in answer:
        raise ParseError(answer["error"])
    return _feed(answer)


class _Line:
    """Feeds that wait to be read: whoever comes while all readers are busy is read together with the others."""

    def __init__(self) -> None:
        self._waiting: deque[_Waiting] = deque()
        self._readers: set[asyncio.Task[None]] = set()

    async def answer(self, asked: _Asked) -> dict[str, Any]:
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting.append((asked, future))
        if len(self._readers) < _AT_ONCE:
            reader = asyncio.ensure_future(self._read())
            self._readers.add(reader)
            reader.add_done_callback(self._readers.discard)
        return await future

    async def _read(self) -> None:
        while self._waiting:
            some = [self._waiting.popleft() for _ in range(min(_TOGETHER, len(self._waiting)))]
            some = [each for each in some if not each[1].done()]  # the others are not waited for any more
            try:
                await self._read_these(some)
            finally:
                for _, future in some:
                    future.cancel()  # no-one is left waiting if this ends early

    async def _read_these(self, some: list[_Waiting]) -> None:
        try:
            answers = await _answers([asked for asked, _ in some], None)
        except (ChildError, ParseError) as error:
            if len(some) > 1:
                # One of them breaks its reader: each by itself, so that it breaks for that one alone.
                for each in some:
                    await self._read_these([each])
            else:
                _settle(some[0][1], error)
        except Exception as error:  # of ours, such as a reader that cannot start: each poll says it as its own
            for _, future in some:
                _settle(future, error)
        else:
            for (_, future), answer in zip(some, answers, strict=True):
                _settle(future, answer)


_lines: WeakKeyDictionary[asyncio.AbstractEventLoop, _Line] = WeakKeyDictionary()


def _line_of(loop: asyncio.AbstractEventLoop) -> _Line:
    return _lines.setdefault(loop, _Line())


def _settle(future: asyncio.Future[dict[str, Any]], outcome: dict[str, Any] | Exception) -> None:
    if future.done():
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


async def _answers(asked: list[_Asked], among: Children | None) -> list[dict[str, Any]]:
    try:
        found: list[dict[str, Any]] = await run(_CHILD, asked, LIMITS, among=among)
    except ChildError as error:
        if error.code in _BEYOND:
            raise ParseError(_BEYOND[error.code]) from error
        raise
    return found


def _feed(answer: dict[str, Any]) -> Feed:
    """Field by field, because this runs beside everything else, and is most of what a poll costs here."""
    entries = tuple(
        Entry(
            key=key,
            guid=guid,
            link=link,
            title=title,
            author=author,
            summary_html=html,
            published=published,
            updated=updated,
            digest=digest,
        )
        for key, guid, link, title, author, html, published, updated, digest in answer["entries"]
    )
    return Feed(
        title=answer["title"],
        link=answer["link"],
        ttl=answer["ttl"],
        skip_hours=tuple(answer["skip_hours"]),
        skip_days=tuple(answer["skip_days"]),
        malformed=answer["malformed"],
        entries=entries,
    )
