"""The same thing done to many jobs in the background: how far each is, kept in memory, and not without bound."""

from __future__ import annotations

import itertools
import logging
import secrets
import threading
from collections import OrderedDict
from dataclasses import dataclass, field

from tidegate.core.progress import Progress, unheard
from tidegate.errors import Refused, TidegateError
from tidegate.ops import bulk
from tidegate.ops.bulk import Outcome
from tidegate.ops.listing import Filter
from tidegate.web.guards import places
from tidegate.web.problems import Problem
from tidegate.web.site import Site

_log = logging.getLogger("tidegate.web")

MOST_KEPT = 100
MOST_RUNNING = 2
_FIRST_GUESS = 0.001  # seconds for one job, before anything is known


class Stopped(Exception):
    """The server stops; what is done is done, the rest is not."""


@dataclass(slots=True)
class Running:
    """One of them. *state* is running, done, refused, failed or stopped."""

    id: str
    action: str
    filter: Filter
    by: str
    expected: int
    started_at: float
    began: float  # of a clock that is never set
    state: str = "running"
    done: int = 0
    outcome: Outcome | None = None
    says: str = ""
    finished_at: float | None = None

    def left(self, now: float) -> float:
        """Seconds that it still takes, as it went so far."""
        each = (now - self.began) / self.done if self.done else _FIRST_GUESS
        return max(0.0, (self.expected - self.done) * each)


@dataclass(slots=True)
class Bulks:
    """Those of this process."""

    site: Site
    _found: OrderedDict[str, Running] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stopping: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def get(self, id_: str) -> Running | None:
        return self._found.get(id_)

    def listed(self) -> list[Running]:
        """The newest first."""
        with self._lock:
            return list(reversed(self._found.values()))

    def start(self, action: str, wanted: Filter, by: str, expected: int) -> Running:
        """Begins it in a thread of its own; a problem when too many are under way."""
        clock = self.site.queue.clock
        with self._lock:
            running = [each for each in self._found.values() if each.state == "running"]
            if len(running) >= MOST_RUNNING:
                soonest = min(each.left(clock.monotonic()) for each in running)
                raise Problem("too_many", f"{len(running)} bulk actions are under way.", retry_after=max(1.0, soonest))
            made = Running(
                f"b{next(self._numbers)}-{secrets.token_hex(6)}", action, wanted, by, expected, clock.now(),
                clock.monotonic(),
            )  # fmt: skip
            self._found[made.id] = made
            while len(self._found) > MOST_KEPT:
                oldest = next(id_ for id_, each in self._found.items() if each.state != "running")
                del self._found[oldest]
            self._threads = [each for each in self._threads if each.is_alive()]
            thread = threading.Thread(target=self._run, args=(made,), name=f"tidegate-bulk-{made.id}", daemon=True)
            self._threads.append(thread)
        thread.start()
        return made

    def begin(self) -> None:
        """Others may be started; also after a stop."""
        self._stopping.clear()

    def stop(self, patience: float = 5.0) -> None:
        """Ends what is under way after the slice that it is at."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(patience)

    def _run(self, one: Running) -> None:
        def progress(done: int, total: int) -> None:
            one.done, one.expected = done, total
            self.site.queue.woken()
            if done < total and self._stopping.is_set():
                raise Stopped

        try:
            one.outcome = carried_out(self.site, one.action, one.filter, one.by, one.expected, progress)
            one.state, one.done = "done", one.outcome.matched
        except Refused as error:
            one.state, one.says = "refused", str(error)
        except Stopped:
            one.state, one.says = "stopped", "the server was stopped; start it again for the rest"
        except TidegateError as error:
            one.state, one.says = "failed", "the database was away; look at what is left"
            _log.warning("bulk_failed id=%s error=%s", one.id, type(error).__name__)
        except Exception as error:
            one.state, one.says = "failed", "something went wrong; the log of the server says more"
            _log.error("bulk_failed id=%s error=%s where=%s", one.id, type(error).__name__, places(error))
        finally:
            one.finished_at = self.site.queue.clock.now()


def carried_out(
    site: Site, action: str, wanted: Filter, by: str, expected: int, progress: Progress = unheard
) -> Outcome:
    """Does it now, and wakes the workers."""
    found = bulk.run(site.queue.store, action, wanted, by, expected=expected, progress=progress)
    site.queue.woken()
    return found
