"""One submit cycle: prune old entries, submit within capacity, record and report the result."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial

from tidegate import Fault
from tidegate.apps import DbTx, Installed
from tidegate.errors import StoreError
from tidegate.jobs import Drained
from tidegate_apps.lidarr import notices
from tidegate_apps.lidarr.codes import METADATA_DOWN, PACK, TARGET
from tidegate_apps.lidarr.models import badge_of, error_of
from tidegate_apps.lidarr.notices import SubmitFailure
from tidegate_apps.lidarr.settings import LidarrSettings
from tidegate_apps.lidarr.submitter import SubmitCycle, Submitter
from tidegate_apps.music.library import Library

# -- before and after submitting: pruning, and states of entries -------------------------------------------------------

_BATCH_SIZE = 200


def begin(app: Installed[LidarrSettings], library: Library) -> int:
    """Prune, and return how many entries this cycle may submit."""
    prune(app, library)
    return app.db.scalar(int, "eligible")


def prune(app: Installed[LidarrSettings], library: Library) -> int:
    """Delete submitted entries after a week, and failed ones with their badges after a month; return how many."""
    settings, older_than, gone = app.settings, app.queue.older_than, 0
    # Cancelled entries stay. Without them, the next scan would submit what a user does not want.
    for state, retention in (("done", settings.keep_submitted), ("failed", settings.keep_given_up)):
        one = partial(_slice, app, library, state, older_than(retention))
        while n := app.db.write(one):
            gone += n
    app.db.write(lambda tx: _orphans(library, tx))
    app.db.all("prune_events", before=older_than(settings.keep_submitted))
    return gone


def _slice(app: Installed[LidarrSettings], library: Library, state: str, before: float, tx: DbTx) -> int:
    old = tx.scalars(int, "old_jobs", state=state, before=before, n=_BATCH_SIZE)
    for job in old:
        app.queue.forget(job, by=app.app.name, connection=tx)
        _release(library, tx, job)
    return len(old)


def _orphans(library: Library, tx: DbTx) -> None:
    for job in tx.scalars(int, "orphans", n=_BATCH_SIZE):
        _release(library, tx, job)


def _release(library: Library, tx: DbTx, job: int) -> None:
    for kind, entity_id, status in tx.all("release", job=job):
        if status is None:
            tx.run(library.badge(kind, entity_id, None))


def reconcile(library: Library, tx: DbTx) -> int:
    """Update records from their jobs: failed, cancelled, or queued."""
    changed = tx.all("changed")
    for kind, entity_id, state, code, message in changed:
        status = {"failed": "gave_up", "cancelled": None}.get(state, "queued")
        note = error_of(code, message) or "" if status == "gave_up" else ""
        tx.all("set_status", kind=kind, entity_id=entity_id, status=status, note=note)
        tx.run(library.badge(kind, entity_id, badge_of(kind, entity_id, status)))
    return len(changed)


_log = logging.getLogger("tidegate.lidarr")

QUEUE = "lidarr"
_STOP_POLL_INTERVAL = 0.5  # seconds between two checks for a stop
_HEARTBEAT_SECONDS = 20.0  # seconds between two heartbeats
_HEARTBEAT_TIMEOUT = 90.0  # seconds after which a cycle without a heartbeat counts as dead


@dataclass(frozen=True, slots=True)
class CycleReport:
    """What a cycle did. The fields are the columns. *outcome* is nothing, drained, full, held or stopped."""

    at: float
    ended_at: float
    eligible: int
    submitted: int
    failed: int
    remaining: int
    depth: int | None
    own: int
    outcome: str
    message: str
    code: str | None
    failures: int  # cycles in a row that were blocked
    failing_since: float | None

    def as_json(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.__slots__}


class SubmitCycleRunner:
    """Runs submit cycles, one at a time in a process."""

    def __init__(self, app: Installed[LidarrSettings], submitter: Submitter) -> None:
        self._app, self._submitter = app, submitter
        self._busy = False

    def last(self) -> CycleReport | None:
        return self._app.db.first(CycleReport, "last_wake")

    def next_at(self) -> float:
        """Return when the next cycle is due."""
        last, interval = self.last(), float(self._app.settings.submit_interval)
        # A last cycle far in the future was written while the clock was wrong, so it is ignored.
        late = last is not None and last.at <= self._app.queue.clock.now() + interval
        return last.at + interval if last is not None and late else 0.0

    async def run_cycle(self, stopping: Callable[[], bool] = lambda: False) -> CycleReport | None:
        """Run one cycle; None if one is already running in this process."""
        if self._busy:
            return None
        self._busy = True
        try:
            return await self._wake(stopping)
        finally:
            self._busy = False

    async def _wake(self, stopping: Callable[[], bool]) -> CycleReport:
        there, now = self._app, self._app.queue.clock.now()
        there.queue.next_cycle(QUEUE, now + float(there.settings.submit_interval))
        eligible = await there.queue.run_blocking(lambda: begin(there, self._submitter.library))
        await there.queue.run_blocking(lambda: there.db.all("waking", since=now, until=now + _HEARTBEAT_TIMEOUT))
        if not eligible:
            # Make no call to Lidarr while there is nothing to submit.
            return await there.queue.run_blocking(lambda: self._recorded(_idle(now, self.last())))
        stop = asyncio.Event()
        async with self._submitter.opened() as lidarr:
            cycle = self._submitter.cycle = SubmitCycle(lidarr, stop.set)
            try:
                async with _watching(stopping, stop, there.queue.clock.asleep), _repeating(self._beat):
                    drained = await there.queue.adrain(QUEUE, concurrency=1, stop=stop)
            finally:
                self._submitter.cycle = None
        return await there.queue.run_blocking(lambda: self._ended(now, eligible, cycle, drained, stopped=stopping()))

    async def _beat(self) -> None:
        """Write a heartbeat. A killed cycle stops writing, so it does not count as running."""
        there = self._app
        await there.queue.clock.asleep(_HEARTBEAT_SECONDS)
        until = there.queue.clock.now() + _HEARTBEAT_TIMEOUT
        try:
            await there.queue.run_blocking(lambda: there.db.all("still_awake", until=until))
        except StoreError as error:
            _log.warning("sign_of_life_not_written error=%s", error)

    def _ended(
        self, began: float, eligible: int, cycle: SubmitCycle, drained: Drained, *, stopped: bool
    ) -> CycleReport:
        there, last = self._app, self.last()
        room = there.queue.target(TARGET).fullness()
        asked = room is not None and room.at >= began
        own = room.own if room is not None and there.settings.credits else 0
        full = asked and room is not None and room.depth + own >= room.cap and drained.held > 0
        shut = any(why.reason == "breaker" for why in there.queue.target(TARGET).explain())
        if full and room is not None:
            notices.log_backpressure(room.depth + own, room.cap, drained.remaining)
        notices.log_drained(cycle.submitted, max(0, eligible - cycle.submitted), drained.remaining)
        report = CycleReport(
            at=began,
            ended_at=0.0,
            eligible=eligible,
            submitted=cycle.submitted,
            failed=cycle.failed,
            remaining=drained.remaining,
            depth=room.depth if room is not None else None,
            own=own,
            outcome="drained",
            message="",
            code=None,
            failures=0,
            failing_since=None,
        )
        trouble = cycle.trouble
        if trouble is not None:
            report = replace(report, outcome="held", message=trouble.message)
        elif stopped:
            report = replace(report, outcome="stopped", message="It was ended early, by a stop or by a pause.")
        elif shut:
            trouble = cycle.fault or PACK.code_book["upstream_failure"].fault("breaker")
            report = replace(report, outcome="held", message=f"Lidarr failed several times in a row: {_small(trouble)}")
        elif full and room is not None:
            sent = f", and {own} more that were sent" if own else ""
            report = replace(report, outcome="full", message=f"Lidarr is full: {room.depth} of {room.cap}{sent}.")
        elif cycle.held:
            report = replace(report, outcome="held", message="The metadata service behind Lidarr is down.")
            trouble = PACK.code_book[METADATA_DOWN].fault("breaker")
        elif not asked:
            report = replace(report, outcome="held", message="Lidarr did not say how full it is.")
        elif cycle.fault is not None:
            trouble = cycle.fault
        if trouble is not None and cycle.submitted and trouble is not cycle.trouble:
            trouble = None  # Lidarr accepts some entries, so each of the others has its own failure
        if trouble is not None:
            report = _troubled(report, trouble, last)
        elif not cycle.submitted and report.outcome not in ("drained", "full"):
            report = _no_wiser(report, last)
        return self._recorded(report, cycle, trouble)

    def _recorded(
        self, woken: CycleReport, cycle: SubmitCycle | None = None, trouble: Fault | None = None
    ) -> CycleReport:
        """Write the report, the states of entries and the notices."""

        def work(tx: DbTx) -> CycleReport:
            reconcile(self._submitter.library, tx)
            columns = {name: getattr(woken, name) for name in CycleReport.__slots__ if name != "ended_at"}
            tx.all("put_wake", **columns)
            tx.all("woken")
            if cycle is not None:
                _tell(tx, woken, cycle, trouble)
            (report,) = tx.query_as(CycleReport, "last_wake")
            return report

        return self._app.db.write(work)


def _small(fault: Fault) -> str:
    """Return the message in a form that continues a sentence."""
    return fault.message[:1].lower() + fault.message[1:]


def _idle(now: float, last: CycleReport | None) -> CycleReport:
    """Return the report of a cycle without entries. The last state of Lidarr stays."""
    cycle_report = CycleReport(
        at=now,
        ended_at=0.0,
        eligible=0,
        submitted=0,
        failed=0,
        remaining=0 if last is None else last.remaining,
        depth=None if last is None else last.depth,
        own=0,
        outcome="nothing",
        message="There was nothing to send.",
        code=None,
        failures=0,
        failing_since=None,
    )
    return _no_wiser(cycle_report, last)


def _no_wiser(found: CycleReport, last: CycleReport | None) -> CycleReport:
    """Carry over the last failure: this cycle learned nothing about what blocked the earlier ones."""
    if last is None:
        return found
    return replace(found, code=last.code, failures=last.failures, failing_since=last.failing_since)


def _troubled(found: CycleReport, fault: Fault, last: CycleReport | None) -> CycleReport:
    failures = 0 if last is None else last.failures
    since = None if last is None or _another(last.code, fault) else last.failing_since
    return replace(found, code=fault.code, failures=failures + 1, failing_since=found.at if since is None else since)


def _another(before: str | None, fault: Fault) -> bool:
    """Return whether the failure needs a new notice. All transient failures count as one."""
    known = None if before is None else PACK.code_book.get(before)
    return before != fault.code and (not fault.retriable or (known is not None and known.fatal))


def _tell(tx: DbTx, woken: CycleReport, cycle: SubmitCycle, trouble: Fault | None) -> None:
    if trouble is not None:
        since = woken.at if woken.failing_since is None else woken.failing_since
        notice = SubmitFailure(trouble, woken.failures, since).notice()
        if notice is not None:
            tx.tell(notice)
    elif not woken.failures:
        tx.tell(notices.recovered(woken.at))
    if cycle.gave_up:
        tx.tell(notices.gave_up(cycle.gave_up, woken.at))


def _watching(
    stopping: Callable[[], bool], stop: asyncio.Event, sleep: Callable[[float], Awaitable[None]]
) -> contextlib.AbstractAsyncContextManager[None]:
    """End the cycle between two submissions when the server stops."""

    async def look() -> None:
        if stopping():
            stop.set()
        await sleep(_STOP_POLL_INTERVAL)

    return _repeating(look)


@contextlib.asynccontextmanager
async def _repeating(what: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Repeat *what* during the block."""

    async def repeat() -> None:
        while True:
            await what()

    task = asyncio.create_task(repeat())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
