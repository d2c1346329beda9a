"""Jobs that several threads put in one by one go to the database in one statement."""

from __future__ import annotations

from typing import Any

from tidegate.core.job import NewJob
from tidegate.errors import StoreBusy
from tidegate.store import intake
from tidegate.store.intake import InsertResult
from tidegate.store.leading import BatchItem, BatchLeader, fail
from tidegate.store.tx import Store


class InsertBatcher(BatchLeader[NewJob]):
    """For a database where every statement is a journey. What one of them does wrong does not touch the others.

    Only for jobs that stand alone: one with a unique key waits for the transaction that has put its twin in, and
    all the others would wait with it.
    """

    def __init__(self, store: Store) -> None:
        super().__init__()
        self._store = store

    def put(self, job: NewJob) -> InsertResult:
        """When this returns, the job is on disk."""
        piece: BatchItem[NewJob, InsertResult] = BatchItem(job)
        return self._led(piece)

    def _perform(self, batch: list[BatchItem[NewJob, Any]]) -> None:
        jobs = [piece.work for piece in batch]
        try:
            taken = self._store.write(lambda tx: intake.enqueue(tx, jobs))
        except Exception as error:
            # What may have been committed after all must not be put in again.
            if len(batch) == 1 or isinstance(error, StoreBusy):
                fail(batch, error)
                return
            for piece in batch:
                self._perform([piece])
        else:
            for piece, each in zip(batch, taken, strict=True):
                piece.result = each

    def _taken_back(self, others: list[BatchItem[NewJob, Any]]) -> list[BatchItem[NewJob, Any]]:
        for each in (each for each in others if each.result is None and each.error is None):
            each.error = StoreBusy("the thread that put the job in was interrupted; it may be there")
        return []
