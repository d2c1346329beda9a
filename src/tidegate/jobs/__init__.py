"""Durable jobs: queues, job functions, handles and outcomes.

from tidegate.jobs import Enqueued, JobState, Queue
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = [
    "Again",
    "BoundStatement",
    "ConfiguredJob",
    "Context",
    "Done",
    "Drained",
    "Enqueued",
    "Fail",
    "Job",
    "JobCancelled",
    "JobEvent",
    "JobFailed",
    "JobForgotten",
    "JobFunction",
    "JobState",
    "Queue",
]

if TYPE_CHECKING:
    from tidegate.errors import JobCancelled, JobFailed, JobForgotten
    from tidegate.jobs.context import Context
    from tidegate.jobs.function import ConfiguredJob, Enqueued, JobFunction
    from tidegate.jobs.job import Job, JobEvent, JobState
    from tidegate.jobs.outcome import Again, Done, Fail
    from tidegate.jobs.queue import Queue
    from tidegate.jobs.worker_runner import Drained
    from tidegate.store.base import BoundStatement
else:
    # Imports each name on first use. Type checkers skip this branch, so they still report an unknown name.
    from tidegate._lazy import lazy_names

    __getattr__, __dir__ = lazy_names(
        globals(),
        {
            "tidegate.errors": ("JobCancelled", "JobFailed", "JobForgotten"),
            "tidegate.jobs.context": ("Context",),
            "tidegate.jobs.function": ("ConfiguredJob", "Enqueued", "JobFunction"),
            "tidegate.jobs.job": ("Job", "JobEvent", "JobState"),
            "tidegate.jobs.outcome": ("Again", "Done", "Fail"),
            "tidegate.jobs.queue": ("Queue",),
            "tidegate.jobs.worker_runner": ("Drained",),
            "tidegate.store.base": ("BoundStatement",),
        },
    )
