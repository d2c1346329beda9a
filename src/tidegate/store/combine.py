"""Group commit without a thread of its own: whoever finds the writer free commits for everybody who is waiting.

One caller alone pays no hop between threads; many share one fsync. Each piece of work has a savepoint, so the failure
of one does not touch the others.
"""

from __future__ import annotations

import copy
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from tidegate.errors import StoreBusy, StoreError

T = TypeVar("T")

_MOST = 256  # pieces of work in one commit: bounds how long the first of them waits


class Connection(Protocol):
    """What is needed of a connection to the database."""

    @property
    def in_transaction(self) -> bool: ...
    def execute(self, sql: str) -> object: ...


class _Piece(Generic[T]):
    __slots__ = ("batch", "done", "error", "gate", "result", "work")

    def __init__(self, work: Callable[[], T]) -> None:
        self.work = work
        self.gate = threading.Lock()
        self.gate.acquire()
        self.batch: list[_Piece[Any]] | None = None  # those that it commits for, itself among them
        self.done = False
        self.result: T | None = None
        self.error: BaseException | None = None

    def answer(self) -> T:
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        return self.result  # type: ignore[return-value]


class Combiner:
    """Runs pieces of work in as few transactions as it can."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._mutex = threading.Lock()
        self._waiting: deque[_Piece[Any]] = deque()
        self._leader: _Piece[Any] | None = None  # who is committing, or has been asked to
        self._thread = 0  # the one that is inside a transaction
        self._closed = False

    def run(self, work: Callable[[], T]) -> T:
        """Returns what *work* returned, once it is committed; raises what it raised, with nothing of it left."""
        if self._thread == threading.get_ident():
            raise RuntimeError("a write inside a write would wait for itself; use the transaction that is open")
        piece = _Piece(work)
        try:
            with self._mutex:
                self._waiting.append(piece)
                leads = self._leader is None
                if leads:
                    self._leader = piece
            if not leads:
                piece.gate.acquire()  # until somebody has done it, or asks us to lead
            if not piece.done:
                self._lead(piece)
        except BaseException:
            self._leave(piece)
            raise
        return piece.answer()

    @property
    def waiting(self) -> int:
        """How many stand behind the commit that is under way."""
        return len(self._waiting)

    def close(self) -> None:
        """Waits for the commit that is under way; whoever comes later gets an error."""

        def last() -> None:
            self._closed = True

        if not self._closed:
            self.run(last)

    def _lead(self, piece: _Piece[Any]) -> None:
        with self._mutex:
            piece.batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), _MOST))]
        self._thread = threading.get_ident()
        try:
            self._commit(piece.batch)
        except BaseException:
            self._once_more(piece)
            raise
        finally:
            self._thread = 0
        self._leave(piece)

    def _leave(self, piece: _Piece[Any]) -> None:
        """Hands the lead on and answers those that were committed for; also when this thread was interrupted anywhere.

        Heirs are woken under the mutex: one that is interrupted at that very moment then knows that it has the lead.
        """
        with self._mutex:
            if piece.batch is None and piece in self._waiting:
                self._waiting.remove(piece)
            if self._leader is piece:
                self._leader = self._waiting[0] if self._waiting else None
                if self._leader is not None:
                    self._leader.gate.release()
            answered, piece.batch = piece.batch or [], []
        for each in answered:
            each.done = True
            each.gate.release()

    def _once_more(self, piece: _Piece[Any]) -> None:
        """The leader was interrupted: what it had not committed goes back, for the next one."""
        others = [each for each in piece.batch or () if each is not piece and not each.done]
        if self._undone():
            with self._mutex:
                piece.batch = [piece]
                for each in reversed(others):
                    each.result = each.error = None
                    self._waiting.appendleft(each)

    def _commit(self, batch: list[_Piece[Any]]) -> None:
        if self._closed:
            _fail(batch, StoreError("the store is closed"))
            return
        begun = False
        try:
            self._connection.execute("begin immediate")
            begun = True
            for piece in batch:
                self._one(piece, alone=len(batch) == 1)
            self._connection.execute("commit")
        except Exception as error:
            self._undone()
            if begun and len(batch) > 1 and not isinstance(error, StoreBusy):
                # There was no room for all of them; perhaps there is for some.
                for piece in batch:
                    piece.error = None
                    self._commit([piece])
            else:
                _fail(batch, error)

    def _one(self, piece: _Piece[Any], *, alone: bool) -> None:
        if alone:
            piece.result = piece.work()
            return
        self._connection.execute("savepoint piece")
        try:
            piece.result = piece.work()
        except Exception as error:
            if not self._connection.in_transaction:
                raise  # the database has taken back all of it: the disk is full, or worse
            piece.error = error
            self._connection.execute("rollback to piece")
        self._connection.execute("release piece")

    def _undone(self) -> bool:
        """Takes the open transaction back; False when there was none, so that it had been committed."""
        if not self._connection.in_transaction:
            return False
        self._connection.execute("rollback")
        return True


def _fail(batch: list[_Piece[Any]], error: Exception) -> None:
    batch[0].error = error
    for piece in batch[1:]:  # one exception raised in many threads would mix their tracebacks
        piece.error = copy.copy(error)
        piece.error.__cause__ = error
