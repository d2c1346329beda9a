"""Jobs by the clock: one worker of all puts them in, each tick once, and of ticks that were missed only the last."""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tidegate.errors import StoreError
from tidegate.jobs import insert
from tidegate.jobs.job import NewJob
from tidegate.logs import logger

if TYPE_CHECKING:
    from tidegate.jobs.worker import Worker
    from tidegate.store.base import Tx

_log = logger("tidegate.worker")

_POLL_INTERVAL = 3.0  # seconds between two looks, at the most
_SET_BACK = 600.0  # seconds: a clock that is so far behind what it was begins anew, else no tick is had twice


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """One kind of job, by a cron expression."""

    name: str
    expression: str
    zone: tzinfo
    make: Callable[[datetime], NewJob]  # the job of a tick

    def __post_init__(self) -> None:
        """ValueError for an expression that is none, or that never comes."""
        try:
            self.after(datetime.now(self.zone))
        except StopIteration:
            raise ValueError(f"schedule: {self.expression!r} never comes") from None

    def after(self, moment: datetime) -> datetime:
        """The first tick after a moment."""
        return _after(self.expression, self.zone, math.floor(moment.timestamp()))

    def last(self, moment: datetime) -> datetime | None:
        """The last tick at or before a moment; None when there was none."""
        return _last(self.expression, self.zone, math.floor(moment.timestamp()))

    def at(self, moment: float) -> datetime:
        return datetime.fromtimestamp(moment, self.zone)


# It counts in whole seconds. Several schedules share an expression, and several workers look at the same second.
@lru_cache(256)
def _after(expression: str, zone: tzinfo, second: int) -> datetime:
    found: datetime = next(_ticks(expression, datetime.fromtimestamp(second, zone)))
    return found


@lru_cache(256)
def _last(expression: str, zone: tzinfo, second: int) -> datetime | None:
    # Backwards it leaves out the moment itself.
    return next(_ticks(expression, datetime.fromtimestamp(second + 1, zone), reverse=True), None)


def _ticks(expression: str, moment: datetime, *, reverse: bool = False) -> Any:
    try:
        from cronsim import CronSim, CronSimError
    except ImportError as error:
        raise RuntimeError("schedules need cronsim: pip install 'tidegate[queue]'") from error
    try:
        return CronSim(expression, moment, reverse=reverse)
    except CronSimError as error:
        raise ValueError(
            f"schedule: {expression!r} is no cron expression ({error}); write it as '0 * * * *'"
        ) from error


def zone_of(name: str) -> ZoneInfo:
    """A time zone by its name; ValueError when there is none."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise ValueError(f"zone: there is no time zone {name!r}; write it as 'Europe/Berlin'") from error


def run_scheduler(schedules: Sequence[Schedule]) -> Callable[[Worker], Coroutine[Any, Any, None]]:
    """What a worker runs beside its jobs, for ever."""

    async def run(worker: Worker) -> None:
        told: dict[str, datetime] = {}
        looked = soonest = -math.inf
        while True:
            wait = _POLL_INTERVAL
            try:
                now = worker.heartbeat.store_now()
                if worker.outdated or looked - _SET_BACK < now < soonest:  # nobody sleeps until then: clocks step
                    await worker.clock.asleep(_POLL_INTERVAL if worker.outdated else min(_POLL_INTERVAL, soonest - now))
                    continue
                found = await worker.at_store(lambda tx: tick(tx, schedules))
                for failed in found.failed:
                    if told.get(failed.name) != failed.due:
                        told[failed.name] = failed.due
                        _log.error("schedule_failed name=%s", failed.name, exc_info=failed.error)
                if found.fired:
                    _log.info("schedule_fired names=%s", ",".join(found.fired))
                    worker.wake.signal_new_work()
                    worker.store.announce()
                # By the store's own clock at that look: a tick that ours takes for over may be ahead there.
                looked, soonest = (
                    found.at,
                    min(schedule.after(schedule.at(found.at)).timestamp() for schedule in schedules),
                )
                soonest = min(soonest, found.at + _POLL_INTERVAL) if found.failed else soonest
                wait = 0.001
            except StoreError as error:
                _log.warning("schedules_not_kept error=%s", type(error).__name__)
            await worker.clock.asleep(wait)

    return run


@dataclass(frozen=True, slots=True)
class FailedTick:
    """A schedule whose job could not be made, by a function of the user's. Its tick is still to be had."""

    name: str
    due: datetime
    error: Exception


@dataclass(slots=True)
class Ticked:
    """What one look found *at* a moment: the names of those that fired, and those that could not."""

    at: float
    fired: list[str] = field(default_factory=list)
    failed: list[FailedTick] = field(default_factory=list)


def tick(tx: Tx, schedules: Sequence[Schedule]) -> Ticked:
    """Puts in what is due and nobody else has put in."""
    now = float(tx.query("clock")[0][0])
    ticked = Ticked(now)
    ticked.fired += [schedule.name for schedule in schedules if _fire(tx, schedule, now, ticked.failed)]
    return ticked


def _fire(tx: Tx, schedule: Schedule, now: float, failed: list[FailedTick]) -> bool:
    rows = tx.query("schedule_last", {"name": schedule.name})
    if not rows or rows[0][0] > now + _SET_BACK:
        # Seen for the first time, or for the first time since the clock was set back: what lies before is not its
        # business.
        tx.query("schedule_begin", {"name": schedule.name, "at": now})
        return False
    due = schedule.last(schedule.at(now))
    if due is None or due.timestamp() <= rows[0][0]:
        return False
    try:
        job = schedule.make(due)
    except Exception as error:
        failed.append(FailedTick(schedule.name, due, error))
        return False
    # No worker leads: each knows the schedules of its own program only. Who writes the tick has it.
    if not tx.query("schedule_tick", {"name": schedule.name, "at": due.timestamp()}):
        return False
    return any(each.created for each in insert.enqueue(tx, [job]))  # a twin that is at work is no news
