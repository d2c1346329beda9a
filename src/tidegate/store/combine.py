"""Group commit: what several threads write at a time shares one fsync.

Each piece of work has a savepoint, so the failure of one does not touch the others.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from tidegate.errors import StoreBusy, StoreError
from tidegate.store.leading import Leading, Piece, fail

T = TypeVar("T")

Work = Callable[[], Any]


class Connection(Protocol):
    """What is needed of a connection to the database."""

    @property
    def in_transaction(self) -> bool: ...
    def execute(self, sql: str) -> object: ...


class Combiner(Leading[Work]):
    """Runs pieces of work in as few transactions as it can."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self._connection = connection
        self._thread = 0  # the one that is inside a transaction
        self._closed = False

    def run(self, work: Callable[[], T]) -> T:
        """Returns what *work* returned, once it is committed; raises what it raised, with nothing of it left."""
        if self._thread == threading.get_ident():
            raise RuntimeError("a write inside a write would wait for itself; use the transaction that is open")
        piece: Piece[Work, T] = Piece(work)
        return self._led(piece)

    def close(self) -> None:
        """Waits for the commit that is under way; whoever comes later gets an error."""

        def last() -> None:
            self._closed = True

        if not self._closed:
            self.run(last)

    def _taken_back(self, others: list[Piece[Work, Any]]) -> bool:
        return self._undone()

    def _perform(self, batch: list[Piece[Work, Any]]) -> None:
        if self._closed:
            fail(batch, StoreError("the store is closed"))
            return
        begun = False
        self._thread = threading.get_ident()
        try:
            self._connection.execute("begin immediate")
            begun = True
            if len(batch) == 1:
                batch[0].result = batch[0].work()
            else:
                for piece in batch:
                    self._one(piece)
            self._connection.execute("commit")
        except Exception as error:
            self._undone()
            if begun and len(batch) > 1 and not isinstance(error, StoreBusy):
                # There was no room for all of them; perhaps there is for some.
                for piece in batch:
                    piece.error = None
                    self._perform([piece])
            else:
                fail(batch, error)
        finally:
            self._thread = 0

    def _one(self, piece: Piece[Work, Any]) -> None:
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
