"""What one process has in flight, over all its workers: a job that crashes the process takes all of it along.

A job whose worker died is a suspect. It runs alone, so that its next crash costs nobody else an attempt and says whose
fault it was. The rules are in ADR 0030.
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

PROVEN_AFTER = 10.0  # seconds that an attempt runs before it is no longer expected to crash its process
_MAX_ALONE = 300.0  # a long job that was often unlucky must not keep its worker from all others
_JOINS_AFTER = 5.0  # seconds that a suspect waits until one more process runs suspects
_TURN_SECONDS = 30.0  # seconds after which another process runs them

# The attempt whose handler runs in this context. A worker that is started inside of it (`drain`) is a part of it.
current_attempt: ContextVar[Attempt | None] = ContextVar("tidegate_attempt", default=None)


def seconds_alone(deaths: int) -> float:
    """How long a suspect runs alone before it is cleared: twice as long after each further death."""
    return min(PROVEN_AFTER * 2.0 ** min(max(deaths, 1) - 1, 16), _MAX_ALONE)


def runs_suspects(position: int, processes: int, waited: float, now: float) -> bool:
    """Whether the process at *position* makes way for a suspect that has *waited* so many seconds.

    One process does, and one more for every 5 s that the suspect waits, up to half of them. The others go on with their
    work. Processes take turns, since one whose slots are all taken by long jobs cannot make way.
    """
    wanted = min(max(1, processes // 2), 1 + int(max(0.0, waited) // _JOINS_AFTER))
    return (position + int(now // _TURN_SECONDS)) % processes < wanted


class Holder:
    """The attempts of one worker, as the whole process sees them."""

    def __init__(self) -> None:
        self.attempts: dict[tuple[int, int], Attempt] = {}
        self.outer = current_attempt.get()


class InFlightAttempts:
    """The attempts of all workers of a process, and which workers wait until a suspect can run alone."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._holders: set[Holder] = set()
        self._waiting: set[Holder] = set()

    @contextmanager
    def joined(self, holder: Holder) -> Iterator[None]:
        """For as long as a worker runs."""
        if self._process != os.getpid():  # forked: what the parent has in flight is not here
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
        """Whether a suspect would run alone: nothing else is in flight that may still crash the process."""
        with self._lock:
            return not any(_may_crash(attempt, now) for attempt in self._others(holder))

    def admits_others(self, holder: Holder) -> bool:
        """Whether jobs may be claimed that are not suspects: none runs, and no other worker waits to begin one."""
        with self._lock:
            return not (self._waiting - {holder}) and not any(each.suspect for each in self._others(holder))

    def wait_to_be_alone(self, holder: Holder, *, waits: bool) -> None:
        """A worker found a suspect that it could not claim, or has none any more."""
        with self._lock:
            (self._waiting.add if waits else self._waiting.discard)(holder)

    def start(self, holder: Holder, attempt: Attempt, now: float) -> bool:
        """Adds a claimed job; False when it must not begin beside what another worker has claimed meanwhile."""
        with self._lock:
            others = list(self._others(holder))
            holder.attempts[attempt.key] = attempt
            if attempt.suspect:
                return not any(_may_crash(each, now) for each in others)
            return not any(each.suspect for each in others)

    def _others(self, holder: Holder) -> Iterator[Attempt]:
        """Attempts that have not ended, but for those whose handlers the worker itself runs in."""
        enclosing = set()
        outer = holder.outer
        while outer is not None:
            enclosing.add(outer)
            outer = outer.outer
        for each in self._holders | {holder}:
            for attempt in list(each.attempts.values()):
                if not attempt.ended and attempt not in enclosing:
                    yield attempt


def _may_crash(attempt: Attempt, now: float) -> bool:
    return attempt.suspect or now < attempt.claimed + PROVEN_AFTER


THIS_PROCESS = InFlightAttempts()
