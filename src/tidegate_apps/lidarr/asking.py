"""Asks Lidarr about many entries, a few at a time: one bad answer keeps nobody else from theirs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import httpx2

from tidegate import Fault, Reach
from tidegate_apps.lidarr.client import AlreadyThere, LidarrError, fault_of

I = TypeVar("I")  # noqa: E741 - an item
A = TypeVar("A")
_AT_ONCE = 4  # questions
_IN_A_ROW = 5  # of those below; so many are not about single entries
_MAY_BE_ONE = frozenset({"upstream_failure", "timeout"})
_BAD = (httpx2.HTTPError, LidarrError, AlreadyThere, LookupError, ValueError, TypeError, AttributeError)


@dataclass(slots=True)
class Answers(Generic[I, A]):
    """What came of it. The rest was not asked for when *ended* says why."""

    good: list[A] = field(default_factory=list)
    bad: list[tuple[I, Fault]] = field(default_factory=list)  # without an answer, and that may be their own fault
    ended: Exception | None = None


async def ask_each(items: Sequence[I], ask: Callable[[I], Awaitable[A]]) -> Answers[I, A]:
    """The answers, in order. It ends early for what all of Lidarr suffers from."""
    room, found, in_a_row = asyncio.Semaphore(_AT_ONCE), Answers[I, A](), 0

    async def one(item: I) -> list[A]:
        nonlocal in_a_row
        async with room:
            if found.ended is not None:
                return []
            try:
                answer = await ask(item)
            except _BAD as error:
                fault = fault_of(error)
                whole = fault.reach.rank > Reach.OPERATION.rank and not fault.unclassified
                in_a_row += whole
                if whole and (fault.code not in _MAY_BE_ONE or in_a_row >= _IN_A_ROW):
                    found.ended = error
                if not whole or fault.code in _MAY_BE_ONE:
                    found.bad.append((item, fault))
                return []
            in_a_row = 0
            return [answer]

    for answers in await asyncio.gather(*(one(item) for item in items)):
        found.good += answers
    return found
