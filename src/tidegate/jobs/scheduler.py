"""Cron schedules: one worker inserts the job of each tick. Of missed ticks, only the last is made up for."""

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
from tidegate.store.base import Tx, now_of

if TYPE_CHECKING:
    from tidegate.jobs.worker import Worker

_log = logger("tidegate.worker")

_POLL_INTERVAL = 3.0  # maximum seconds between two checks, because clocks can step
_SET_BACK = 600.0  # after a larger step backwards the schedule restarts; after a smaller one no tick repeats


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A cron expression and the job to insert at each tick."""

    name: str
    expression: str
    zone: tzinfo
    make: Callable[[datetime], NewJob]  # the job of a tick

    def __post_init__(self) -> None:
        """Raises ValueError for an invalid expression, or one that never matches."""
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


# Cached by whole seconds: several schedules share an expression, and several workers check the same second.
@lru_cache(256)
def _after(expression: str, zone: tzinfo, second: int) -> datetime:
    found: datetime = next(_ticks(expression, datetime.fromtimestamp(second, zone)))
    return found


@lru_cache(256)
def _last(expression: str, zone: tzinfo, second: int) -> datetime | None:
    # CronSim in reverse excludes the moment itself.
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
    """A time zone by name. Raises ValueError when it is unknown."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise ValueError(f"zone: there is no time zone {name!r}; write it as 'Europe/Berlin'") from error


def run_scheduler(schedules: Sequence[Schedule]) -> Callable[[Worker], Coroutine[Any, Any, None]]:
    """The background task of a worker that inserts scheduled jobs, for ever."""

    async def run(worker: Worker) -> None:
        told: dict[str, datetime] = {}
        looked = soonest = -math.inf
        while True:
            wait = _POLL_INTERVAL
            try:
                now = worker.heartbeat.store_now()
                if worker.outdated or looked - _SET_BACK < now < soonest:  # sleeps in short steps: clocks can step
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
                # Uses the store's time: by the local estimate, a tick may be over that is still ahead in the store.
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
    """A schedule whose user function raised. Its tick is tried again."""

    name: str
    due: datetime
    error: Exception


@dataclass(slots=True)
class Ticked:
    """The result of one check: the schedules that fired and those that failed."""

    at: float
    fired: list[str] = field(default_factory=list)
    failed: list[FailedTick] = field(default_factory=list)


def tick(tx: Tx, schedules: Sequence[Schedule]) -> Ticked:
    """Inserts the jobs of due ticks that no other worker has inserted."""
    now = now_of(tx)
    ticked = Ticked(now)
    ticked.fired += [schedule.name for schedule in schedules if _fire(tx, schedule, now, ticked.failed)]
    return ticked


def _fire(tx: Tx, schedule: Schedule, now: float, failed: list[FailedTick]) -> bool:
    last = tx.scalar_or_none(float, "schedule_last", {"name": schedule.name})
    if last is None or last > now + _SET_BACK:
        # A new schedule, or the first check since the clock was set back: earlier ticks do not count.
        tx.query("schedule_begin", {"name": schedule.name, "at": now})
        return False
    due = schedule.last(schedule.at(now))
    if due is None or due.timestamp() <= last:
        return False
    try:
        job = schedule.make(due)
    except Exception as error:
        failed.append(FailedTick(schedule.name, due, error))
        return False
    # There is no leader, because each worker knows only its program's schedules. The first to write the tick inserts.
    if not tx.query("schedule_tick", {"name": schedule.name, "at": due.timestamp()}):
        return False
    return any(each.created for each in insert.enqueue(tx, [job]))  # a duplicate needs no wake-up
