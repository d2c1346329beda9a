"""The stop of one worker, step by step."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidegate.runtime.worker import Worker

_log = logging.getLogger("tidegate.worker")


class Shutdown:
    """No more claims; then handlers are cancelled; then they are left alone; then it is over."""

    def __init__(self, worker: Worker, grace: float) -> None:
        self._worker = worker
        now, unwind = worker.clock.monotonic(), worker.policy.unwind
        self._steps = [now + grace, now + grace + unwind, now + grace + unwind + 1.0]
        worker.stopping = True
        worker.in_flight.release_unstarted(all_of_it=True)
        for attempt in worker.in_flight.attempts.values():
            attempt.context.stopping = True

    @property
    def next_step(self) -> float:
        return self._steps[0]

    def over(self) -> bool:
        worker = self._worker
        now = worker.clock.monotonic()
        while len(self._steps) > 1 and now >= self._steps[0]:
            self._steps.pop(0)
            if len(self._steps) == 2:
                self._cut_short()
            else:
                worker.in_flight.release_all()
        if worker.in_flight.attempts and now >= self._steps[0]:
            _log.error("leases_not_given_back n=%s", len(worker.in_flight.attempts))
            return True
        return not worker.in_flight.attempts

    def _cut_short(self) -> None:
        for attempt in list(self._worker.in_flight.attempts.values()):
            if not attempt.ended:
                attempt.interrupt("shutdown")
