"""When the submitter wakes, how a stop ends that, and how long it counts as under way."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from typing import Any

import pytest

from tests.apps.lidarr.building import Round
from tests.databases import Database
from tidegate import Queue
from tidegate.apps import install
from tidegate.clock import VirtualClock
from tidegate.testing import Step
from tidegate_apps.lidarr.app import app
from tidegate_apps.lidarr.models import Submission
from tidegate_apps.lidarr.service import submit_status
from tidegate_apps.lidarr.settings import LidarrSettings
from tidegate_apps.lidarr.submit_cycle import CycleReport

API = "/api/v1"


async def served(at: Round, seconds: float) -> None:
    """As the server works: all queues, for that long."""
    stop = asyncio.Event()
    working = asyncio.create_task(at.queue.arun_worker(stop=stop))
    await asyncio.sleep(seconds)
    stop.set()
    await working


@pytest.mark.req("LID-05")
def test_the_server_wakes_the_submitter_on_its_interval_and_at_no_other_time(quick: Round) -> None:
    quick.some(3, 0)
    quick.sim.inside.fill(50, lasts=1e6)
    quick.look()
    looked = quick.sent("GET /queue")

    quick.clock.run(served(quick, 1150))

    asked = [each.at for each in quick.sim.asked(f"GET {API}/queue")][looked:]
    looks = len(quick.sim.asked(f"GET {API}/queue")) - looked
    gaps = [round(b - a) for a, b in itertools.pairwise(asked)]
    assert looks == 7, gaps
    assert all(179 <= gap <= 182 for gap in gaps), gaps
    why = quick.queue.explain(quick.entries()[0].id)[0]
    assert (why.reason, why.subject) == ("scheduled", "queue lidarr")


def test_the_first_look_does_not_wait_for_the_schedule(quick: Round) -> None:
    quick.some(2, 1)
    quick.jobs.wakes.enqueue()

    quick.clock.run(served(quick, 30))

    assert len(quick.entries()) == 4


@pytest.mark.req("LID-05")
@pytest.mark.parametrize("missing", [{"base_url": ""}, {"api_key": ""}])
def test_without_an_address_and_a_key_nothing_wakes(quick_db: Database, missing: dict[str, str]) -> None:
    clock = VirtualClock()
    with Queue(quick_db.url, clock=clock, inline=True) as queue:
        wanted = {"base_url": "http://127.0.0.1:9", "api_key": "k", **missing}
        there = install(app, queue, LidarrSettings.model_validate(wanted))
        there.jobs.submit.enqueue(Submission("artist", 1, "ada", "a", "A"))

        async def main() -> None:
            stop = asyncio.Event()
            working = asyncio.create_task(queue.arun_worker(stop=stop))
            await asyncio.sleep(1200)
            stop.set()
            await working

        clock.run(main())
        assert there.jobs.waker.last() is None
        assert there.queue.get(1).fence == 0


@pytest.mark.req("LID-05")
@pytest.mark.parametrize("ahead", [1, 86400])
def test_a_clock_that_was_ahead_keeps_no_wake_away_for_longer_than_two_intervals(quick: Round, ahead: float) -> None:
    written = {**quick.wake().as_json(), "at": quick.clock.now() + ahead}
    quick.there.db.all("put_wake", **{name: value for name, value in written.items() if name != "ended_at"})

    assert quick.jobs.waker.next_at() == (0.0 if ahead > 180 else quick.clock.now() + 180 + ahead)
    assert submit_status(quick.there).next_wake == quick.jobs.waker.next_at()


@pytest.mark.req("LID-08", "LID-10")
def test_what_has_failed_is_tried_again_in_another_wake_however_long_this_one_lasts(quick: Round) -> None:
    quick.some(50, 0)
    quick.look()
    quick.sim.weather = "slow"
    quick.sim.then(f"POST {API}/artist", Step(400))
    quick.jobs.wakes.enqueue()

    async def main() -> CycleReport | None:
        working = asyncio.create_task(served(quick, 3600))
        while (woken := quick.jobs.waker.last()) is None:  # noqa: ASYNC110 - in virtual time
            await asyncio.sleep(1)
        entry = quick.entry("artist", "artist-0")
        assert entry.retry_at is not None
        assert woken.at < entry.retry_at < woken.ended_at
        assert (entry.status, entry.attempts) == ("failed", 1)
        await working
        return woken

    woken = quick.clock.run(main())

    assert woken is not None
    assert (woken.eligible, woken.submitted, woken.failed, woken.remaining) == (50, 49, 1, 1)
    assert quick.entry("artist", "artist-0").status == "submitted"


@pytest.mark.req("LID-18")
def test_a_stop_ends_a_wake_between_two_submissions(quick: Round) -> None:
    quick.some(5, 0)
    quick.look()
    quick.sim.weather = "slow"
    stopped = False

    async def main() -> Any:
        nonlocal stopped
        waking = asyncio.create_task(quick.jobs.waker.run_cycle(lambda: stopped))
        while quick.sent("POST /artist") < 2:  # noqa: ASYNC110 - in virtual time
            await asyncio.sleep(1)
        stopped = True
        return await waking

    woken = quick.clock.run(main())

    assert woken.outcome == "stopped"
    assert woken.submitted == quick.sent("POST /artist") < 5
    assert {each.stage for each in quick.entries()} == {"done", "ready"}
    quick.sim.weather = "well"
    assert quick.wake().submitted == 5 - woken.submitted
    assert quick.sent("POST /artist") == 5


def test_a_wake_that_is_under_way_is_said(quick: Round) -> None:
    quick.some(1, 0)
    quick.look()
    seen: list[float | None] = []
    began = quick.clock.now()

    def during(_: Any) -> Step:
        seen.append(submit_status(quick.there).waking_since)
        return Step(500)

    quick.sim.then(f"POST {API}/artist", during)
    quick.wake()

    assert (seen, submit_status(quick.there).waking_since) == ([began], None)


def test_a_wake_that_was_killed_is_soon_no_longer_under_way_and_a_long_one_stays_so(quick: Round) -> None:
    quick.some(30, 0)
    quick.look()
    quick.sim.weather = "slow"
    began = quick.clock.now()
    seen: list[float | None] = []

    async def main() -> None:
        waking = asyncio.create_task(quick.jobs.waker.run_cycle())
        for _ in range(2):
            await asyncio.sleep(100)
            seen.append(submit_status(quick.there).waking_since)
        waking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await waking
        await asyncio.sleep(100)
        seen.append(submit_status(quick.there).waking_since)

    quick.clock.run(main())

    assert seen == [began, began, None]
