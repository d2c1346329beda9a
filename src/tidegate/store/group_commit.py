"""Group commit: threads that write at the same time share one fsync."""

from __future__ import annotations

import copy
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from tidegate.errors import StoreBusy, StoreError

# Many threads with one thing to do: whoever finds nobody at it does it for everybody who is waiting.
#
# There is no thread of its own: one caller alone pays no hop between threads.

W = TypeVar("W")
T = TypeVar("T")

_MAX_BATCH = 256  # pieces of work at once: bounds how long the first of them waits


class BatchItem(Generic[W, T]):
    """What one thread wants done, and what became of it."""

    __slots__ = ("batch", "done", "error", "gate", "result", "work")

    def __init__(self, work: W) -> None:
        self.work = work
        self.gate: threading.Lock | None = None  # where its thread waits, if it does
        self.batch: list[BatchItem[W, Any]] | None = None  # those that it leads, itself among them
        self.done = False  # whatever becomes of the others of its batch
        self.result: T | None = None
        self.error: BaseException | None = None


class BatchLeader(ABC, Generic[W]):
    """Chooses who does it. `_perform` gives every piece of a batch its result or its error."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._waiting: deque[BatchItem[W, Any]] = deque()
        self._leader: BatchItem[W, Any] | None = None  # who is at it, or has been asked to

    @property
    def waiting(self) -> int:
        """How many stand behind the batch that is under way."""
        return len(self._waiting)

    @abstractmethod
    def _perform(self, batch: list[BatchItem[W, Any]]) -> None: ...

    @abstractmethod
    def _taken_back(self, others: list[BatchItem[W, Any]]) -> list[BatchItem[W, Any]]:
        """The leader was interrupted: those of the *others* for which nothing was done, so that the next one may."""

    def _led(self, piece: BatchItem[W, T]) -> T:
        """Returns when *piece* has been done, by this thread or by another."""
        try:
            with self._mutex:
                if self._leader is None:  # so nobody is waiting
                    self._leader, piece.batch = piece, [piece]
                else:
                    piece.gate = threading.Lock()
                    piece.gate.acquire()
                    self._waiting.append(piece)
            if piece.gate is not None:
                piece.gate.acquire()  # until somebody has done it, or asks us to lead
            if not piece.done:
                if piece.batch is None:
                    with self._mutex:
                        piece.batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), _MAX_BATCH))]
                try:
                    self._perform(piece.batch)
                except BaseException:
                    self._once_more(piece)
                    raise
                self._leave(piece)
        except BaseException:
            self._leave(piece)
            raise
        if piece.error is not None:
            error, piece.error = piece.error, None
            raise error
        return piece.result  # type: ignore[return-value]

    def _leave(self, piece: BatchItem[W, Any]) -> None:
        """Hands the lead on and answers those that it was done for; also when this thread was interrupted anywhere.

        Heirs are woken under the mutex: one that is interrupted at that very moment then knows that it has the lead.
        """
        with self._mutex:
            if piece.batch is None and piece in self._waiting:
                self._waiting.remove(piece)
            if self._leader is piece:
                self._leader = self._waiting[0] if self._waiting else None
                if self._leader is not None and self._leader.gate is not None:
                    self._leader.gate.release()
            answered, piece.batch = piece.batch or [], []
        for each in answered:
            each.done = True
            if each.gate is not None:
                each.gate.release()

    def _once_more(self, piece: BatchItem[W, Any]) -> None:
        """What an interrupted leader has not done goes back, for the next one."""
        others = [each for each in piece.batch or () if each is not piece and not each.done]
        undone = self._taken_back(others)
        with self._mutex:
            piece.batch = [each for each in piece.batch or () if each not in undone]
            for each in reversed(undone):
                each.result = each.error = None
                self._waiting.appendleft(each)


def fail(batch: list[BatchItem[W, Any]], error: Exception) -> None:
    """Gives each its own copy: one exception raised in many threads would mix their tracebacks."""
    for piece in batch[:1]:
        piece.error = error
    for piece in batch[1:]:
        piece.error = copy.copy(error)
        piece.error.__cause__ = error


# Group commit: what several threads write at a time shares one fsync.
#
# Each piece of work has a savepoint, so the failure of one does not touch the others.

Work = Callable[[], Any]


class BatchConnection(Protocol):
    """What is needed of a connection to the database."""

    @property
    def in_transaction(self) -> bool: ...
    def execute(self, sql: str) -> object: ...


class GroupCommit(BatchLeader[Work]):
    """Runs pieces of work in as few transactions as it can."""

    def __init__(self, connection: BatchConnection, verify: Callable[[], object] = lambda: None) -> None:
        """*verify* raises a StoreError when a commit that succeeded cannot be trusted: it is not acknowledged."""
        super().__init__()
        self._connection, self._verify = connection, verify
        self._thread = 0  # the one that is inside a transaction
        self._in_progress: list[BatchItem[Work, Any]] = []  # whose work that transaction is
        self._committing = False  # so, if it is over, it was committed
        self._closed = False

    def run(self, work: Callable[[], T]) -> T:
        """Returns what *work* returned, once it is committed; raises what it raised, with nothing of it left."""
        if self._thread == threading.get_ident():
            raise RuntimeError("a write inside a write would wait for itself; use the transaction that is open")
        piece: BatchItem[Work, T] = BatchItem(work)
        return self._led(piece)

    def close(self) -> None:
        """Waits for the commit that is under way; whoever comes later gets an error."""

        def last() -> None:
            self._closed = True

        if not self._closed:
            self.run(last)

    def _taken_back(self, others: list[BatchItem[Work, Any]]) -> list[BatchItem[Work, Any]]:
        here = [each for each in others if each in self._in_progress]
        try:
            if self._connection.in_transaction or not self._committing:
                self._undo()
                return others
        except Exception as error:  # nobody knows what becomes of it
            fail(here, error)
        return [each for each in others if each not in here]

    def _perform(self, batch: list[BatchItem[Work, Any]]) -> None:
        if self._closed:
            fail(batch, StoreError("the store is closed"))
            return
        begun = self._committing = False
        self._in_progress = batch
        self._thread = threading.get_ident()
        try:
            self._undo()  # what an earlier one could not take back
            self._connection.execute("begin immediate")
            begun = True
            if len(batch) == 1:
                batch[0].result = batch[0].work()
            else:
                for piece in batch:
                    self._one(piece)
            self._committing = True
            self._connection.execute("commit")
        except Exception as error:
            self._committing = False
            self._failed(batch, error, begun=begun)
        else:
            self._confirm(batch)
        finally:
            self._thread = 0

    def _confirm(self, batch: list[BatchItem[Work, Any]]) -> None:
        try:
            self._verify()
        except StoreError as error:
            fail(batch, error)

    def _failed(self, batch: list[BatchItem[Work, Any]], error: Exception, *, begun: bool) -> None:
        try:
            self._undo()
        except Exception as worse:
            fail(batch, worse)
            return
        if not begun or len(batch) == 1 or isinstance(error, StoreBusy):
            fail(batch, error)
            return
        # There was no room for all of them; perhaps there is for some.
        for piece in batch:
            piece.error = None
            self._perform([piece])
            piece.done = True

    def _one(self, piece: BatchItem[Work, Any]) -> None:
        self._connection.execute("savepoint piece")
        try:
            piece.result = piece.work()
        except Exception as error:
            if not self._connection.in_transaction:
                raise  # the database has taken back all of it: the disk is full, or worse
            piece.error = error
            self._connection.execute("rollback to piece")
        self._connection.execute("release piece")

    def _undo(self) -> None:
        """Takes the open transaction back, if there is one."""
        if self._connection.in_transaction:
            self._connection.execute("rollback")
