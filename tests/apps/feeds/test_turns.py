"""Whose turn it is: many hosts at once, one feed of a host after the other, and none in waves."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.apps.feeds.building import HOUR, Desk, fetched, lines
from tidegate import net
from tidegate_apps.feeds.models import SourceRequest
from tidegate_apps.feeds.poll_results import PollResultWriter
from tidegate_apps.feeds.poller import PollCounts, PollPolicy

URL = "http://a.example/f"


def test_one_feed_of_a_host_at_a_time_and_many_hosts_at_once(quick: Desk) -> None:
    quick.policy = PollPolicy(paced=False, guard=None, concurrency=6)
    for n in range(24):
        quick.add(f"http://h{n % 8}.example/{n}")
    flying: list[str] = []
    most = 0

    async def slow(url: str, *, headers: Any = None) -> net.FetchResponse:
        nonlocal most
        host = url.split("/")[2]
        assert host not in flying
        flying.append(host)
        most = max(most, len(flying))
        await asyncio.sleep(1)
        flying.remove(host)
        return fetched(body="one")

    tally = quick.poll(quick.poller(slow))
    assert (tally.polled, tally.failed, most) == (24, 0, 6)


def test_a_feed_that_falls_due_while_its_host_is_asked_waits_for_its_turn(quick: Desk) -> None:
    quick.add("http://a.example/1")
    flying: list[str] = []

    async def slow(url: str, *, headers: Any = None) -> net.FetchResponse:
        assert flying == []
        flying.append(url)
        if url.endswith("/1"):
            quick.add("http://a.example/2")
        await asyncio.sleep(5)  # meanwhile the poller has seen the other one
        flying.clear()
        return fetched(body="one")

    tally = quick.poll(quick.poller(slow))
    assert (tally.polled, tally.failed) == (2, 0)


def test_a_slow_host_does_not_hold_the_others_up(quick: Desk) -> None:
    quick.sources.add_many(
        [SourceRequest(feed_url=f"http://slow.example/{n}", interval=60.0) for n in range(700)], "ada"
    )
    quick.clock.advance(120)
    quick.add("http://b.example/f")

    async def get(url: str, *, headers: Any = None) -> net.FetchResponse:
        await asyncio.sleep(30 if "slow" in url else 0.1)
        return fetched()

    async def main() -> float:
        poller = quick.poller(get)
        task = asyncio.create_task(poller.run(lambda: False))
        began = quick.clock.monotonic()
        while quick.state(701).last_polled_at is None:  # noqa: ASYNC110 - the database has no event
            await asyncio.sleep(0.5)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return quick.clock.monotonic() - began

    assert quick.clock.run(main()) < 5


def test_after_a_pause_of_ours_the_overdue_are_polled_bit_by_bit(quick: Desk) -> None:
    quick.policy = PollPolicy(paced=True, guard=None)
    quick.sources.add_many(
        [SourceRequest(feed_url=f"http://h{n}.example/f", interval=900.0) for n in range(900)], "ada"
    )
    quick.clock.advance(5 * HOUR)  # all of them are overdue now
    minutes: list[int] = []

    async def main() -> None:
        poller = quick.poller()
        task = asyncio.create_task(poller.run(lambda: False))
        for _ in range(4):
            before = poller.tally.polled
            await asyncio.sleep(60)
            minutes.append(poller.tally.polled - before)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    quick.clock.run(main())
    assert max(minutes) <= 3 * 60  # times the mean: 900 in 15 minutes
    assert min(minutes) >= 100


@pytest.mark.parametrize("how", ["poll now", "a new feed", "another feed of a host that is asked"])
def test_what_somebody_waits_for_is_polled_before_all_that_is_overdue(quick: Desk, how: str) -> None:
    quick.policy = PollPolicy(paced=True, guard=None)
    quick.sources.add_many([SourceRequest(feed_url=f"http://h{n}.example/f") for n in range(2000)], "ada")
    quick.clock.advance(5 * HOUR)

    async def main() -> int:
        poller = quick.poller()
        task = asyncio.create_task(poller.run(lambda: False))
        await asyncio.sleep(30)
        if how == "poll now":
            id_ = quick.sources.poll_now(1900).id
        else:
            host = "new" if how == "a new feed" else "h1500"
            id_ = quick.add(f"http://{host}.example/new").id
        before = poller.tally.polled
        while quick.state(id_).last_polled_at is None:  # noqa: ASYNC110 - the database has no event
            await asyncio.sleep(1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return poller.tally.polled - before

    assert quick.clock.run(main()) < 50


def test_a_look_that_began_before_a_poll_was_recorded_does_not_poll_it_again(quick: Desk) -> None:
    quick.add(URL)
    real, looks, looked, recorded = quick.there.db, [0], asyncio.Event(), asyncio.Event()

    class Slow:
        """The database; the second look at what is due is answered when the poll was recorded."""

        async def aquery_as(self, row: Any, name: str, **params: Any) -> Any:
            found = await real.aquery_as(row, name, **params)
            looks[0] += name == "due"
            if name == "due" and looks[0] == 2:
                looked.set()
                await recorded.wait()
            return found

        async def awrite(self, work: Any) -> Any:
            if not work.__qualname__.startswith(PollResultWriter.__name__):  # maintenance
                return await real.awrite(work)
            await looked.wait()
            found = await real.awrite(work)
            recorded.set()
            return found

        def __getattr__(self, name: str) -> Any:
            return getattr(real, name)

    quick.there.db = Slow()  # type: ignore[assignment]
    tally = quick.poll()
    quick.there.db = real
    assert (tally.polled, tally.dropped, len(quick.asked)) == (1, 0, 1)


def test_while_the_database_takes_nothing_what_was_found_is_kept_and_written_when_it_is_back(
    quick: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    quick.add(URL)
    refusing = "create trigger away before update on feeds_state begin select raise(abort, 'away'); end"
    quick.queue.store.write(lambda tx: tx.execute(refusing))

    async def main() -> PollCounts:
        polling = asyncio.create_task(quick.poller().run(lambda: False, drain=True))
        while len(caplog.records) < 3:  # noqa: ASYNC110 - the log has no event
            await asyncio.sleep(0.1)
        quick.queue.store.write(lambda tx: tx.execute("drop trigger away"))
        return await polling

    tally = quick.clock.run(main())

    assert (tally.polled, len(quick.asked), quick.items()) == (1, 1, ["one", "two"])
    assert [level for level, _ in lines(caplog)] == ["ERROR"] * 3
