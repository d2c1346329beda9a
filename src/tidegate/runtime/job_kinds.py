"""A kind of job: its handler, and everything that was said about it when it was declared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tidegate.core.arguments import Hook, Parameters
from tidegate.core.job import DEFAULT_CRASHES
from tidegate.machine.lifecycle import WORKER_LOST, KindPolicy
from tidegate.runtime.children import DEFAULT, Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class JobKind:
    """One declared kind."""

    name: str
    queue: str
    handler: Callable[..., Any]
    parameters: Parameters
    encode_result: Callable[[Any], str | None]
    colour: str  # "async", "thread" or "process"
    policy: KindPolicy = field(default_factory=KindPolicy)
    target: str = ""
    verify: Hook | None = None
    verify_is_async: bool = False
    cancellable: bool = True
    place: str = ""  # where a child process finds the handler
    limits: Limits = DEFAULT  # of a child process
    fail_fast_code: str = "overloaded"  # of a job that is not tried, because its target is shut
    lost_code: str = WORKER_LOST  # of a job whose work was cut short too often
    max_crashes: int = DEFAULT_CRASHES  # deaths of workers while it ran alone that fail it
