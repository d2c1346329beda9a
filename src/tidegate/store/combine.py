"""Group commit without a thread of its own: whoever finds the writer free commits for everybody who is waiting.

One caller alone pays no hop between threads; many share one fsync. Each piece of work has a savepoint, so the failure
of one does not touch the others.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_MOST = 256  # pieces of work in one commit: bounds how long the first of them waits


class _Piece(Generic[T]):
    __slots__ = ("done", "error", "gate", "result", "work")

    def __init__(self, work: Callable[[], T]) -> None:
        self.work = work
        self.gate = threading.Lock()
        self.gate.acquire()
        self.done = False
        self.result: T | None = None
        self.error: BaseException | None = None

    def answer(self) -> T:
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        return self.result  # type: ignore[return-value]


class Combiner:
    """Runs pieces of work in as few transactions as it can; *execute* runs begin, commit, savepoint and the like."""

    def __init__(self, execute: Callable[[str], object]) -> None:
        self._execute = execute
        self._mutex = threading.Lock()
        self._waiting: deque[_Piece[Any]] = deque()
        self._led = False  # somebody is committing, or has been asked to

    def run(self, work: Callable[[], T]) -> T:
        """Returns what *work* returned, once it is committed; raises what it raised, with nothing of it left."""
        piece = _Piece(work)
        with self._mutex:
            self._waiting.append(piece)
            lead = not self._led
            self._led = True
        if not lead:
            self._wait(piece)
        if not piece.done:
            self._lead()
        return piece.answer()

    def _wait(self, piece: _Piece[Any]) -> None:
        """Until somebody has done it, or asks us to lead."""
        try:
            piece.gate.acquire()
        except BaseException:  # interrupted: leave the queue, and pass on the lead if it was just given to us
            with self._mutex:
                queued = piece in self._waiting
                if queued:
                    self._waiting.remove(piece)
            if queued and piece.gate.acquire(blocking=False):
                self._pass_on()
            raise

    def _lead(self) -> None:
        with self._mutex:
            batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), _MOST))]
        try:
            self._commit(batch)
        finally:
            self._pass_on()
            for piece in batch:
                piece.done = True
                piece.gate.release()

    def _pass_on(self) -> None:
        with self._mutex:
            heir = self._waiting[0] if self._waiting else None
            if heir is None:
                self._led = False
        if heir is not None:
            heir.gate.release()

    def _commit(self, batch: list[_Piece[Any]]) -> None:
        try:
            self._execute("begin immediate")
            try:
                for piece in batch:
                    self._one(piece, alone=len(batch) == 1)
                self._execute("commit")
            except BaseException:
                self._execute("rollback")
                raise
        except BaseException as error:
            for piece in batch:
                piece.error = piece.error or error
            if not isinstance(error, Exception):
                raise

    def _one(self, piece: _Piece[Any], *, alone: bool) -> None:
        if alone:
            piece.result = piece.work()
            return
        self._execute("savepoint piece")
        try:
            piece.result = piece.work()
        except Exception as error:
            piece.error = error
            self._execute("rollback to piece")
        self._execute("release piece")
