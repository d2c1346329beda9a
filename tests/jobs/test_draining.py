"""One cycle: every job that is there and may go has one turn."""

from __future__ import annotations

import asyncio

import pytest

from tests.jobs.building import Flaky, at_work, work_for, worker
from tests.text import names
from tidegate.clock import VirtualClock
from tidegate.errors import Held
from tidegate.guard.backoff import Backoff
from tidegate.guard.breaker import Breaker
from tidegate.guard.target import Target
from tidegate.jobs.job import JobState
from tidegate.jobs.outcome import Again, Fail
from tidegate.jobs.queue import Queue
from tidegate.jobs.worker_runner import Drained


def test_a_cycle_says_what_it_did(q: Queue, clock: VirtualClock) -> None:
    @q.job(backoff=Backoff(10, jitter=0))
    async def job(what: str) -> None:
        match what:
            case "again":
                raise Again("1m")
            case "fault":
                raise ConnectionError
            case "fail":
                raise Fail("bad_request")
            case "held":
                raise Held("spotify", None, "breaker", clock.now(), clock.now() + 60, 60.0)

    job.enqueue_many([("done",), ("done",), ("again",), ("fault",), ("fail",), ("held",)])
    job.options(due="1h").enqueue("done")

    assert clock.run(q.adrain()) == Drained(done=2, again=2, failed=1, held=1, remaining=4)
    assert clock.run(q.adrain()) == Drained(done=0, again=0, failed=0, held=0, remaining=4)


def test_a_cycle_takes_what_its_own_jobs_set_free(q: Queue, clock: VirtualClock) -> None:
    ran: list[str] = []

    @q.job()
    async def job(name: str) -> None:
        ran.append(name)

    artist = job.enqueue("artist")
    album = job.options(after=[artist]).enqueue("album")
    job.options(after=[album]).enqueue("track")

    assert clock.run(q.adrain()).done == 3
    assert ran == ["artist", "album", "track"]


def test_many_jobs_put_in_at_once_may_each_have_parents_of_their_own(q: Queue, clock: VirtualClock) -> None:
    ran: list[str] = []

    @q.job()
    async def job(name: str) -> None:
        ran.append(name)

    artists = job.options(due="1h").enqueue_many([("first",), ("second",)])
    job.enqueue_many([("of first",), ("of second",), ("of none",)], after_each=[artists[0], [artists[1]], ()])

    assert clock.run(q.adrain()).done == 1
    clock.advance("2h")
    clock.run(q.adrain())
    assert (ran[0], sorted(ran[1:3]), sorted(ran[3:])) == ("of none", ["first", "second"], ["of first", "of second"])
    with pytest.raises(ValueError, match=r"after_each: .*1 .*2"):
        job.enqueue_many([("one",), ("two",)], after_each=[()])


def test_each_job_has_one_turn_in_a_cycle(q: Queue, clock: VirtualClock) -> None:
    turns = 0

    @q.job(attempts=100)
    async def again_at_once(n: int) -> None:
        nonlocal turns
        turns += 1
        raise Again(0, keep_attempt=True)

    put = again_at_once.enqueue(1)
    assert clock.run(q.adrain()) == Drained(done=0, again=1, failed=0, held=0, remaining=1)
    assert clock.run(q.adrain()).again == 1
    assert turns == 2
    assert q.get(put).attempt == 0


def test_what_is_put_in_meanwhile_is_for_the_next_cycle(q: Queue, clock: VirtualClock) -> None:
    @q.job()
    async def breeds(n: int) -> None:
        breeds.enqueue(n + 1)

    breeds.enqueue(1)
    assert clock.run(q.adrain()) == Drained(done=1, again=0, failed=0, held=0, remaining=1)
    assert clock.run(q.adrain()) == Drained(done=1, again=0, failed=0, held=0, remaining=1)


@pytest.mark.parametrize("wait", [0, 30])
def test_what_falls_due_while_a_cycle_lasts_is_for_the_next_one_also_beside_a_worker(
    q: Queue, clock: VirtualClock, wait: float
) -> None:
    ran: list[str] = []

    @q.job(queue="lidarr")
    async def submit(name: str) -> None:
        ran.append(name)
        await asyncio.sleep(10)
        if name == "again":
            raise Again(wait)

    @q.job(queue="mail")
    async def send(n: int) -> None: ...

    q.batch_only("lidarr")
    submit.enqueue("again")
    submit.options(due="20s").enqueue("later")
    submit.enqueue_many([(f"{n}",) for n in range(10)])

    async def main() -> list[Drained]:
        stop = asyncio.Event()
        working = asyncio.create_task(q.arun_worker(stop=stop))  # it makes ready whatever is due
        found = [await q.adrain("lidarr", concurrency=1) for _ in range(2)]
        stop.set()
        await working
        return found

    first, second = clock.run(main())

    assert ran == ["again", *(f"{n}" for n in range(10)), "again", "later"]
    assert first == Drained(done=10, again=1, failed=0, held=0, remaining=2)
    assert second.done == 1


