"""The bus: per-user delivery, bounded, and never in the way of whoever publishes."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from typing import Any

import pytest

import tidegate
from tidegate import Target
from tidegate.events import Bus, Event, EventKind
from tidegate.guard import Tuning
from tidegate.testing import VirtualClock


def event(user: Any = None, number: int = 0) -> Event:
    return Event(kind=EventKind.CALL_FAILED, at=0.0, target="spotify", key=user, user=user, fields={"number": number})


def numbers(events: list[Event]) -> list[int]:
    return [each.fields["number"] for each in events]


@pytest.mark.req("SYNC-13")
def test_each_user_gets_their_own_events_and_everybody_gets_all() -> None:
    bus = Bus()
    with bus.subscribe(7) as seven, bus.subscribe(7) as tab, bus.subscribe(8) as eight, bus.subscribe() as everybody:
        bus.publish(event(7, 1))
        bus.publish(event(8, 2))
        bus.publish(event(None, 3))

        assert [numbers(each.drain()) for each in (seven, tab, eight, everybody)] == [[1], [1], [2], [1, 2, 3]]


@pytest.mark.req("SYNC-13")
def test_a_user_is_who_the_target_says_belongs_to_the_key() -> None:
    bus = Bus()

    def first(key: Any) -> str:
        return str(key[0])

    target = Target("feeds", user=first, clock=VirtualClock(), self_guard=False, tuning=Tuning(bus=bus))
    with bus.subscribe("anna") as anna, bus.subscribe("ben") as ben:
        for key in (("anna", 1), ("ben", 2), ("anna", 3)):
            target.key(key).clear()

        assert [each.key for each in anna.drain()] == [("anna", 1), ("anna", 3)]
        assert [each.key for each in ben.drain()] == [("ben", 2)]


@pytest.mark.req("SYNC-13")
def test_a_slow_subscriber_loses_its_oldest_events_and_knows_how_many() -> None:
    bus = Bus()
    with bus.subscribe(7, limit=3) as slow, bus.subscribe(7, limit=100) as quick:
        for number in range(10):
            bus.publish(event(7, number))

        assert (numbers(slow.drain()), slow.dropped) == ([7, 8, 9], 7)
        assert (len(quick.drain()), quick.dropped) == (10, 0)


@pytest.mark.req("SYNC-13")
def test_publishing_takes_no_longer_for_a_subscriber_that_never_reads() -> None:
    bus = Bus()
    with bus.subscribe(7, limit=10) as never_reads:
        for number in range(20_000):  # it would wait here for ever
            bus.publish(event(7, number))
        assert (len(never_reads.drain()), never_reads.dropped) == (10, 19_990)


@pytest.mark.req("SYNC-13")
def test_nothing_is_delivered_before_or_after_the_block() -> None:
    bus = Bus()
    subscription = bus.subscribe(7)
    bus.publish(event(7, 1))
    with subscription:
        bus.publish(event(7, 2))
    bus.publish(event(7, 3))

    assert numbers(list(subscription)) == [2]
    assert bus.subscribers == 0


@pytest.mark.req("SYNC-13")
def test_a_subscriber_that_is_gone_without_a_word_leaves_nothing_behind() -> None:
    bus = Bus()
    for user in range(5000):
        bus.subscribe(user).__enter__()
    gone = weakref.ref(bus.subscribe("last").__enter__())
    gc.collect()

    assert gone() is None
    assert bus.subscribers == 0
    bus.publish(event(7))


@pytest.mark.req("SYNC-13")
def test_subscribers_that_go_without_a_word_do_not_pile_up_either() -> None:
    import tracemalloc

    bus = Bus()

    def come_and_go(times: int) -> int:
        for user in range(times):
            bus.subscribe(("user", times, user)).__enter__()
        return tracemalloc.get_traced_memory()[0]

    gc.collect()
    tracemalloc.start()
    try:
        come_and_go(1000)
        before = come_and_go(1001)
        after = come_and_go(5000)
    finally:
        tracemalloc.stop()
    assert after - before < 200_000


@pytest.mark.req("SYNC-13")
def test_a_thread_waits_for_the_next_event_and_ends_when_it_is_closed() -> None:
    bus, found = Bus(), list[int]()
    with bus.subscribe(7) as subscription:
        reader = threading.Thread(target=lambda: found.extend(each.fields["number"] for each in subscription))
        reader.start()
        for number in range(100):
            bus.publish(event(7, number))
    reader.join(60)

    assert not reader.is_alive()
    assert found == list(range(100))


@pytest.mark.req("SYNC-13")
def test_tasks_of_two_loops_and_a_thread_that_publishes_lose_nothing() -> None:
    bus, total = Bus(), 500
    ready = threading.Barrier(3)
    found: dict[int, list[int]] = {1: [], 2: []}

    async def read(name: int) -> None:
        with bus.subscribe(7, limit=total) as subscription:
            await asyncio.to_thread(ready.wait)
            async for each in subscription:
                found[name].append(each.fields["number"])
                if len(found[name]) == total:
                    return

    loops = [threading.Thread(target=lambda name=name: asyncio.run(read(name))) for name in found]
    for loop in loops:
        loop.start()
    ready.wait()
    for number in range(total):
        bus.publish(event(7, number))
    for loop in loops:
        loop.join(60)
    assert found == {1: list(range(total)), 2: list(range(total))}


@pytest.mark.req("SYNC-13")
def test_two_tasks_may_share_one_subscription() -> None:
    bus, found = Bus(), list[int]()

    async def main() -> None:
        with bus.subscribe(7) as subscription:

            async def read() -> None:
                async for each in subscription:
                    found.append(each.fields["number"])

            tasks = [asyncio.create_task(read()) for _ in range(2)]
            await asyncio.sleep(0)
            for number in range(10):
                bus.publish(event(7, number))
                await asyncio.sleep(0)
            subscription.close()
            await asyncio.wait_for(asyncio.gather(*tasks), 60)

    asyncio.run(main())
    assert sorted(found) == list(range(10))


@pytest.mark.req("SYNC-13")
def test_a_loop_that_is_gone_does_not_stop_a_publisher() -> None:
    bus = Bus()
    with bus.subscribe(7) as subscription:
        loop = asyncio.new_event_loop()
        waiting = loop.create_task(anext(subscription))
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
        bus.publish(event(7, 1))

        assert numbers(subscription.drain()) == [1]
    with pytest.raises(RuntimeError, match="closed"):
        waiting.cancel()
    waiting.get_coro().close()


@pytest.mark.req("SYNC-13")
def test_a_cancelled_reader_leaves_the_event_to_the_next_one() -> None:
    bus = Bus()

    async def main() -> list[int]:
        with bus.subscribe(7) as subscription:
            reader = asyncio.create_task(anext(subscription))
            await asyncio.sleep(0)
            reader.cancel()
            bus.publish(event(7, 1))
            await asyncio.gather(reader, return_exceptions=True)
            return [(await anext(subscription)).fields["number"]]

    assert asyncio.run(main()) == [1]


def test_a_sink_that_raises_harms_neither_the_call_nor_the_other_sinks(caplog: pytest.LogCaptureFixture) -> None:
    bus, heard = Bus(), list[Event]()

    def broken(each: Event) -> None:
        raise RuntimeError("full disk")

    bus.attach(broken)
    bus.attach(heard.append)
    bus.attach(heard.append)
    bus.publish(event(7))
    assert len(heard) == 1
    assert [record.getMessage() for record in caplog.records] == ["sink_raised event=call_failed"]
    bus.detach(broken)
    bus.detach(heard.append)
    bus.publish(event(7))
    assert len(heard) == 1


@pytest.mark.parametrize("most", [0, -1, True, 2.5])
def test_a_buffer_has_room_for_one_event_at_least(most: Any) -> None:
    with pytest.raises(ValueError, match=r"^limit: "):
        Bus().subscribe(7, limit=most)


def test_the_public_subscribe_hears_the_bus_that_targets_use_by_default() -> None:
    target = Target("spotify", clock=VirtualClock(), self_guard=False)
    with tidegate.subscribe(user=7) as events:
        target.key(7).clear()
        assert [each.kind for each in events.drain()] == ["target_cleared"]
