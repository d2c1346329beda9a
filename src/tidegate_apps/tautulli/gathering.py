"""Pages are stored several at a time, and while the next ones are read: a long history takes as long as reading it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Self

from tidegate_apps.tautulli.answers import Play
from tidegate_apps.tautulli.storing import Stored

Write = Callable[[Sequence[Play]], Stored]

_LONGEST = 5.0  # seconds that plays wait for others, where Tautulli is slow


class Gathering:
    """Hands plays to *write* in the order in which they come, *most* or more of them at a time.

    However its block is left, what came before is stored then. What *write* raises comes out of the next call.
    """

    def __init__(self, write: Write, most: int, now: Callable[[], float]) -> None:
        self._write, self._most, self._now = write, most, now
        self._waiting: list[Play] = []
        self._since = now()
        self._pool: ThreadPoolExecutor | None = None  # a short sync needs none
        self._under_way: Future[Stored] | None = None
        self.stored = Stored()

    def add(self, plays: Sequence[Play]) -> None:
        """Takes a page. It waits while two lots are on their way: they are held in memory."""
        if not self._waiting:
            self._since = self._now()
        self._waiting += plays
        if len(self._waiting) >= self._most or self._now() - self._since >= _LONGEST:
            self._settle()
            self._pool = self._pool or ThreadPoolExecutor(1, "tautulli-store")
            self._under_way = self._pool.submit(self._write, self._taken())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._settle()
            if self._waiting:
                self._count(self._write(self._taken()))
        finally:
            if self._pool is not None:
                self._pool.shutdown()

    def _settle(self) -> None:
        """Waits for the lot that is under way. After one that failed nothing is stored: no row may be left out."""
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            try:
                self._count(under_way.result())
            except BaseException:
                self._waiting.clear()
                raise

    def _taken(self) -> list[Play]:
        taken, self._waiting = self._waiting, []
        return taken

    def _count(self, found: Stored) -> None:
        self.stored = Stored(self.stored.new + found.new, self.stored.changed + found.changed)
