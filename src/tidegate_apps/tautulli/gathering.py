"""Pages are stored several at a time, and while the next ones are fetched: a long history takes as long as that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Self

from tidegate_apps.tautulli.answers import PlayHistory
from tidegate_apps.tautulli.lots import PlayBatch
from tidegate_apps.tautulli.storing import Stored

Write = Callable[[PlayBatch], Stored]

_MAX_BUFFER_SECONDS = 5.0  # seconds that plays wait for others, where Tautulli is slow


class PlayBuffer:
    """Hands the plays of pages to *write* in the order in which they come, *most* rows or more of them at a time.

    However its block is left, what came before is stored then. What *write* raises comes out of the next call.
    """

    def __init__(self, write: Write, limit: int, now: Callable[[], float]) -> None:
        self._write, self._limit, self._now = write, limit, now
        self._lot, self._held = PlayBatch(), 0  # and how many rows it has, or is to have
        self._since = now()
        self._ready: list[Future[None]] = []  # pages of the lot that are being made ready
        self._threads = ExitStack()
        self._readying: ThreadPoolExecutor | None = None  # a short sync needs no threads
        self._storing: ThreadPoolExecutor | None = None
        self._under_way: Future[Stored] | None = None
        self.stored = Stored()
        self.plays = 0  # that were on the pages

    def add(self, page: PlayHistory) -> None:
        """Takes a page. It waits while two lots are on their way: they are held in memory."""
        if not self._held:
            self._since = self._now()
        self._held += page.rows
        if self._readying is None:
            self._take(self._lot, page)
        else:
            self._ready.append(self._readying.submit(self._take, self._lot, page))
        if self._held >= self._limit or (self._held and self._now() - self._since >= _MAX_BUFFER_SECONDS):
            self._settle()
            if self._storing is None:
                self._readying = self._threads.enter_context(ThreadPoolExecutor(1, "tautulli-ready"))
                self._storing = self._threads.enter_context(ThreadPoolExecutor(1, "tautulli-store"))
            self._under_way = self._storing.submit(self._written, *self._taken())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._threads:
            self._settle()
            if self._held:
                self._count(self._written(*self._taken()))

    def _take(self, batch: PlayBatch, page: PlayHistory) -> None:
        self.plays += len(page.plays)
        batch.take(page.plays)

    def _settle(self) -> None:
        """Waits for the lot that is under way. After one that failed nothing is stored: no row may be left out."""
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            try:
                self._count(under_way.result())
            except BaseException:
                self._taken()
                raise

    def _taken(self) -> tuple[PlayBatch, list[Future[None]]]:
        taken = self._lot, self._ready
        self._lot, self._held, self._ready = PlayBatch(), 0, []
        return taken

    def _written(self, batch: PlayBatch, ready: Sequence[Future[None]]) -> Stored:
        for page in ready:
            page.result()
        return self._write(batch)

    def _count(self, found: Stored) -> None:
        self.stored = Stored(self.stored.new + found.new, self.stored.changed + found.changed)
