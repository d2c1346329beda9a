"""Jobs by the clock: each tick once over all workers, and of ticks that were missed only the last."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.databases import BOTH, Database, database
from tests.jobs.gating import play, queue_on, states, working
from tidegate.clock import VirtualClock
from tidegate.guard import Tuning
from tidegate.jobs.job import NewJob
from tidegate.jobs.queue import Queue
from tidegate.jobs.scheduler import Schedule, zone_of
from tidegate.store.base import Store, Tx

NOON = datetime(2026, 3, 10, 12, 0, 0, tzinfo=UTC).timestamp()

both = pytest.mark.parametrize("db", BOTH, indirect=True)


def reporting(q: Queue, ran: list[Any]) -> Any:
    @q.job(queue="reports", name="report")
    async def report(what: str) -> None:
        ran.append((q.clock.now() - NOON, what))

    return report


@both
def test_a_schedule_puts_its_job_in_at_each_tick(db: Database) -> None:
    clock = VirtualClock(NOON - 90)
    ran: list[Any] = []
    with queue_on(db, clock) as q:
        q.schedule("*/5 * * * *", reporting(q, ran), ("all",))

        async def main() -> None:
            async with working(q):
                await asyncio.sleep(90 + 601)

        play(clock, main)

    assert [what for _, what in ran] == ["all"] * 3
    assert [at for at, _ in ran] == pytest.approx([0, 300, 600], abs=0.1)


@both
def test_over_all_workers_a_tick_is_one_job(db: Database) -> None:
    clock = VirtualClock(NOON - 10)
    ran: list[Any] = []
    queues = [queue_on(db, clock) for _ in range(4)]
    for q in queues:
        q.schedule("* * * * *", reporting(q, ran), ("all",))

    async def main() -> None:
        async with working(*queues):
            await asyncio.sleep(10 + 301)

    play(clock, main)
    assert len(ran) == 6
    for q in queues:
        q.close()


@both
def test_programs_on_one_database_each_have_their_own_schedules(db: Database) -> None:
    clock = VirtualClock(NOON - 10)
    ran: list[Any] = []
    queues = [queue_on(db, clock) for _ in range(3)]
    for n, q in enumerate(queues):

        @q.job(queue=f"program {n}")
        async def note(what: str) -> None:
            ran.append(what)

        q.schedule("* * * * *", note, (f"of program {n}",))

    async def main() -> None:
        async with working(*queues):
            await asyncio.sleep(10 + 61)

    play(clock, main)

    assert sorted(ran) == sorted([f"of program {n}" for n in range(3)] * 2)
    for q in queues:
        q.close()


@both
def test_another_worker_takes_over_when_the_one_that_leads_is_gone(db: Database) -> None:
    clock = VirtualClock(NOON - 10)
    ran: list[Any] = []
    first, second = queue_on(db, clock), queue_on(db, clock)
    for q in (first, second):
        q.schedule("* * * * *", reporting(q, ran), ("all",))

    async def main() -> None:
        async with working(first):
            await asyncio.sleep(40)
        async with working(second):
            await asyncio.sleep(60)

    play(clock, main)
    assert [at for at, _ in ran] == pytest.approx([0, 60], abs=0.5)
    first.close()
    second.close()


@both
def test_ticks_that_nobody_was_there_for_are_made_up_for_by_one(db: Database) -> None:
    clock = VirtualClock(NOON - 10)
    ran: list[Any] = []
    with queue_on(db, clock) as q:
        q.schedule("*/10 * * * *", reporting(q, ran), lambda tick: (tick.strftime("%H:%M"),))

        async def main() -> None:
            async with working(q):
                await asyncio.sleep(20)
            clock.advance("3h55m")
            async with working(q):
                await asyncio.sleep(20)

        play(clock, main)

    assert [what for _, what in ran] == ["12:00", "15:50"]


@both
def test_a_schedule_whose_arguments_cannot_be_made_stops_nobody_and_is_made_up_for(
    db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    clock = VirtualClock(NOON - 30)
    ran: list[Any] = []
    broken = True

    def arguments(tick: datetime) -> tuple[str]:
        if broken:
            raise ZeroDivisionError("a bug of the program")
        return (f"{tick:%H:%M}",)

    with queue_on(db, clock) as q:
        report = reporting(q, ran)
        q.schedule("0 12 * * *", report, arguments, name="bad")
        q.schedule("* * * * *", report, ("good",), name="good")

        async def main() -> None:
            nonlocal broken
            async with working(q):
                await asyncio.sleep(30 + 121)
                assert [what for _, what in ran] == ["good"] * 3
                broken = False
                await asyncio.sleep(10)

        play(clock, main)

    assert [what for _, what in ran] == [*["good"] * 3, "12:00"]
    assert [each.getMessage() for each in caplog.records if "schedule_failed" in each.msg] == [
        "schedule_failed name=bad"
    ]


def test_a_wall_clock_that_steps_over_a_tick_has_it_once_the_new_time_is_confirmed(tmp_path: Path) -> None:
    clock = VirtualClock(NOON - 1800)
    ran: list[Any] = []
    with Queue(f"sqlite:///{tmp_path / 'steps.db'}", clock=clock, inline=True) as q:
        q.schedule("0 * * * *", reporting(q, ran), ("all",))

        async def main() -> None:
            async with working(q):
                await asyncio.sleep(100)
                clock.step_wall(1800)
                await asyncio.sleep(500)
                assert ran == []
                await asyncio.sleep(200)

        play(clock, main)

    assert [what for _, what in ran] == ["all"]


@pytest.mark.parametrize("restarted", [False, True])
@both
def test_a_wall_clock_that_is_set_back_by_a_day_does_not_end_a_schedule_for_a_day(
    db: Database, restarted: bool
) -> None:
    clock = VirtualClock(NOON - 30)
    ran: list[Any] = []
    with queue_on(db, clock) as q:
        q.schedule("* * * * *", reporting(q, ran), ("all",))

        async def main() -> None:
            async with working(q):
                await asyncio.sleep(40)
                if not restarted:
                    clock.step_wall(-86_400)
                    await asyncio.sleep(200)
            if restarted:
                clock.step_wall(-86_400)
                async with working(q):
                    await asyncio.sleep(200)

        play(clock, main)

    assert [round(at) for at, _ in ran[1:]] == [60, 120, 180]  # as if the clock had not been touched


@both
def test_a_tick_is_not_had_twice_when_the_wall_clock_is_set_back_a_little(db: Database) -> None:
    clock = VirtualClock(NOON - 30)
    ran: list[Any] = []
    with queue_on(db, clock) as q:
        q.schedule("* * * * *", reporting(q, ran), ("all",))

        async def main() -> None:
            async with working(q):
                await asyncio.sleep(35)
                clock.step_wall(-20)
                await asyncio.sleep(90)

        play(clock, main)

    assert [round(at) for at, _ in ran] == [0, 60]


class Counting(Queue):
    """Counts how often its database is written to."""

    writes = 0

    def _database(self) -> Store:
        found = super()._database()
        write = found.write

        def counted(work: Callable[[Tx], Any]) -> Any:
            self.writes += 1
            return write(work)

        found.write = counted  # type: ignore[method-assign]
        return found


def test_between_two_ticks_the_database_is_left_alone(tmp_path: Path) -> None:
    counted = []
    for scheduled in (False, True):
        clock = VirtualClock(NOON - 1800)
        dice = random.Random(1).random  # what is done now and then is done as often in both
        with Counting(
            f"sqlite:///{tmp_path / str(scheduled)}.db", clock=clock, inline=True, tuning=Tuning(rng=dice)
        ) as q:
            report = reporting(q, [])
            if scheduled:
                q.schedule("0 * * * *", report, ("all",))

            async def main(q: Queue = q) -> None:
                async with working(q):
                    await asyncio.sleep(1200)

            play(clock, main)
            counted.append(q.writes)

    assert counted[1] <= counted[0] + 5


@both
def test_a_new_schedule_has_no_past(db: Database) -> None:
    clock = VirtualClock(NOON + 1)
    ran: list[Any] = []
    with queue_on(db, clock) as q:
        q.schedule("0 * * * *", reporting(q, ran), ("all",))

        async def main() -> None:
            async with working(q):
                await asyncio.sleep(60)

        play(clock, main)
        assert states(q) == {}


@pytest.mark.parametrize(("zone", "hour"), [("UTC", 3), ("Europe/Berlin", 2), ("Asia/Kolkata", 21.5)])
def test_a_schedule_keeps_the_clock_of_its_zone(zone: str, hour: float) -> None:
    def make(tick: datetime) -> NewJob:
        raise AssertionError

    schedule = Schedule(name="x", expression="0 3 * * *", zone=zone_of(zone), make=make)

    tick = schedule.after(schedule.at(NOON)).astimezone(UTC)

    assert tick.hour + tick.minute / 60 == hour
    assert schedule.last(schedule.at(tick.timestamp())) == tick


@pytest.mark.parametrize("expression", ["", "every day", "61 * * * *", "* * * *", "0 0 30 2 *"])
def test_an_expression_that_is_none_is_refused_at_once(tmp_path: Path, expression: str) -> None:
    with database(BOTH[0], tmp_path) as db, queue_on(db, VirtualClock()) as q:
        report = reporting(q, [])
        with pytest.raises(ValueError, match="schedule"):
            q.schedule(expression, report, ("all",))


def test_what_is_said_of_a_schedule_is_checked(tmp_path: Path) -> None:
    with database(BOTH[0], tmp_path) as db, queue_on(db, VirtualClock()) as q:
        report = reporting(q, [])
        with pytest.raises(ValueError, match="'Mars/Base'"):
            q.schedule("0 * * * *", report, ("all",), zone="Mars/Base")
        with pytest.raises(TypeError):
            q.schedule("0 * * * *", report, (object(),))
        q.schedule("0 * * * *", report, ("all",))
        with pytest.raises(ValueError, match="schedule"):
            q.schedule("0 * * * *", report, ("others",))
        q.schedule("0 * * * *", report, ("others",), name="others")
