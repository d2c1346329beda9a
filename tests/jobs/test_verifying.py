"""A hook that looks before work is sent again whose answer was lost."""

from __future__ import annotations

import asyncio

import pytest

from tests.jobs.building import Flaky, at_work, work_for, worker
from tidegate.clock import VirtualClock
from tidegate.guard.backoff import Backoff
from tidegate.jobs.context import Context
from tidegate.jobs.job import JobState
from tidegate.jobs.outcome import Done, Fail
from tidegate.jobs.queue import Queue

EVEN = Backoff(10, factor=1, jitter=0, cap=10)


class Service:
    """Keeps what it was sent; its answers may be lost."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.looked = 0

    def send(self, key: str, *, answers: bool = True) -> str:
        self.sent.append(key)
        if not answers:
            raise TimeoutError
        return f"id of {key}"

    def look(self, key: str) -> str | None:
        self.looked += 1
        return f"id of {key}" if key in self.sent else None


@pytest.mark.parametrize("colour", ["async", "def"])
def test_work_whose_answer_was_lost_is_found_instead_of_sent_again(q: Queue, clock: VirtualClock, colour: str) -> None:
    service = Service()

    if colour == "async":

        async def look(n: int, job: Context) -> str | None:
            await asyncio.sleep(1)
            return service.look(job.idempotency_key)
    else:

        def look(n: int, job: Context) -> str | None:  # type: ignore[misc]
            return service.look(job.idempotency_key)

    @q.job(verify=look, backoff=EVEN)
    async def submit(n: int, job: Context) -> str:
        return service.send(job.idempotency_key, answers=False)

    put = submit.enqueue(1)
    clock.run(work_for(60, q))

    assert (len(service.sent), service.looked) == (1, 1)
    assert put.result() == f"id of {service.sent[0]}"


def test_the_first_dispatch_is_not_looked_up(q: Queue, clock: VirtualClock) -> None:
    service = Service()

    @q.job(verify=lambda n, job: service.look(job.idempotency_key))
    async def submit(n: int, job: Context) -> str:
        return service.send(job.idempotency_key)

    submit.enqueue(1)
    clock.run(work_for(10, q))

    assert (len(service.sent), service.looked) == (1, 0)


def test_what_was_not_found_is_sent(q: Queue, clock: VirtualClock) -> None:
    service = Service()

    @q.job(verify=lambda n, job: service.look(job.idempotency_key), backoff=EVEN)
    async def submit(n: int, job: Context) -> str:
        if job.attempt == 1:
            raise ConnectionError("nothing was sent")
        return service.send(job.idempotency_key)

    put = submit.enqueue(1)
    clock.run(work_for(60, q))

    assert (len(service.sent), service.looked) == (1, 1)
    assert q.get(put).state is JobState.DONE


def test_a_person_who_retries_a_failed_job_does_not_send_it_twice(q: Queue, clock: VirtualClock) -> None:
    service = Service()

    @q.job(verify=lambda n, job: service.look(job.idempotency_key), attempts=1)
    async def submit(n: int, job: Context) -> str:
        return service.send(job.idempotency_key, answers=False)

    put = submit.enqueue(1)
    clock.run(work_for(5, q))
    assert q.get(put).state is JobState.FAILED
    assert q.retry(put)
    clock.run(work_for(5, q))

    assert (len(service.sent), service.looked, q.get(put).state) == (1, 1, JobState.DONE)


def test_work_that_was_under_way_when_its_worker_died_is_looked_up(q: Queue, clock: VirtualClock) -> None:
    service = Service()

    @q.job(verify=lambda n, job: service.look(job.idempotency_key))
    async def submit(n: int, job: Context) -> str:
        service.send(job.idempotency_key)
        await asyncio.sleep(1000)
        return ""

    put = submit.enqueue(1)
    flaky = Flaky(q.store)

    async def main() -> None:
        task = asyncio.create_task(worker(q, submit, store=flaky).run(asyncio.Event()))
        await asyncio.sleep(1)
        flaky.away = True  # nothing that it does from now on is heard of
        async with at_work(worker(q, submit)):
            await asyncio.sleep(60)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    clock.run(main())
    assert (len(service.sent), service.looked) == (1, 1)
    assert (q.get(put).state, q.get(put).deaths) == (JobState.DONE, 1)


def test_the_hook_may_say_that_it_is_done_without_a_result_or_can_never_be(q: Queue, clock: VirtualClock) -> None:
    def look(n: int) -> Done[None] | None:
        if n == 1:
            return Done()
        raise Fail("gone", "It was removed meanwhile.")

    @q.job(verify=look, backoff=EVEN)
    async def submit(n: int) -> None:
        raise TimeoutError

    done, failed = submit.enqueue(1), submit.enqueue(2)
    clock.run(work_for(30, q))

    assert (q.get(done).state, q.get(done).result) == (JobState.DONE, None)
    assert (q.get(failed).state, q.get(failed).error_code) == (JobState.FAILED, "gone")


def test_a_hook_gets_a_context_if_it_wants_one_whatever_its_handler_takes(q: Queue, clock: VirtualClock) -> None:
    seen: list[object] = []

    def with_one(n: int, job: Context) -> Done[str]:
        seen.append(("with", n, job.attempt))
        return Done("found")

    def alone(n: int) -> Done[str]:
        seen.append(("alone", n))
        return Done("found")

    @q.job(verify=with_one, backoff=EVEN)
    async def without(n: int) -> str:
        raise TimeoutError

    @q.job(verify=alone, backoff=EVEN)
    async def taking(n: int, job: Context) -> str:
        raise TimeoutError

    put = [without.enqueue(1), taking.enqueue(2)]
    clock.run(work_for(60, q))

    assert seen == [("with", 1, 2), ("alone", 2)]
    assert [each.result() for each in put] == ["found", "found"]
