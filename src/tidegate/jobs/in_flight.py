"""Attempts in flight of all workers of a process, and the rules for suspects.

A job whose worker crashed is a suspect. A crash ends all jobs of the process, so a suspect runs alone: its next crash
costs no other job an attempt, and proves the cause. ADR 0030 has the rules.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidegate.jobs.attempt import Attempt

PROVEN_AFTER = 10.0  # seconds after which an attempt is no longer expected to crash its process
_MAX_ALONE = 300.0  # seconds; a long job that lost several workers must not block its worker for longer
_JOINS_AFTER = 5.0  # seconds that a suspect waits until one more process runs suspects
_TURN_SECONDS = 30.0  # seconds after which the next process runs them

# The attempt whose handler runs in this context. A worker that the handler starts (`drain`) belongs to that attempt.
current_attempt: ContextVar[Attempt | None] = ContextVar("tidegate_attempt", default=None)


def seconds_alone(deaths: int) -> float:
    """Seconds that a suspect runs alone before it is cleared. It doubles with each further crash."""
    return min(PROVEN_AFTER * 2.0 ** min(max(deaths, 1) - 1, 16), _MAX_ALONE)


def runs_suspects(position: int, processes: int, waited: float, now: float) -> bool:
    """Whether the process at *position* stops other claims for a suspect that has *waited*, in seconds.

    One process does, and one more for every 5 s that the suspect waits, up to half of them. The others keep working.
    Processes rotate, because one whose slots are all taken by long jobs cannot run a suspect.
    """
    wanted = min(max(1, processes // 2), 1 + int(max(0.0, waited) // _JOINS_AFTER))
    return (position + int(now // _TURN_SECONDS)) % processes < wanted


class Holder:
    """The attempts of one worker, for the checks of the whole process."""

    def __init__(self) -> None:
        self.attempts: dict[tuple[int, int], Attempt] = {}
        self.outer = current_attempt.get()


class InFlightAttempts:
    """The attempts of all workers of a process, and the workers that wait to run a suspect alone."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._holders: set[Holder] = set()
        self._waiting: set[Holder] = set()

    @contextmanager
    def joined(self, holder: Holder) -> Iterator[None]:
        """Registers a worker while the block runs."""
        if self._process != os.getpid():  # forked: the parent's attempts are not in this process
            InFlightAttempts.__init__(self)
        with self._lock:
            self._holders.add(holder)
        try:
            yield
        finally:
            with self._lock:
                self._holders.discard(holder)
                self._waiting.discard(holder)

    def admits_suspect(self, holder: Holder, now: float) -> bool:
        """Whether a suspect would run alone: no other attempt in flight may still crash the process."""
        with self._lock:
            return not any(_may_crash(attempt, now) for attempt in self._others(holder))

    def admits_others(self, holder: Holder) -> bool:
        """Whether other jobs may be claimed: no suspect runs, and no other worker waits to start one."""
        with self._lock:
            return not (self._waiting - {holder}) and not any(attempt.suspect for attempt in self._others(holder))

    def wait_to_be_alone(self, holder: Holder, *, waits: bool) -> None:
        """Records whether a worker waits to run a suspect alone."""
        with self._lock:
            (self._waiting.add if waits else self._waiting.discard)(holder)

    def start(self, holder: Holder, attempt: Attempt, now: float) -> bool:
        """Adds a claimed job. Returns False when it must not run together with a job of another worker."""
        with self._lock:
            others = list(self._others(holder))
            holder.attempts[attempt.key] = attempt
            if attempt.suspect:
                return not any(_may_crash(other, now) for other in others)
            return not any(other.suspect for other in others)

    def _others(self, holder: Holder) -> Iterator[Attempt]:
        """Unfinished attempts, except those whose handlers started this worker."""
        enclosing = set()
        outer = holder.outer
        while outer is not None:
            enclosing.add(outer)
            outer = outer.outer
        for other in self._holders | {holder}:
            for attempt in list(other.attempts.values()):
                if not attempt.ended and attempt not in enclosing:
                    yield attempt


def _may_crash(attempt: Attempt, now: float) -> bool:
    return attempt.suspect or now < attempt.claimed + PROVEN_AFTER


THIS_PROCESS = InFlightAttempts()
