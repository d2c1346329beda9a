"""What a handler does, and what is written of it."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.jobs.building import work_for
from tidegate.clock import VirtualClock
from tidegate.errors import BreakerOpen, Held, StoreBusy
from tidegate.faults.codes import CORE
from tidegate.guard.backoff import Backoff
from tidegate.guard.target import Target
from tidegate.jobs.context import Context
from tidegate.jobs.job import JobState
from tidegate.jobs.outcome import Again, Done, Fail
from tidegate.jobs.queue import Queue
from tidegate.server import WorkerThread
from tidegate.testing import Status, StatusError

EVEN = Backoff(10, cap=1000, factor=2, jitter=0)


def kinds(q: Queue, job: Any) -> list[str]:
    return [event.kind for event in q.events(job)]


def test_a_result_is_kept_as_it_was_returned(q: Queue, clock: VirtualClock) -> None:
    @q.job()
    async def double(n: int) -> dict[str, int]:
        return {"n": 2 * n}

    job = double.enqueue(21)
    clock.run(work_for(1, q))

    assert q.get(job).state is JobState.DONE
    assert job.result() == {"n": 42}
    assert kinds(q, job) == ["queued", "processing", "done"]


def test_a_plain_function_is_a_handler_too(q: Queue, clock: VirtualClock) -> None:
    @q.job()
    def double(n: int, job: Context) -> Done[int]:
        return Done(2 * n + job.attempt)

    job = double.enqueue(1)
    clock.run(work_for(1, q))

    assert job.result() == 3


def test_an_unknown_failure_is_tried_again_by_the_ladder_until_attempts_are_used_up(
    q: Queue, clock: VirtualClock
) -> None:
    begun: list[float] = []

    @q.job(attempts=3, backoff=EVEN)
    async def fails(n: int) -> None:
        begun.append(clock.monotonic())
        raise ConnectionError("nobody there")

    job = fails.enqueue(1)
    clock.run(work_for(100, q))

    assert [round(later - begun[0]) for later in begun] == [0, 10, 30]
    found = q.get(job)
    assert (found.state, found.attempt, found.error_code) == (JobState.FAILED, 3, "network")
    assert kinds(q, job) == ["queued", "processing", "again", "processing", "again", "processing", "failed"]


def test_a_fatal_failure_is_not_tried_again(q: Queue, clock: VirtualClock) -> None:
    @q.job(attempts=9)
    async def refused(n: int) -> None:
        raise StatusError(Status(404))

    job = refused.enqueue(1)
    clock.run(work_for(5, q))

    assert (q.get(job).state, q.get(job).attempt, q.get(job).last_status) == (JobState.FAILED, 1, 404)


def test_retry_after_is_a_lower_bound_of_the_wait(q: Queue, clock: VirtualClock) -> None:
    begun: list[float] = []

    @q.job(attempts=2, backoff=EVEN)
    async def throttled(n: int) -> None:
        begun.append(clock.monotonic())
        raise StatusError(Status(503, headers={"Retry-After": "77"}))

    throttled.enqueue(1)
    clock.run(work_for(200, q))

    assert round(begun[1] - begun[0]) == 77


def test_some_codes_have_fewer_attempts_than_others(q: Queue, clock: VirtualClock) -> None:
    tries = {"timeout": 0, "network": 0}

    @q.job(attempts=5, per_code={"timeout": 2}, backoff=EVEN)
    async def fails(how: str) -> None:
        tries[how] += 1
        raise TimeoutError if how == "timeout" else ConnectionError

    fails.enqueue("timeout")
    fails.enqueue("network")
    clock.run(work_for(1000, q))

    assert tries == {"timeout": 2, "network": 5}


def test_again_comes_when_the_handler_said_and_counts(q: Queue, clock: VirtualClock) -> None:
    begun: list[tuple[float, int]] = []

    @q.job(attempts=3)
    async def later(n: int, job: Context) -> None:
        begun.append((round(clock.monotonic()), job.attempt))
        raise Again("5m")

    job = later.enqueue(1)
    clock.run(work_for(2000, q))

    assert begun == [(0, 1), (300, 2), (600, 3)]
    assert (q.get(job).state, q.get(job).attempt) == (JobState.FAILED, 3)


def test_again_that_keeps_the_attempt_may_be_said_for_ever(q: Queue, clock: VirtualClock) -> None:
    begun = 0

    @q.job(attempts=2)
    async def later(n: int, job: Context) -> None:
        nonlocal begun
        begun += 1
        assert job.attempt == 1
        if begun < 20:
            raise Again("5m", keep_attempt=True)

    job = later.enqueue(1)
    clock.run(work_for(6000, q))

    assert (q.get(job).state, q.get(job).attempt, q.get(job).fence) == (JobState.DONE, 1, 20)


def test_again_by_the_ladder_tells_what_happened_and_what_it_means_for_the_target(
    q: Queue, clock: VirtualClock
) -> None:
    lidarr = Target("lidarr", backoff=None, breaker={"consecutive": 1, "timeout": 60}, clock=clock)
    ill = CORE["overloaded"].fault("test", status=503)

    @q.job(target=lidarr, backoff=EVEN)
    async def submit(n: int) -> None:
        raise Again(ladder=True, code="overloaded", message="It is\0 full.", status=503, fault=ill if n else None)

    job = submit.enqueue(0)
    clock.run(work_for(1, q))

    found = q.get(job)
    assert (found.state, found.attempt, found.last_code, found.last_message) == (
        JobState.QUEUED, 1, "overloaded", "It is full.",
    )  # fmt: skip
    assert round(found.due_at - (found.last_at or 0)) == 10
    assert q.target("lidarr").explain() == []
    submit.enqueue(1)
    clock.run(work_for(1, q))
    assert [why.reason for why in q.target("lidarr").explain()] == ["breaker"]


def test_fail_says_why(q: Queue, clock: VirtualClock) -> None:
    @q.job()
    async def never(n: int) -> None:
        raise Fail("NOT_PDF", "That is\0 no PDF.", status=415)

    job = never.enqueue(1)
    clock.run(work_for(1, q))

    found = q.get(job)
    assert (found.error_code, found.error_message, found.last_status) == ("NOT_PDF", "That is no PDF.", 415)


@pytest.mark.parametrize("grouped", [False, True])
def test_a_handler_that_meets_a_shut_gate_gives_the_job_back_until_it_opens(
    q: Queue, clock: VirtualClock, grouped: bool
) -> None:
    begun: list[float] = []

    @q.job(attempts=1)
    async def held(n: int) -> None:
        begun.append(round(clock.monotonic()))
        if len(begun) == 1:
            shut = BreakerOpen("spotify", None, "breaker", clock.now(), clock.now() + 120, 120.0)
            raise ExceptionGroup("two calls", [shut, shut]) if grouped else shut

    job = held.enqueue(1)
    tally = clock.run(work_for(200, q))

    assert begun == [0, 120]
    assert (q.get(job).state, q.get(job).attempt) == (JobState.DONE, 1)
    assert (tally.given_back, tally.held, tally.done) == (1, 1, 1)


def test_a_gate_that_only_a_person_opens_does_not_make_the_job_spin(q: Queue, clock: VirtualClock) -> None:
    begun = 0

    @q.job()
    async def held(n: int) -> None:
        nonlocal begun
        begun += 1
        raise Held("spotify", 7, "fatal", clock.now(), None, None)

    held.enqueue(1)
    clock.run(work_for(3600, q))

    assert begun == 60


@pytest.mark.parametrize("how", ["exit", "cancel", "store"])
def test_a_handler_that_ends_itself_in_a_strange_way_is_tried_again_by_the_ladder(
    q: Queue, clock: VirtualClock, how: str
) -> None:
    begun: list[float] = []

    @q.job(attempts=3, backoff=EVEN)
    async def strange(n: int) -> None:
        begun.append(round(clock.monotonic()))
        if how == "exit":
            sys.exit(3)
        raise asyncio.CancelledError if how == "cancel" else StoreBusy("locked")

    @q.job()
    async def other(n: int) -> None: ...

    job, beside = strange.enqueue(1), other.enqueue(1)
    clock.run(work_for(100, q))

    assert begun == [0, 10, 30]
    assert (q.get(job).state, q.get(job).error_code) == (JobState.FAILED, "unexpected")
    assert q.get(beside).state is JobState.DONE


def test_a_result_that_cannot_be_stored_fails_the_job(q: Queue, clock: VirtualClock) -> None:
    @q.job()
    async def odd(n: int) -> object:
        return object()

    job = odd.enqueue(1)
    clock.run(work_for(1, q))

    assert (q.get(job).state, q.get(job).error_code) == (JobState.FAILED, "bad_answer")


def test_a_handler_that_returns_what_it_should_raise_is_told_so(q: Queue, clock: VirtualClock) -> None:
    @q.job()
    async def late(n: int) -> object:
        return Again("5m")

    job = late.enqueue(1)
    clock.run(work_for(1, q))

    assert "Again" in (q.get(job).error_message or "")


def test_arguments_that_do_not_fit_any_more_fail_with_a_code_and_can_be_retried(
    q: Queue, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    @dataclass
    class Old:
        name: str

    @dataclass
    class New:
        label: str

    @q.job(name="rename", attempts=5)
    async def rename(a: Old) -> str:
        return a.name

    job = rename.enqueue(Old("hunter2"))
    with Queue(q.url, clock=clock, inline=True) as newer:

        @newer.job(name="rename", attempts=5)
        async def renamed(a: New) -> None: ...

        clock.run(work_for(100, newer))

    failed = q.get(job)
    assert (failed.state, failed.attempt, failed.error_code) == (JobState.FAILED, 0, "arguments_mismatch")
    assert "a: New" in (failed.error_message or "")
    assert "arguments_mismatch kind=rename" in caplog.text
    assert "hunter2" not in caplog.text + (failed.error_message or "")

    assert q.retry(job)
    clock.run(q.adrain())
    assert job.result() == "hunter2"


MISFITS: list[tuple[str, str]] = [
    ('{"to":"ada","n":1,"colour":"red"}', "'colour'"),
    ('{"to":"ada"}', "'n' is required"),
    ('{"to":"ada","n":"1"}', "n does not fit int"),
    ('{"to":"ada","n":1,"job":1}', "'job'"),
    ('["ada",1]', "arguments by name"),
]


@pytest.mark.parametrize(("stored", "reason"), MISFITS)
def test_what_was_stored_is_checked_by_name_and_annotation(
    stored: str, reason: str, q: Queue, clock: VirtualClock
) -> None:
    @q.job(attempts=5)
    async def send(to: str, n: int, urgent: bool = False, *, job: Context) -> None: ...

    put = send.enqueue("ada", 1)
    q.store.write(lambda tx: tx.execute(f"update tg_job set args = '{stored}'"))
    clock.run(q.adrain())

    found = q.get(put)
    assert (found.state, found.error_code) == (JobState.FAILED, "arguments_mismatch")
    assert reason in (found.error_message or "")


def test_a_later_version_may_add_parameters_with_defaults_and_rename_the_function(
    q: Queue, clock: VirtualClock
) -> None:
    @q.job(queue="mail")
    async def send(to: str) -> None: ...

    jobs = [send.enqueue("ada"), send.enqueue(to="bob")]
    with Queue(q.url, clock=clock, inline=True) as newer:

        @newer.job(queue="mail", aliases=["mail.send"], unique="to")
        async def send_mail(to: str, subject: str = "hello", *, job: Context) -> str:
            return f"{subject} {to} {job.attempt}"

        later = send_mail.enqueue("eve", "bye")
        clock.run(newer.adrain())
        assert [newer.get(job).result for job in (*(each.id for each in jobs), later.id)] == [
            "hello ada 1",
            "hello bob 1",
            "bye eve 1",
        ]
        assert [newer.get(job).kind for job in (jobs[0].id, later.id)] == ["mail.send", "mail.send_mail"]
        with pytest.raises(ValueError, match=r"aliases: .*'mail\.send_mail'"):
            newer.job(queue="mail", name="third", aliases=["mail.send_mail"])(send_mail.kind.handler)


def test_a_kind_that_this_worker_does_not_know_waits_for_one_that_does(q: Queue, clock: VirtualClock) -> None:
    @q.job(name="new", attempts=1)
    async def new(n: int) -> None: ...

    job = new.enqueue(1)
    with Queue(q.url, clock=clock, inline=True) as older:

        @older.job(name="old")
        async def old(n: int) -> None: ...

        tally = clock.run(work_for(600, older))
        assert tally.given_back == 4  # at 0, 1, 3 and 7 minutes: it asks less and less often
        assert (q.get(job).state, q.get(job).attempt) == (JobState.QUEUED, 0)

    clock.run(work_for(1000, q))
    assert q.get(job).state is JobState.DONE


def test_a_job_that_is_too_old_is_not_begun(q: Queue, clock: VirtualClock) -> None:
    ran: list[str] = []

    @q.job(expires="10s")
    async def news(name: str) -> None:
        ran.append(name)
        await asyncio.sleep(20)

    first, second = news.enqueue("first"), news.enqueue("second")
    clock.run(work_for(60, q, concurrency=1))

    assert ran == ["first"]
    assert q.get(first).state is JobState.DONE
    assert (q.get(second).state, q.get(second).error_code, q.get(second).attempt) == (JobState.FAILED, "expired", 0)


def test_the_context_tells_what_a_handler_needs_to_know(q: Queue, clock: VirtualClock) -> None:
    seen: list[dict[str, Any]] = []

    @q.job(queue="a", attempts=2, expires="1h", backoff=EVEN)
    async def child(n: int, job: Context) -> None:
        await job.save(step=job.attempt)
        seen.append({
            "attempt": job.attempt, "fence": job.fence, "retried": job.retried, "saved": dict(job.saved),
            "key": job.idempotency_key, "parents": dict(job.parent_results), "id": job.id,
        })  # fmt: skip
        if job.attempt == 1:
            raise ConnectionError

    @q.job(queue="a")
    async def parent(n: int) -> list[int]:
        return [n]

    above = parent.enqueue(5)
    below = child.options(after=[above]).enqueue(1)
    clock.run(work_for(100, q))

    first, second = seen
    assert (first["attempt"], first["fence"], first["retried"]) == (1, 1, False)
    assert (second["attempt"], second["fence"], second["retried"], second["saved"]) == (2, 2, True, {"step": 2})
    assert first["parents"] == second["parents"] == {above.id: [5]}
    assert first["key"] == second["key"] != ""
    assert first["id"] == below.id


def test_what_was_saved_is_there_on_the_next_attempt(q: Queue, clock: VirtualClock) -> None:
    seen: list[dict[str, Any]] = []

    @q.job(attempts=3, backoff=EVEN)
    def resumes(n: int, job: Context) -> None:
        seen.append(dict(job.saved))
        job.save_now(**{f"step{job.attempt}": True})
        raise ConnectionError

    resumes.enqueue(1)
    clock.run(work_for(100, q))

    assert seen == [{}, {"step1": True}, {"step1": True, "step2": True}]


class Odd(BaseException):
    """Of a library that thinks it knows better."""


@pytest.mark.parametrize("colour", ["async", "thread", "subtask"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, GeneratorExit, SystemExit, Odd])
def test_what_ends_programs_ends_only_the_attempt_of_the_handler_that_raises_it(
    tmp_path: Path, colour: str, error: type[BaseException]
) -> None:
    """On a real loop, in a thread of its own as in a server."""
    with Queue(f"sqlite:///{tmp_path / 'q.db'}") as q:

        async def raises() -> None:
            raise error

        if colour == "thread":

            @q.job(name="bad", attempts=1)
            def bad(_: int) -> None:
                raise error
        else:

            @q.job(name="bad", attempts=1)
            async def bad(_: int) -> None:
                await (raises() if colour == "async" else asyncio.create_task(raises()))

        @q.job(name="good")
        async def good(n: int) -> int:
            return n

        job = bad.enqueue(1)
        ended = in_engine(q, lambda: q.get(job).state.final)
        assert (q.get(job).state, q.get(job).error_code, q.get(job).deaths) == (JobState.FAILED, "unexpected", 0)
        assert ended.starts == 1

        after = good.enqueue(2)
        assert in_engine(q, lambda: q.get(after).state.final).starts == 1
        assert after.result() == 2


@pytest.mark.parametrize("how", ["in the handler", "in a thread"])
def test_a_handler_cannot_stop_the_loop_of_its_worker(tmp_path: Path, how: str) -> None:
    with Queue(f"sqlite:///{tmp_path / 'q.db'}") as q:

        @q.job(name="bad", attempts=1)
        async def bad(_: int) -> None:
            loop = asyncio.get_running_loop()
            if how == "in the handler":
                loop.stop()
            else:
                await asyncio.to_thread(loop.call_soon_threadsafe, loop.stop)

        job = bad.enqueue(1)

        assert in_engine(q, lambda: q.get(job).state.final).starts == 1
        assert q.get(job).state is (JobState.FAILED if how == "in the handler" else JobState.DONE)


@pytest.mark.parametrize("all_", [True, False])
@pytest.mark.parametrize("waits", [True, False])
def test_a_handler_that_cancels_all_tasks_ends_at_most_its_own_attempt(tmp_path: Path, all_: bool, waits: bool) -> None:
    with Queue(f"sqlite:///{tmp_path / 'q.db'}") as q:
        began, go_on = threading.Event(), threading.Event()

        @q.job(name="bad", attempts=1)
        async def bad(_: int) -> None:
            assert await asyncio.to_thread(began.wait, 60)
            for task in asyncio.all_tasks():
                if all_ or task is not asyncio.current_task():
                    task.cancel()
            go_on.set()
            if waits:
                await asyncio.sleep(0.1)

        @q.job(name="good", attempts=1)
        async def good(n: int) -> int:
            async with asyncio.timeout(60), asyncio.TaskGroup() as group:
                began.set()
                waiting = group.create_task(asyncio.to_thread(go_on.wait, 60))
            await asyncio.sleep(0.2)
            return n if waiting.result() else 0

        beside, job = good.enqueue(1), bad.enqueue(1)
        ended = in_engine(q, lambda: q.get(job).state.final and q.get(beside).state.final)
        assert ended.starts == 1
        assert q.get(job).state is (JobState.FAILED if all_ and waits else JobState.DONE)
        assert (beside.result(), q.get(beside).attempt) == (1, 1)

        after = [good.enqueue(n) for n in range(30)]
        assert in_engine(q, lambda: all(q.get(each).state.final for each in after)).starts == 1
        assert [each.result() for each in after] == list(range(30))


@pytest.mark.parametrize("end", ["stop", "cancel"])
def test_a_worker_whose_handlers_cancelled_all_tasks_goes_on_until_it_is_stopped(
    q: Queue, clock: VirtualClock, end: str
) -> None:
    spared: set[asyncio.Task[Any] | None] = set()

    @q.job(name="bad")
    async def bad(_: int) -> None:
        for task in asyncio.all_tasks() - spared:
            task.cancel()

    @q.job(name="good")
    async def good(n: int) -> int:
        return n

    async def main() -> None:
        spared.add(asyncio.current_task())
        stop = asyncio.Event()
        worker = asyncio.create_task(q.arun_worker(stop=stop))
        for n in range(5):
            bad.enqueue(n)
            await asyncio.sleep(30)
            job = good.enqueue(n)
            await asyncio.sleep(60)
            assert (q.get(job).state, q.get(job).attempt) == (JobState.DONE, 1)
        if end == "cancel":
            worker.cancel()
            with pytest.raises(asyncio.CancelledError):
                await worker
            return
        stop.set()
        assert (await worker).done == 10
        assert worker.cancelling() == 0

    clock.run(main())


@dataclass
class Ran:
    starts: int = 0


def in_engine(q: Queue, over: Callable[[], bool]) -> Ran:
    """Works on a thread and a loop of its own, as a server does, until it is over; says how often it had to begin."""
    ran = Ran()

    async def work(stop: asyncio.Event) -> None:
        ran.starts += 1
        await q.arun_worker(stop=stop, grace=1)

    engine = WorkerThread(work, restart_seconds=0.1)
    engine.start()
    try:
        end = time.monotonic() + 60
        while not over() and time.monotonic() < end:
            time.sleep(0.02)
    finally:
        engine.ask()
        assert engine.join(60)
    return ran
