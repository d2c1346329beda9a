"""Asks Lidarr about many entries, a few at a time: one bad answer keeps nobody else from theirs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from tidegate import Fault
from tidegate.faults import Reach
from tidegate_apps.lidarr.client import BAD, fault_of

I = TypeVar("I")  # noqa: E741 - an item
A = TypeVar("A")
_MAX_CONCURRENT = 4  # questions
_MAX_CONSECUTIVE_FAILURES = 5  # of those below; so many are not about single entries
_MAY_BE_ONE = frozenset({"upstream_failure", "timeout"})


@dataclass(slots=True)
class Answers(Generic[I, A]):
    """What came of it. The rest was not asked for when *ended* says why."""

    good: list[A] = field(default_factory=list)
    bad: list[tuple[I, Fault]] = field(default_factory=list)  # without an answer, and that may be their own fault
    ended: Exception | None = None


async def ask_each(items: Sequence[I], ask: Callable[[I], Awaitable[A]]) -> Answers[I, A]:
    """The answers, in order. It ends early for what all of Lidarr suffers from."""
    found, in_a_row = Answers[I, A](), 0
    left, good = iter(enumerate(items)), dict[int, A]()

    async def run() -> None:
        nonlocal in_a_row
        for place, item in left:
            if found.ended is not None:
                return
            try:
                good[place] = await ask(item)
                in_a_row = 0
            except BAD as error:
                fault = fault_of(error)
                whole = fault.reach.rank > Reach.OPERATION.rank and not fault.unclassified
                in_a_row += whole
                if whole and (fault.code not in _MAY_BE_ONE or in_a_row >= _MAX_CONSECUTIVE_FAILURES):
                    found.ended = error
                if not whole or fault.code in _MAY_BE_ONE:
                    found.bad.append((item, fault))

    # Not a task for each: a page is long, and all of them would be there from the start.
    await asyncio.gather(*(run() for _ in range(_MAX_CONCURRENT)))
    found.good = [good[place] for place in sorted(good)]
    return found
