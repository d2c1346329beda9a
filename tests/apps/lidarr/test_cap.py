"""Whatever is put in, Lidarr's queue never stands above the cap, although it shows what was sent only minutes later."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from pathlib import Path

import pytest

from tests.apps.lidarr.building import Round
from tests.databases import BOTH, Database, database
from tests.text import numbers
from tidegate.clock import VirtualClock
from tidegate.testing import RecordedRequest, Step
from tidegate_demo.simulators.lidarr import LidarrSimulator, SimulatedTiming

API = "/api/v1"
LOST = Step(reset=True)


@pytest.mark.full
@pytest.mark.req("LID-07")
@pytest.mark.req("LID-08")
def test_six_hundred_albums_of_one_look_drain_over_hours_and_never_fill_lidarr_above_its_cap(
    quick_db: Database,
) -> None:
    with Round.opened(quick_db) as at:
        at.some(30, 20)
        assert at.look().queued == 630
        began, seen = at.clock.now(), [at.wake()]
        while seen[-1].remaining and len(seen) < 400:
            at.clock.advance("3m")
            seen.append(at.wake())

        assert at.sim.inside.peak() <= 50
        assert at.sent("POST /command") == 600
        assert {each.status for each in at.entries()} == {"submitted"}
        assert at.clock.now() - began > 2 * 3600
        assert {each.outcome for each in seen} <= {"full", "drained"}
        assert all(each.depth is not None and each.depth + each.own <= 50 for each in seen)
        assert seen[0].submitted == 80  # thirty artists, which take no place, and fifty albums
        for each in seen[:-1]:
            assert numbers(each.message) == [each.depth, 50, *([each.own] if each.own else [])]


@pytest.mark.req("LID-07")
@pytest.mark.parametrize("name", BOTH)
def test_two_submitters_at_once_never_send_more_than_there_is_room_for(name: str, tmp_path: Path) -> None:
    clock = VirtualClock()
    sim = LidarrSimulator(clock=clock, pace=SimulatedTiming(refresh=1.0, found=60.0, lasts=240.0))
    with database(name, tmp_path) as db, contextlib.ExitStack() as stack:
        first, second = (
            stack.enter_context(Round.opened(db, clock=clock, sim=sim, queue_max=6)) for _ in range(2)
        )  # fmt: skip
        first.some(2, 12)
        first.look()

        async def both() -> None:
            for _ in range(14):
                await asyncio.gather(first.jobs.waker.run_cycle(), second.jobs.waker.run_cycle())
                await asyncio.sleep(180)

        clock.run(both())

        assert sim.inside.peak() <= 6
        assert {each.status for each in first.entries()} == {"submitted"}
        assert sim.sent("POST /command") == 24  # and each of them once
        assert sim.sent("POST /artist") == 2


@pytest.mark.req("LID-08")
def test_what_others_download_counts_too_and_is_not_taken_for_ours(quick_db: Database) -> None:
    with Round.opened(quick_db, queue_max=20) as at:
        at.some(1, 40)
        at.look()
        at.wake()
        at.sim.inside.fill(10, lasts=3000)  # while our own twenty are still on their way
        for _ in range(3):
            at.clock.advance("30s")
            assert at.wake().submitted == 0
        ours = len(at.sim.inside.downloads) - 10
        assert ours == 20


@pytest.mark.req("LID-08")
@pytest.mark.req("LID-18")
def test_searches_whose_answers_are_lost_count_as_sent(quick_db: Database) -> None:
    with Round.opened(quick_db, queue_max=10) as at:
        at.some(1, 60)
        at.look()
        asked = itertools.count()

        def every_second_is_lost(said: RecordedRequest) -> Step:
            done = Step(201, at.sim.inside.search(said.json["albumIds"]))
            return Step(reset=True) if next(asked) % 2 else done

        at.sim.stay(f"POST {API}/command", every_second_is_lost)

        woken = at.wake()

        assert (woken.outcome, woken.submitted, woken.failed, woken.own) == ("full", 6, 5, 10)
        assert at.sim.inside.peak() == 10
        at.wakes(100)
        assert at.sim.inside.peak() <= 10
        assert {each.status for each in at.entries()} == {"submitted"}
        assert at.sent("POST /command") == 60


@pytest.mark.req("LID-08")
@pytest.mark.req("LID-13")
def test_what_is_given_up_by_its_last_lost_answer_counts_as_sent(quick_db: Database) -> None:
    with Round.opened(quick_db, queue_max=3, attempts=1) as at:
        at.some(1, 8)
        at.look()
        at.sim.stay(f"POST {API}/command", lambda said: (at.sim.inside.search(said.json["albumIds"]), LOST)[1])

        woken = at.wake()

        assert (woken.outcome, woken.submitted, woken.failed, woken.own) == ("full", 1, 3, 3)
        assert sum(each.terminal_reason == "exhausted" for each in at.entries()) == 3
        at.wakes(20)
        assert at.sim.inside.peak() <= 3
        at.look()
        assert at.status("album", at.albums["album-0-0"]) in ("monitored", "grabbed", "available")


@pytest.mark.req("LID-08")
def test_what_a_person_cancels_while_it_is_sent_counts_as_sent(quick_db: Database) -> None:
    with Round.opened(quick_db, queue_max=1) as at:
        at.some(1, 3)
        at.look()

        def cancelled_meanwhile(said: RecordedRequest) -> Step:
            (running,) = [each for each in at.entries() if each.stage == "running"]
            assert at.queue.cancel(running.id) == "asked"
            return Step(201, at.sim.inside.search(said.json["albumIds"]), delay="50s")

        at.sim.then(f"POST {API}/command", cancelled_meanwhile)

        woken = at.wake()

        assert [each.stage for each in at.entries()] == ["done", "cancelled", "ready", "ready"]
        assert (woken.outcome, woken.submitted, woken.own) == ("full", 1, 1)
        assert at.sim.inside.peak() == 1


@pytest.mark.req("LID-08")
def test_a_search_that_lidarr_refuses_takes_no_place(quick_db: Database) -> None:
    with Round.opened(quick_db, queue_max=2) as at:
        at.some(1, 4)
        at.look()
        at.sim.then(f"POST {API}/command", Step(400), Step(400))

        woken = at.wake()

        assert (woken.submitted, woken.failed, woken.own) == (3, 2, 2)
