"""A database as one process reaches it: away, full, slow to hear and late to do; with statements that may be wrong."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar

from tidegate import Queue
from tidegate.errors import StoreBusy, StoreFull, TidegateError
from tidegate.guard import Tuning
from tidegate.store.base import Store, Tx
from tidegate.store.open import core_statements
from tidegate.store.sql import Dialect, Statement
from tidegate.store.sqlite import SqliteStore

T = TypeVar("T")
Change = Callable[[Statement], Statement]


class Killed(BaseException):
    """The process is gone: nothing of it may write any more, not even what cleans up."""


class Weather:
    """A store as one machine reaches it."""

    def __init__(self, store: Store, dice: random.Random, changed: Change) -> None:
        self._store, self._dice, self._changed = store, dice, changed
        self._loop = asyncio.get_running_loop()
        self.dead = self.away = self.full = False
        self.rebooted = False  # the host was: what was under way never arrives
        self.heard_late = False  # something arrived after the process was gone, so it seemed to live
        self.unheard = 0.0  # how many of its commits are done and not heard of
        self.delayed = 0.0  # how many of its writes arrive when nobody waits for them any more

    def read(self, work: Callable[[Tx], T]) -> T:
        self._reached()
        return self._store.read(work)

    def write(self, work: Callable[[Tx], T]) -> T:
        self._reached()
        if self.full:
            raise StoreFull("the disk is full")
        if self.delayed and self._dice.random() < self.delayed:
            self._loop.call_later(self._dice.uniform(1, 90), self._arrived, work)
            raise StoreBusy("no answer in time")
        result = self._store.write(work)
        if self.unheard and self._dice.random() < self.unheard:
            raise StoreBusy("the connection broke after the commit")
        return result

    def add(self, statements: Any) -> None:
        self._store.add([self._changed(each) for each in statements])

    def mend(self) -> None:
        self.away = self.full = False
        self.unheard = self.delayed = 0.0

    def _arrived(self, work: Callable[[Tx], Any]) -> None:
        if self.rebooted:
            return
        self.heard_late = self.heard_late or self.dead
        with contextlib.suppress(TidegateError):  # as it is refused, with nobody there to hear
            self._store.write(work)

    def _reached(self) -> None:
        if self.dead:
            raise Killed
        if self.away:
            raise StoreBusy("the database cannot be reached")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class OnWeather(Queue):
    """A queue whose database is reached through the weather, with statements that may have been tampered with."""

    def __init__(self, url: str, dice: random.Random, changed: Change, **more: Any) -> None:
        super().__init__(url, inline=True, tuning=Tuning(rng=dice.random), **more)
        self._weather_dice, self._changed = dice, changed

    def _database(self) -> Store:
        statements = [self._changed(each) for each in _ordered()]
        store = SqliteStore(self.url.removeprefix("sqlite:///"), statements, self.clock.now, durable=False)
        return Weather(store, self._weather_dice, self._changed)

    @property
    def weather(self) -> Weather:
        found = self.store
        assert isinstance(found, Weather)
        return found


@cache
def _ordered() -> tuple[Statement, ...]:
    return tuple(map(_in_order, core_statements(Dialect.SQLITE)))


def _in_order(statement: Statement) -> Statement:
    """The ids of workers are random, so what is ordered by them comes in another order each time."""
    # The plus is for SQLite, which would else read every job in the order of the ids.
    return replace(statement, sql=statement.sql.replace("order by lease_by", "order by +id"))
