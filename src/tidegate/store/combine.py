"""Group commit: what several threads write at a time shares one fsync.

Each piece of work has a savepoint, so the failure of one does not touch the others.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from tidegate.errors import StoreBusy, StoreError
from tidegate.store.leading import BatchItem, BatchLeader, fail

T = TypeVar("T")

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
