"""Group commit: threads that write at the same time share one fsync."""

from __future__ import annotations

import copy
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from tidegate.errors import StoreBusy, StoreError

# -- batch leader ------------------------------------------------------------------------------------------------------
# The first thread that finds no leader performs the work of all waiting threads. There is no background thread, so a
# single caller pays no thread switch.

W = TypeVar("W")
T = TypeVar("T")

_MAX_BATCH = 256  # work items per batch: bounds how long the first one waits


class BatchItem(Generic[W]):
    """The work of one thread, and its result or error."""

    __slots__ = ("batch", "done", "error", "gate", "result", "work")

    def __init__(self, work: W) -> None:
        self.work = work
        self.gate: threading.Lock | None = None  # its thread waits here, if it waits
        self.batch: list[BatchItem[W]] | None = None  # the items that it leads, including itself
        self.done = False  # independent of the rest of its batch
        self.result: Any = None
        self.error: BaseException | None = None


class BatchLeader(ABC, Generic[W]):
    """Elects the thread that performs a batch. `_perform` gives each item its result or its error."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._waiting: deque[BatchItem[W]] = deque()
        self._leader: BatchItem[W] | None = None  # performs a batch, or was chosen to

    @property
    def waiting(self) -> int:
        """Returns the number of items that wait for the current batch to end."""
        return len(self._waiting)

    @abstractmethod
    def _perform(self, batch: list[BatchItem[W]]) -> None: ...

    @abstractmethod
    def _taken_back(self, others: list[BatchItem[W]]) -> list[BatchItem[W]]:
        """Returns those of the *others* that an interrupted leader did not perform, for the next leader."""

    def _led(self, piece: BatchItem[W]) -> Any:
        """Returns once this thread or another one has performed *piece*."""
        try:
            with self._mutex:
                if self._leader is None:  # so no item is waiting
                    self._leader, piece.batch = piece, [piece]
                else:
                    piece.gate = threading.Lock()
                    piece.gate.acquire()
                    self._waiting.append(piece)
            if piece.gate is not None:
                piece.gate.acquire()  # until a leader has performed it, or makes this thread the leader
            if not piece.done:
                if piece.batch is None:
                    with self._mutex:
                        piece.batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), _MAX_BATCH))]
                try:
                    self._perform(piece.batch)
                except BaseException:
                    self._once_more(piece)
                    raise
                self._hand_over(piece)
        except BaseException:
            self._hand_over(piece)
            raise
        if piece.error is not None:
            error, piece.error = piece.error, None
            raise error
        return piece.result

    def _hand_over(self, piece: BatchItem[W]) -> None:
        """Passes the lead on and wakes the threads of performed items, even if this thread was interrupted.

        The next leader is woken under the mutex. If it is interrupted at that moment, it knows that it has the lead.
        """
        with self._mutex:
            if piece.batch is None and piece in self._waiting:
                self._waiting.remove(piece)
            if self._leader is piece:
                self._leader = self._waiting[0] if self._waiting else None
                if self._leader is not None and self._leader.gate is not None:
                    self._leader.gate.release()
            finished, piece.batch = piece.batch or [], []
        for item in finished:
            item.done = True
            if item.gate is not None:
                item.gate.release()

    def _once_more(self, piece: BatchItem[W]) -> None:
        """Returns the items that an interrupted leader did not perform to the queue."""
        others = [item for item in piece.batch or () if item is not piece and not item.done]
        undone = self._taken_back(others)
        with self._mutex:
            piece.batch = [item for item in piece.batch or () if item not in undone]
            for item in reversed(undone):
                item.result = item.error = None
                self._waiting.appendleft(item)


def fail(batch: list[BatchItem[W]], error: Exception) -> None:
    """Sets the error of each item to its own copy: one exception in many threads would mix their tracebacks."""
    for piece in batch[:1]:
        piece.error = error
    for piece in batch[1:]:
        piece.error = copy.copy(error)
        piece.error.__cause__ = error


# -- group commit ------------------------------------------------------------------------------------------------------
# Each work item has a savepoint, so a failure does not affect the others.

Work = Callable[[], object]


class BatchConnection(Protocol):
    """The part of a connection that group commit needs."""

    @property
    def in_transaction(self) -> bool: ...
    def execute(self, sql: str) -> object: ...


class GroupCommit(BatchLeader[Work]):
    """Runs work items in as few transactions as possible."""

    def __init__(self, connection: BatchConnection, verify: Callable[[], object] = lambda: None) -> None:
        """*verify* raises a StoreError if a successful commit cannot be trusted. It is then not acknowledged."""
        super().__init__()
        self._connection, self._verify = connection, verify
        self._thread = 0  # the id of the thread inside a transaction
        self._in_progress: list[BatchItem[Work]] = []  # the items of that transaction
        self._committing = False  # if the transaction has ended, it was committed
        self._closed = False

    def run(self, work: Callable[[], T]) -> T:
        """Runs *work* and returns its result once it is committed. If it raises, its changes are undone."""
        if self._thread == threading.get_ident():
            raise RuntimeError("a write inside a write would wait for itself; use the transaction that is open")
        result: T = self._led(BatchItem(work))
        return result

    def close(self) -> None:
        """Waits for the current commit. Later calls of `run` raise."""

        def last() -> None:
            self._closed = True

        if not self._closed:
            self.run(last)

    def _taken_back(self, others: list[BatchItem[Work]]) -> list[BatchItem[Work]]:
        current = [item for item in others if item in self._in_progress]
        try:
            if self._connection.in_transaction or not self._committing:
                self._undo()
                return others
        except Exception as error:  # the outcome is unknown
            fail(current, error)
        return [item for item in others if item not in current]

    def _perform(self, batch: list[BatchItem[Work]]) -> None:
        if self._closed:
            fail(batch, StoreError("the store is closed"))
            return
        begun = self._committing = False
        self._in_progress = batch
        self._thread = threading.get_ident()
        try:
            self._undo()  # a transaction that an earlier leader could not roll back
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

    def _confirm(self, batch: list[BatchItem[Work]]) -> None:
        try:
            self._verify()
        except StoreError as error:
            fail(batch, error)

    def _failed(self, batch: list[BatchItem[Work]], error: Exception, *, begun: bool) -> None:
        try:
            self._undo()
        except Exception as worse:
            fail(batch, worse)
            return
        if not begun or len(batch) == 1 or isinstance(error, StoreBusy):
            fail(batch, error)
            return
        # The disk had no room for the whole batch. Some items may fit alone.
        for piece in batch:
            piece.error = None
            self._perform([piece])
            piece.done = True

    def _one(self, piece: BatchItem[Work]) -> None:
        self._connection.execute("savepoint piece")
        try:
            piece.result = piece.work()
        except Exception as error:
            if not self._connection.in_transaction:
                raise  # the database rolled back the whole transaction, as on a full disk
            piece.error = error
            self._connection.execute("rollback to piece")
        self._connection.execute("release piece")

    def _undo(self) -> None:
        """Rolls back the open transaction, if there is one."""
        if self._connection.in_transaction:
            self._connection.execute("rollback")
