"""How full a target says it is: asked only when there is something to send, and never exceeded."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

import pytest

from tests.databases import BOTH, Database
from tests.jobs.gating import Service, play, queue_on, states, working
from tidegate import Again, Backoff, Done, Fail, Target
from tidegate.clock import VirtualClock
from tidegate.guard.capacity import Capacity, FillLevel, QueueDepth
from tidegate.jobs.queue import Queue
from tidegate.targets import table

pytestmark = pytest.mark.parametrize("db", BOTH, indirect=True)


class Lidarr:
    """A service with a queue of its own, in which things become visible late and are worked off slowly."""

    def __init__(self, clock: VirtualClock, *, lag: float = 0.0, works: float = 60.0) -> None:
        self._clock, self._lag, self._works = clock, lag, works
        self.taken: list[float] = []
        self.asked: list[float] = []
        self.order: list[Any] = []
        self.error: BaseException | None = None
        self.most = 0
        self.others = 0  # things that somebody else put there

    def depth(self) -> int:
        now = self._clock.monotonic()
        self.asked.append(round(now, 2))
        if self.error is not None:
            raise self.error
        return self.others + sum(at + self._lag <= now < at + self._lag + self._works for at in self.taken)

    async def adepth(self) -> int:
        await asyncio.sleep(0.2)
        return self.depth()

    def full(self) -> int:
        """How much is really there, visible or not."""
        now = self._clock.monotonic()
        return self.others + sum(now < at + self._lag + self._works for at in self.taken)

    async def submit(self, what: Any, takes: float = 0.1) -> None:
        await asyncio.sleep(takes)
        self.taken.append(self._clock.monotonic())
        self.order.append(what)
        self.most = max(self.most, self.full())


def submitting(q: Queue, lidarr: Lidarr, cap: int = 5, **options: Any) -> Any:
    options.setdefault("depth", lidarr.depth)
    target = Target("lidarr", backoff=None, capacity=Capacity(cap, **options))

    @q.job(queue="lidarr", target=target, key=lambda n: n % 3, name="submit", backoff=Backoff(600, cap=600, jitter=0))
    async def submit(n: int) -> None:
        await lidarr.submit(n)

    return submit


def test_nothing_to_send_is_nothing_to_ask(db: Database) -> None:
    clock = VirtualClock()
    lidarr = Lidarr(clock)
    with queue_on(db, clock) as q:
        submit = submitting(q, lidarr)
        submit.options(due="10m").enqueue(1)

        async def main() -> None:
            async with working(q):
                await asyncio.sleep(300)
                q.target("lidarr").key(1).disable("1h")
                await asyncio.sleep(400)  # due by now, but held: still nothing that could be sent
                assert lidarr.asked == []

        play(clock, main)


@pytest.mark.parametrize("colour", ["depth", "adepth"])
def test_what_is_full_gets_nothing_until_it_has_room(db: Database, colour: str) -> None:
    clock = VirtualClock()
    lidarr = Lidarr(clock)
    lidarr.others = 5
    with queue_on(db, clock) as q:
        submit = submitting(q, lidarr, depth=getattr(lidarr, colour))
        submit.enqueue_many([(1,), (2,), (3,)])

        async def main() -> None:
            async with working(q):
                await asyncio.sleep(100)
                assert lidarr.order == []
                assert len(lidarr.asked) == 4  # at once, and then every 30 s
                lidarr.others = 3
                await asyncio.sleep(35)
                assert len(lidarr.order) == 2

        play(clock, main)
        assert lidarr.most <= 5


@pytest.mark.parametrize(("ask", "questions"), [("each", 10), ("credits", 2)])
def test_it_is_asked_after_every_success_or_only_when_the_credits_end(db: Database, ask: str, questions: int) -> None:
    clock = VirtualClock()
    lidarr = Lidarr(clock, works=10_000)
    with queue_on(db, clock) as q:
        submit = submitting(q, lidarr, cap=9, ask=ask)
        submit.enqueue_many([(each,) for each in range(20)])

        async def main() -> None:
            async with working(q, concurrency=1):
                await asyncio.sleep(20)

        play(clock, main)
        assert len(lidarr.order) == 9
        assert len(lidarr.asked) == questions


@pytest.mark.parametrize("ask", ["each", "credits"])
@pytest.mark.parametrize("lag", [0.0, 45.0])
def test_eight_workers_never_exceed_the_cap(db: Database, ask: str, lag: float) -> None:
    clock = VirtualClock()
    lidarr = Lidarr(clock, lag=lag, works=100)
    queues = [queue_on(db, clock) for _ in range(8)]
    submits = [submitting(q, lidarr, cap=10, depth=lidarr.adepth, ask=ask) for q in queues]
    submits[0].enqueue_many([(each,) for each in range(60)])

    async def main() -> None:
        async with working(*queues, concurrency=5):
            await asyncio.sleep(900)

    play(clock, main)
    assert lidarr.most == 10
    assert len(lidarr.order) >= 30  # and they do get on
    for q in queues:
        q.close()


def test_an_own_send_that_never_shows_counts_for_a_quarter_of_an_hour(db: Database) -> None:
    clock = VirtualClock()
    lidarr = Lidarr(clock, lag=1e9)  # it takes everything and shows nothing
    with queue_on(db, clock) as q:
        submit = submitting(q, lidarr, cap=3)
        submit.enqueue_many([(each,) for each in range(9)])

        async def main() -> None:
            async with working(q):
                await asyncio.sleep(890)
                assert len(lidarr.order) == 3
                await asyncio.sleep(50)
                assert len(lidarr.order) == 6

        play(clock, main)


def test_a_target_that_says_which_jobs_have_landed_is_believed(db: Database) -> None:
    clock = VirtualClock()
    landed: list[int] = []
    with queue_on(db, clock) as q:
        lidarr = Lidarr(clock)
        submit = submitting(q, lidarr, cap=3, depth=lambda: QueueDepth(0, landed))
        jobs = submit.enqueue_many([(each,) for each in range(9)])

        async def main() -> None:
            async with working(q):
                await asyncio.sleep(40)
                assert len(lidarr.order) == 3
                landed.extend(job.id for job in jobs)
                await asyncio.sleep(31)
                assert len(lidarr.order) == 9

        play(clock, main)


def test_what_takes_no_place_there_takes_no_credit(db: Database) -> None:
    clock = VirtualClock()
    lidarr = Lidarr(clock, lag=1e9)

    def albums_only(given: Mapping[str, Any]) -> bool:
        return int(given["n"]) >= 100

    with queue_on(db, clock) as q:
        submit = submitting(q, lidarr, cap=2, counts=albums_only)
        submit.options(priority=1).enqueue_many([(1,), (2,), (3,), (4,), (5,)])
        submit.enqueue_many([(100,), (101,), (102,)])

        async def main() -> None:
            async with working(q, concurrency=1):
                await asyncio.sleep(25)

        play(clock, main)
        assert sorted(n for n in lidarr.order if n < 100) == [1, 2, 3, 4, 5]
        assert len(lidarr.order) == 7


def test_a_rule_that_raises_counts_the_job(db: Database, caplog: pytest.LogCaptureFixture) -> None:
    clock = VirtualClock()
    lidarr = Lidarr(clock, lag=1e9)
    with queue_on(db, clock) as q:
        submit = submitting(q, lidarr, cap=2, counts=lambda given: 1 / 0 > 0)
        submit.enqueue_many([(1,), (2,), (3,)])

        async def main() -> None:
            async with working(q):
                await asyncio.sleep(5)

        with caplog.at_level(logging.CRITICAL, "tidegate"):
            play(clock, main)
        assert len(lidarr.order) == 2


@pytest.mark.parametrize("answer", [ConnectionError("x"), "many", -1, None, True])
def test_a_question_without_an_answer_charges_nobody_and_holds_with_a_reason(db: Database, answer: object) -> None:
    clock = VirtualClock()
    lidarr = Lidarr(clock)

    def depth() -> object:
        lidarr.depth()
        if isinstance(answer, Exception):
            raise answer
        return answer

    with queue_on(db, clock) as q:
        submit = submitting(q, lidarr, depth=depth)
        jobs = submit.enqueue_many([(1,), (2,), (3,)])

        async def main() -> None:
            async with working(q):
                await asyncio.sleep(100)
                why = q.explain(jobs[0])[0]
                assert (why.reason, why.ended_by) == ("capacity", "time")
                assert why.until is not None

        play(clock, main)
        assert [q.get(job).attempt for job in jobs] == [0, 0, 0]
        # 5, 10, 20, then every 30 s
        assert [round(at) for at in lidarr.asked] == [0, 5, 15, 35, 65, 95]


def test_a_job_that_failed_gives_its_place_back(db: Database) -> None:
    clock = VirtualClock()
    service = Service(clock, takes=0, ill=ConnectionError("x"))
    with queue_on(db, clock) as q:
        target = Target("lidarr", backoff=None, capacity=Capacity(2, depth=lambda: 0))

        @q.job(target=target, backoff=Backoff(600, cap=600, jitter=0))
        async def submit(n: int) -> None:
            await service.call(n)

        submit.enqueue_many([(each,) for each in range(10)])

        async def main() -> None:
            async with working(q):
                await asyncio.sleep(5)

        play(clock, main)
        assert len(service.calls) == 10  # a failure of one keeps no other from its turn
        assert states(q) == {"waiting": 10}


def test_what_was_done_without_being_sent_takes_no_place(db: Database) -> None:
    clock = VirtualClock()
    with queue_on(db, clock) as q:

        @q.job(target=Target("lidarr", backoff=None, capacity=Capacity(2, depth=lambda: 0)))
        async def submit(n: int) -> Done[None]:
            return Done(unsent=True)

        submit.enqueue_many([(each,) for each in range(10)])

        async def main() -> None:
            async with working(q):
                await asyncio.sleep(5)

        play(clock, main)
        assert states(q) == {"done": 10}
        row = q.store.read(lambda tx: table.target(tx, "lidarr"))
        assert row is not None
        assert FillLevel.load(row.capacity).own == ()


def test_a_cycle_asks_afresh_goes_on_after_each_success_and_ends_when_full(db: Database) -> None:
    clock = VirtualClock()
    lidarr = Lidarr(clock)
    lidarr.others = 3
    with queue_on(db, clock) as q:
        submit = submitting(q, lidarr, cap=5)
        submit.enqueue_many([(each,) for each in range(10)])

        async def main() -> None:
            first = await q.adrain("lidarr", concurrency=1)
            assert (first.done, first.held, first.remaining) == (2, 8, 8)
            assert len(lidarr.asked) == 3
            lidarr.others, lidarr.taken = 4, []
            second = await q.adrain("lidarr", concurrency=1)  # at once: what the last cycle knew does not count
            assert second.done == 1
            lidarr.error = ConnectionError("x")
            third = await q.adrain("lidarr", concurrency=1)
            assert (third.done, third.remaining) == (0, 7)

        play(clock, main)


def test_a_clock_that_is_set_back_in_a_cycle_does_not_make_it_ask_again_and_again(db: Database) -> None:
    clock = VirtualClock()
    lidarr = Lidarr(clock)

    def depth() -> int:
        if not lidarr.asked:
            clock.step_wall(-300)
        if len(lidarr.asked) == 50:
            clock.step_wall(600)  # or it would never end
        return lidarr.depth()

    with queue_on(db, clock) as q:
        submit = submitting(q, lidarr, cap=5, depth=depth)
        submit.enqueue_many([(each,) for each in range(3)])

        async def main() -> None:
            drained = await q.adrain("lidarr", concurrency=1)
            assert drained.done == 3

        play(clock, main)
    assert len(lidarr.asked) <= 5


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"cap": 0}, ValueError),
        ({"depth": 7}, TypeError),
        ({"ask": "often"}, ValueError),
        ({"own": "soon"}, ValueError),
    ],
)
def test_a_capacity_is_checked_when_it_is_made(db: Database, options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match="Capacity"):
        Capacity(**{"cap": 5, "depth": len, **options})
    with pytest.raises(TypeError, match="capacity"):
        Target("svc", capacity=5)  # type: ignore[arg-type]


@pytest.mark.req("LID-08")
@pytest.mark.parametrize(("attempts", "final"), [(10, False), (1, False), (10, True)])
def test_what_may_have_been_accepted_keeps_its_place_also_when_it_fails_for_good(
    db: Database, attempts: int, final: bool
) -> None:
    clock = VirtualClock()
    lidarr = Lidarr(clock, lag=300, works=6000)
    with queue_on(db, clock) as q:
        target = Target("lidarr", backoff=None, capacity=Capacity(5, depth=lidarr.depth, own=900))

        @q.job(queue="lidarr", target=target, name="submit", attempts=attempts)
        async def submit(n: int) -> None:
            await lidarr.submit(n)
            if n % 2 and final:
                raise Fail("timeout", "The answer was lost.", keep_place=True)
            if n % 2:
                raise Again("1h", keep_place=True, code="timeout", message="The answer was lost.")

        submit.enqueue_many([(each,) for each in range(20)])

        async def main() -> None:
            async with working(q):
                await asyncio.sleep(200)

        play(clock, main)
        assert sorted(lidarr.order) == [0, 1, 2, 3, 4]