def test_what_stands_before_a_shut_gate_is_held_and_not_touched(q: Queue, clock: VirtualClock) -> None:
    gateway = Target("gateway", breaker=Breaker("gateway", consecutive=2, timeout=60), clock=clock)

    @q.job(queue="pdf", target=gateway, backoff=Backoff(1000, cap=1000, jitter=0))
    async def convert(n: int) -> None:
        raise ConnectionError

    @q.job(queue="other")
    async def other(n: int) -> None: ...

    other.enqueue(1)
    convert.enqueue_many([(each,) for each in range(50)])

    first = clock.run(q.adrain("pdf", concurrency=2))
    assert (first.again, first.held, first.remaining) == (2, 48, 50)
    assert clock.run(q.adrain("pdf")) == Drained(done=0, again=0, failed=0, held=48, remaining=50)
    assert {q.get(id_).fence for id_ in range(5, 50)} == {0}
    assert clock.run(q.adrain("other")) == Drained(done=1, again=0, failed=0, held=0, remaining=0)


def test_a_cycle_takes_back_what_a_dead_worker_left(q: Queue, clock: VirtualClock) -> None:
    ran: list[int] = []

    @q.job()
    async def job(n: int) -> None:
        ran.append(n)
        if len(ran) == 1:
            await asyncio.sleep(1000)

    put = job.enqueue(1)
    flaky = Flaky(q.store)

    async def killed() -> None:
        task = asyncio.create_task(worker(q, job, store=flaky).drain())
        await asyncio.sleep(1)
        flaky.away = True
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    clock.run(killed())
    assert clock.run(q.adrain()).done == 0
    clock.advance("31s")
    assert clock.run(q.adrain()).done == 1
    assert q.get(put).state is JobState.DONE


def test_a_cycle_that_is_cancelled_gives_back_what_it_holds(q: Queue, clock: VirtualClock) -> None:
    @q.job()
    async def job(n: int) -> None:
        await asyncio.sleep(1000)

    job.enqueue_many([(each,) for each in range(3)])

    async def main() -> None:
        task = asyncio.create_task(q.adrain())
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    clock.run(main())
    assert {(q.get(id_).state, q.get(id_).attempt) for id_ in (1, 2, 3)} == {(JobState.QUEUED, 1)}


def test_a_cycle_beside_a_worker_does_every_job_once(q: Queue, clock: VirtualClock) -> None:
    ran: list[int] = []

    @q.job()
    async def job(n: int) -> None:
        ran.append(n)
        await asyncio.sleep(0.5)

    job.enqueue_many([(each,) for each in range(200)])

    async def main() -> None:
        async with at_work(worker(q, job)):
            await q.adrain()
            await asyncio.sleep(10)

    clock.run(main())
    assert sorted(ran) == list(range(200))


def test_a_stop_ends_a_cycle_between_two_jobs(q: Queue, clock: VirtualClock) -> None:
    ran: list[int] = []
    stop = asyncio.Event()

    @q.job()
    async def job(n: int) -> None:
        await asyncio.sleep(5)
        ran.append(n)
        if n == 2:
            stop.set()

    job.enqueue_many([(1,), (2,), (3,), (4,)])

    assert clock.run(q.adrain(concurrency=1, stop=stop)) == Drained(done=2, again=0, failed=0, held=2, remaining=2)
    assert ran == [1, 2]
    assert q.get(3).fence == 0


def test_a_queue_that_is_worked_on_in_cycles_is_left_alone_by_a_worker_and_says_when_it_goes_on(
    q: Queue, clock: VirtualClock
) -> None:
    ran: list[str] = []

    @q.job(queue="lidarr")
    async def submit(n: int) -> None:
        ran.append("lidarr")

    @q.job(queue="mail")
    async def send(n: int) -> None:
        ran.append("mail")

    q.batch_only("lidarr")
    put = submit.enqueue(1)
    send.enqueue(1)
    q.next_cycle("lidarr", clock.now() + 200)
    clock.run(work_for(20, q))
    assert ran == ["mail"]

    stop = asyncio.Event()

    async def look() -> list[str]:
        working = asyncio.create_task(q.arun_worker(stop=stop))
        await asyncio.sleep(10)
        whys = q.explain(put)
        stop.set()
        await working
        return [why.message for why in whys]

    assert [names(each, "lidarr", "2 min 50 s") for each in clock.run(look())] == [True]
    clock.advance(200)
    assert "cycles" not in q.explain(put)[0].message
    with pytest.raises(ValueError, match="'lidarr'"):
        clock.run(q.arun_worker(queues={"lidarr"}))
    assert clock.run(q.adrain("lidarr")).done == 1
    assert ran == ["mail", "lidarr"]
