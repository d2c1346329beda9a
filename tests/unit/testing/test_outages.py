"""A user's own test: a long outage in no time, and the same every time."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

from tidegate import Backoff, Cooldown, Held, Target
from tidegate.guard import Tuning
from tidegate.testing import EventLog, ScriptedTarget, StatusError, VirtualClock

DAY = 86_400


def test_a_day_of_outage_takes_no_time(virtual_clock: VirtualClock, tide_events: EventLog) -> None:
    service = ScriptedTarget(outage="24h down", clock=virtual_clock)
    target = Target(
        "lidarr",
        "sync",
        backoff=Backoff("30s", cap="30m", jitter=0),
        clock=virtual_clock,
        tuning=Tuning(bus=tide_events.bus),
    )
    started = time.perf_counter()

    while virtual_clock.monotonic() < DAY + 3600:
        with suppress(Held, ConnectionError):
            target.call(service)
        virtual_clock.advance("1m")

    assert time.perf_counter() - started < 60
    # 30 s, 1, 2, 4, 8, 16 min and then every 30 min: a dead service is asked about 53 times a day.
    assert 45 <= service.count(failed=True) <= 60
    assert [notice.kind for notice in tide_events.notices()] == ["cap", "recovered"]


def test_a_day_of_outage_on_the_virtual_loop(virtual_clock: VirtualClock, tide_events: EventLog) -> None:
    service = ScriptedTarget(outage="24h 503", clock=virtual_clock)
    target = Target(
        "gateway", breaker={"consecutive": 5}, deadline="30s", clock=virtual_clock, tuning=Tuning(bus=tide_events.bus)
    )
    poll = target.guard(retry=3)(service.acall)

    async def main() -> str:
        while True:
            try:
                return str(await poll())
            except Exception:
                await asyncio.sleep(60)

    assert virtual_clock.run(main()) == "ok"
    assert DAY <= virtual_clock.monotonic() <= DAY + 2 * 3600


def test_a_feed_that_is_gone_rests_for_three_days(virtual_clock: VirtualClock, tide_events: EventLog) -> None:
    service = ScriptedTarget(outage="5d 410", clock=virtual_clock)
    target = Target(
        "feeds",
        "sync",
        cooldown=Cooldown.feeds(),
        backoff=Backoff("1m", cap="1h"),
        clock=virtual_clock,
        tuning=Tuning(bus=tide_events.bus),
    )
    for _ in range(8 * 24):
        with suppress(Held, StatusError):
            target.key(4711).call(service)
        virtual_clock.advance("1h")

    assert service.count(failed=True) == 2
    tide_events.assert_one("target_enabled")
