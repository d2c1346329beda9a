"""Queues and jobs: what a worker runs, and what a caller can ask about it.

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
    from tidegate.core.job import Job, JobEvent, JobState
    from tidegate.errors import JobCancelled, JobFailed, JobForgotten
    from tidegate.face.enqueued import Enqueued
    from tidegate.face.job_function import ConfiguredJob, JobFunction
    from tidegate.face.queue import Queue
    from tidegate.face.working import Drained
    from tidegate.machine.lifecycle import Again, Done, Fail
    from tidegate.runtime.context import Context
    from tidegate.store.tx import BoundStatement
else:
    # The same for the running program. Type checkers do not read it, so they still report an unknown name.
    from tidegate._lazy import lazy_names

    __getattr__, __dir__ = lazy_names(
        globals(),
        {
            "tidegate.core.job": ("Job", "JobEvent", "JobState"),
            "tidegate.errors": ("JobCancelled", "JobFailed", "JobForgotten"),
            "tidegate.face.enqueued": ("Enqueued",),
            "tidegate.face.job_function": ("ConfiguredJob", "JobFunction"),
            "tidegate.face.queue": ("Queue",),
            "tidegate.face.working": ("Drained",),
            "tidegate.machine.lifecycle": ("Again", "Done", "Fail"),
            "tidegate.runtime.context": ("Context",),
            "tidegate.store.tx": ("BoundStatement",),
        },
    )
