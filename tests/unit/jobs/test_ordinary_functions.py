"""Jobs are ordinary functions: any parameters, stored by name, with a Context where one is annotated."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import pickle
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Optional, TypedDict

import pytest
from pydantic import BaseModel

import tidegate
from tests.unit.jobs.queueing import rows
from tidegate import Context, Fail, JobCancelled, JobFailed, JobForgotten, Queue
from tidegate.clock import VirtualClock
from tidegate.errors import NotFound, ResultMismatch, TidegateError
from tidegate.jobs import Enqueued, JobFunction
from tidegate.serialization import Serial

if TYPE_CHECKING:
    from tidegate import Context as OnlyForTypeCheckers
    from tidegate.jobs import context as unknown


def send(to: str, subject: str = "hello", *, urgent: bool = False, job: Context) -> list[Any]:
    return [to, subject, urgent, job.attempt]


def nothing() -> list[Any]:
    return []


def by_place(a: int, job: Context, b: int = 2, /, c: int = 3) -> list[Any]:
    return [a, b, c, job.attempt]


def optional_first(job: Context | None, a: int) -> list[Any]:
    return [a, job is not None]


def as_text(a: int, context: "Optional[tidegate.Context]" = None) -> list[Any]:  # noqa: UP037, UP045
    return [a, context is not None]


def unknown_here(a: int, own: unknown.Context) -> list[Any]:
    return [a, own.attempt]


def required_by_name(*, a: int, b: int = 1) -> list[Any]:
    return [a, b]


def options_as_parameters(due: str, priority: int, self: int, connection: str, queue: str, args: int) -> list[Any]:
    return [due, priority, self, connection, queue, args]


async def waits(a: int) -> list[Any]:
    await asyncio.sleep(0)
    return [a]


CASES: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any], dict[str, Any], list[Any]]] = [
    (send, ("ada",), {}, {"to": "ada"}, ["ada", "hello", False, 1]),
    (send, ("ada", "hi"), {"urgent": True}, {"to": "ada", "subject": "hi", "urgent": True}, ["ada", "hi", True, 1]),
    (send, (), {"subject": "hi", "to": "ada"}, {"to": "ada", "subject": "hi"}, ["ada", "hi", False, 1]),
    (nothing, (), {}, {}, []),
    (by_place, (1,), {}, {"a": 1}, [1, 2, 3, 1]),
    (by_place, (1, 5), {"c": 6}, {"a": 1, "b": 5, "c": 6}, [1, 5, 6, 1]),
    (optional_first, (1,), {}, {"a": 1}, [1, True]),
    (as_text, (1,), {}, {"a": 1}, [1, True]),
    (unknown_here, (1,), {}, {"a": 1}, [1, 1]),
    (required_by_name, (), {"a": 4}, {"a": 4}, [4, 1]),
    (
        options_as_parameters,
        ("5m", 1),
        {"self": 2, "connection": "c", "queue": "q", "args": 3},
        {"due": "5m", "priority": 1, "self": 2, "connection": "c", "queue": "q", "args": 3},
        ["5m", 1, 2, "c", "q", 3],
    ),
    (waits, (1,), {}, {"a": 1}, [1]),
]


@pytest.mark.parametrize(("fn", "args", "kwargs", "stored", "result"), CASES)
def test_a_job_takes_what_its_function_takes(
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    stored: dict[str, Any],
    result: list[Any],
    q: Queue,
    clock: VirtualClock,
) -> None:
    job: JobFunction[..., Any] = q.job(fn)
    put = [
        job.enqueue(*args, **kwargs),
        job.options(priority=5).enqueue(*args, **kwargs),
        clock.run(job.aenqueue(*args, **kwargs)),
    ]
    if not kwargs:
        put += [*job.enqueue_many([args]), *clock.run(job.aenqueue_many([args]))]
    if not args:
        put += job.enqueue_many([kwargs])
    q.drain()

    for each in put:
        assert (each.get().args, each.result()) == (stored, result)
        assert list(each.get().args) == [name for name in inspect.signature(fn).parameters if name in stored]
    called = job(*args, **kwargs)
    assert (asyncio.run(called) if inspect.iscoroutine(called) else called) == result


def test_an_alias_of_the_context_must_be_known_when_the_program_runs(q: Queue) -> None:
    def work(a: int, own: OnlyForTypeCheckers) -> None: ...

    with pytest.raises(TypeError, match="'own'"):
        q.job(work)


WRONG: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
    ((), {}, "'to'"),
    (("ada", "hi", True), {}, "too many positional"),
    (("ada",), {"to": "eve"}, "multiple values"),
    (("ada",), {"subjekt": "hi"}, "did you mean 'subject'"),
    (("ada",), {"colour": "red"}, "'colour'.*'to', 'subject', 'urgent'"),
    (("ada",), {"due": "5m"}, r"send\.options\(due=\.\.\.\)"),
    (("ada",), {"job": None}, "'job'.* Context"),
    ((7,), {}, "to: 7"),
    (("ada",), {"urgent": 1}, "urgent: 1"),
]


@pytest.mark.parametrize(("args", "kwargs", "message"), WRONG)
def test_wrong_arguments_are_a_type_error_that_shows_the_signature(
    args: tuple[Any, ...], kwargs: dict[str, Any], message: str, q: Queue
) -> None:
    job: JobFunction[..., Any] = q.job(send)
    bound = job.options(due="5m")
    shown = r"send\(to: str, subject: str = 'hello', \*, urgent: bool = False\): "
    uses: list[Callable[[], object]] = [
        lambda: job.enqueue(*args, **kwargs),
        lambda: bound.enqueue(*args, **kwargs),
        lambda: asyncio.run(job.aenqueue(*args, **kwargs)),
        *([] if kwargs else [lambda: job.enqueue_many([args]), lambda: job.refuse(args, "not_found")]),
        *([] if kwargs else [lambda: q.schedule("0 * * * *", job, args)]),
    ]
    for use in uses:
        with pytest.raises(TypeError, match=shown + ".*" + message):
            use()
    assert rows(q) == 0


def test_a_context_cannot_be_passed(q: Queue) -> None:
    seen: list[Context] = []

    @q.job
    def keep(to: Any, job: Context) -> None:
        seen.append(job)

    keep("ada")
    for use in (
        lambda: keep.enqueue("ada", seen[0]),
        lambda: keep.enqueue(seen[0]),
        lambda: keep("ada", job=seen[0]),
    ):
        with pytest.raises(TypeError, match="keep"):
            use()
    assert rows(q) == 0


@pytest.mark.parametrize("calls", ["ab", b"ab", {"a": 1}, [7], [["ada"]], [None], [(1,), "b"]])
def test_many_jobs_are_tuples_or_dicts(calls: Any, q: Queue) -> None:
    job = q.job(waits)

    with pytest.raises(TypeError, match=r"calls(\[\d\])?: "):
        job.enqueue_many(calls)
    assert rows(q) == 0


def test_many_jobs_are_put_in_together_or_not_at_all(q: Queue) -> None:
    job = q.job(waits)
    with pytest.raises(TypeError, match="a: 'x'"):
        job.enqueue_many([(1,), ("x",)])
    assert rows(q) == 0

    made = job.options(due="5m", priority=7).enqueue_many([(1,), {"a": 2}])
    assert [(each.get().args, each.get().priority) for each in made] == [({"a": 1}, 7), ({"a": 2}, 7)]
    assert job.enqueue_many([]) == []


# -- values ----------------------------------------------------------------------------------------------------------


@dataclass
class Song:
    name: str


class Model(BaseModel):
    n: int


class Shape(TypedDict):
    side: int


def test_each_argument_is_converted_by_its_annotation(q: Queue) -> None:
    @q.job
    def together(song: Song, model: Model, shape: Shape, other: set[int], anything=None) -> list[Any]:  # type: ignore[no-untyped-def]
        return [song.name, model.n, shape["side"], sorted(other), anything]

    @q.job
    def alone(song: Song) -> Song:
        return song

    job = together.enqueue(Song("a"), Model(n=1), {"side": 2}, {3}, anything={"x": [4]})
    one = alone.enqueue(Song("b"))
    q.drain()

    assert job.get().args == {
        "song": {"name": "a"}, "model": {"n": 1}, "shape": {"side": 2}, "other": [3], "anything": {"x": [4]},
    }  # fmt: skip
    assert (job.result(), one.result()) == (["a", 1, 2, [3], {"x": [4]}], Song("b"))


def test_what_is_stored_is_json_whatever_the_values_are(q: Queue) -> None:
    @q.job
    def odd(a: Any, b: Any = None, c: Any = None) -> None: ...

    values = ['quote " and \\', "\ud800", "ü\n", -(2**70), True, None, 1.5, {"k": [1, {"x": None}]}, []]
    for each in values:
        stored = q.row(odd.enqueue(each, b=each, c=each)).args
        assert json.loads(stored) == {"a": each, "b": each, "c": each}


@pytest.mark.parametrize(
    "value", [datetime(2026, 1, 1, tzinfo=UTC), b"x", {1}, Decimal(1), Song("a"), [{"deep": b"x"}]], ids=repr
)
def test_a_value_that_json_would_change_needs_an_annotation(value: Any, q: Queue) -> None:
    @q.job
    def bare(a, b: dict[str, Any] | None = None): ...  # type: ignore[no-untyped-def]

    for call in ((value,), (None, {"inner": value})):
        with pytest.raises(TypeError, match="annotate it with"):
            bare.enqueue(*call)
    assert rows(q) == 0


# -- options ---------------------------------------------------------------------------------------------------------


def test_options_say_where_and_when(q: Queue, clock: VirtualClock) -> None:
    job = q.job(waits)
    parent = job.enqueue(1)
    found = job.options(due="5m", priority=5, after=[parent], queue="slow").enqueue(2).get()

    assert (found.queue, found.priority, found.stage) == ("slow", 5, "blocked")
    assert found.due_at == pytest.approx(clock.now() + 300)
    assert q.drain().done == 1
    clock.advance("6m")
    assert q.drain().done == 1
    with pytest.raises(TypeError, match="colour"):
        job.options(colour=1)  # type: ignore[call-arg]


def test_a_queue_that_only_an_option_names_is_worked_on_and_said_once(
    q: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    job = q.job(waits)
    with caplog.at_level(logging.WARNING, "tidegate"):
        jobs = [job.options(queue="slow").enqueue(n) for n in (1, 2)]
        job.options(queue="default").enqueue(3)

    assert q.drain("slow").done == 2
    assert [each.result() for each in jobs] == [[1], [2]]
    assert [each.getMessage() for each in caplog.records] == ["queue_not_declared queue=slow"]
    with pytest.raises(ValueError, match="queue: ''"):
        job.options(queue="")


def test_queues_that_are_listed_are_worked_on(q: Queue, caplog: pytest.LogCaptureFixture) -> None:
    with Queue(q.url, clock=q.clock, inline=True, queues=["slow"]) as listed:
        job = listed.job(waits)
        job.options(queue="slow").enqueue(1)

        assert listed.queues() == {"default", "slow"}
        assert listed.drain("slow").done == 1
    assert not caplog.records
    with pytest.raises(TypeError, match=r"queues .*\['slow'\]"):
        Queue(q.url, queues="slow")


def uniques(to: str, subject: str = "hello", *, tags: frozenset[str] = frozenset()) -> None: ...


@pytest.mark.parametrize(
    ("unique", "twins", "others"),
    [
        (True, [(("a",), {}), (("a", "hello"), {}), ((), {"to": "a", "tags": frozenset()})], [(("a", "x"), {})]),
        ("to", [(("a",), {}), (("a", "x"), {})], [(("b",), {})]),
        (("to", "subject"), [(("a",), {}), (("a", "hello"), {})], [(("a", "x"), {})]),
        (lambda subject, to: (to, subject), [(("a",), {}), (("a", "hello"), {})], [(("a", "x"), {})]),
        (lambda subject: subject, [(("a",), {}), (("b",), {})], [(("a", "x"), {})]),
        (lambda **given: sorted(given), [(("a",), {}), (("b", "x"), {})], []),
        (lambda: 1, [(("a",), {}), (("b", "x"), {})], []),
    ],
)
def test_what_makes_two_jobs_the_same_is_said_by_name(unique: Any, twins: Any, others: Any, q: Queue) -> None:
    job: JobFunction[..., None] = q.job(unique=unique)(uniques)

    assert len({job.enqueue(*args, **kwargs).id for args, kwargs in twins}) == 1
    assert all(job.enqueue(*args, **kwargs).created for args, kwargs in others)
    assert job.options(unique=None).enqueue("a").created


def test_an_option_gives_one_job_a_unique_of_its_own(q: Queue) -> None:
    job = q.job(waits)
    first = job.options(unique="monthly").enqueue(1)

    assert job.options(unique="monthly").enqueue(2).id == first.id
    assert job.options(unique="yearly").enqueue(1).created
    assert job.enqueue(1).created


def test_true_and_false_as_the_unique_of_one_job_mean_what_they_mean_in_its_declaration(q: Queue) -> None:
    job = q.job(uniques)
    first = job.options(unique=True).enqueue("a")

    assert job.options(unique=True).enqueue("a", "hello").id == first.id
    assert job.options(unique=True).enqueue("b").created
    assert all(job.options(unique=False).enqueue("a").created for _ in range(2))


@pytest.mark.parametrize("after", [None, (), []])
def test_a_job_without_parents_waits_for_none(after: Any, q: Queue) -> None:
    assert q.job(waits).options(after=after).enqueue(1).get().stage == "ready"


@pytest.mark.parametrize("off", [None, False])
def test_without_backoff_the_next_attempt_is_due_at_once(off: Any, q: Queue) -> None:
    @q.job(attempts=3, backoff=off)
    def fails() -> None:
        raise ConnectionRefusedError

    job = fails.enqueue()
    assert (q.drain().again, q.drain().again, q.drain().failed) == (1, 1, 1)
    assert job.get().attempt == 3


# -- a plain call ----------------------------------------------------------------------------------------------------


async def test_a_plain_call_runs_the_function_with_a_local_context_and_writes_nothing(q: Queue) -> None:
    @q.job
    async def work(a: int, job: Context) -> list[Any]:
        await job.save(step=a)
        return [job.id, job.attempt, job.fence, job.retried, job.deadline, dict(job.saved), job.idempotency_key]

    first, second = await work(7), await work(7)
    assert first[:-1] == [0, 1, 1, False, None, {"step": 7}]
    assert first[-1] != second[-1]
    assert rows(q) == 0
    assert list(inspect.signature(work).parameters) == ["a"]


def test_a_function_without_a_context_asks_for_the_current_one(q: Queue) -> None:
    @q.job
    def in_a_thread() -> int:
        return Context.current().id

    @q.job
    async def on_the_loop() -> list[int]:
        own = Context.current().id
        return [own, await asyncio.create_task(later())]

    async def later() -> int:
        return Context.current().id

    jobs = [(in_a_thread.enqueue(), on_the_loop.enqueue()) for _ in range(3)]
    q.drain()

    assert [(a.result(), b.result()) for a, b in jobs] == [(a.id, [b.id, b.id]) for a, b in jobs]
    assert (Context.current().id, Context.current().attempt, in_a_thread()) == (0, 1, 0)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (lambda q, job: q.job(per_code=5), "per_code"),
        (lambda q, job: q.job(target="mail"), "Target('mail')"),
        (lambda q, job: q.job(free_trials="soon"), "free_trials"),
        (lambda q, job: q.job(fail_fast_code="zz"), "fail_fast_code"),
        (lambda q, job: q.schedule("* * * * *", "send"), "'send'"),
        (lambda q, job: q.job(backoff=True), "backoff"),
        (lambda q, job: q.job(backoff=0), "Backoff(0)"),
        (lambda q, job: job.options(after=5.5), "after: 5.5"),
        (lambda q, job: job.enqueue_many(5), "calls"),
        (lambda q, job: job.enqueue_many([()], after_each=[1, 2]), "after_each"),
        (lambda q, job: job.options(connection="x").enqueue(), "connection"),
    ],
)
def test_a_wrong_option_is_named_with_what_is_allowed(q: Queue, wrong: Callable[..., Any], named: str) -> None:
    with pytest.raises((TypeError, ValueError), match=re.escape(named)) as error:
        wrong(q, q.job(nothing))
    assert "must be" in str(error.value) or "; give" in str(error.value)


# -- results ---------------------------------------------------------------------------------------------------------


def test_a_bug_in_a_handler_is_shown_with_its_class_and_line(q: Queue) -> None:
    @q.job(attempts=1)
    def buggy(secret: str) -> None:
        json.loads("{}")["password=" + secret]

    @q.job(attempts=1)
    def silent() -> None:
        raise AssertionError

    job, bare = buggy.enqueue("hunter22"), silent.enqueue()
    q.drain()

    with pytest.raises(JobFailed) as failed:
        job.result()
    line = buggy.kind.handler.__code__.co_firstlineno + 2
    error = failed.value
    assert (error.error_type, error.where) == ("KeyError", f"test_ordinary_functions.py:{line}")
    assert all(each in str(error) for each in (error.error_type, error.where))
    assert not [each for each in ("hunter22", "password") if each in str(error)]
    assert "/" not in str(error)
    with pytest.raises(JobFailed) as failed:
        bare.result()
    assert failed.value.error_type == "AssertionError"
    assert pickle.loads(pickle.dumps(error)).where == error.where


def test_only_an_unknown_exception_has_a_class_and_a_line(q: Queue) -> None:
    @q.job(attempts=1)
    def refused() -> None:
        raise ConnectionRefusedError("no")

    job = refused.enqueue()
    q.drain()

    with pytest.raises(JobFailed) as failed:
        job.result()
    assert (failed.value.code, failed.value.error_type, failed.value.where) == ("network", "", "")


def test_a_stored_result_that_does_not_fit_the_annotation_has_an_error_of_its_own(q: Queue) -> None:
    @q.job(name="count")
    def old() -> Any:
        return {"n": "many", "token": "abc"}

    job = old.enqueue()
    q.drain()
    q.close()
    with Queue(q.url, inline=True) as later:

        @later.job(name="count")
        def new() -> dict[str, int]:
            return {}

        handle: Enqueued[dict[str, int]] = Enqueued(job.id, False, later, Serial(dict[str, int]))
        with pytest.raises(ResultMismatch) as found:
            handle.result()
    error = found.value
    assert (error.job, error.kind, error.expected) == (job.id, "count", "dict[str, int]")
    assert "many" in error.stored
    assert "abc" not in str(error)
    assert isinstance(error, TidegateError)
    assert isinstance(error, ValueError)


def test_a_result_is_the_value_or_says_what_became_of_the_job(q: Queue) -> None:
    @q.job(attempts=1)
    def fails(code: str) -> None:
        raise Fail(code, "No such song.", status=404) if code else ValueError("a bug")

    known, own, bug, gone, stopped = (fails.enqueue(each) for each in ("not_found", "NO_SONG", "", "x1", "x2"))
    q.cancel(stopped)
    q.drain()
    q.forget(gone)

    for job, code, message in (
        (known, "not_found", "No such song."),
        (own, "NO_SONG", "No such song."),
        (bug, "unexpected", None),
    ):
        with pytest.raises(JobFailed) as failed:
            job.result()
        assert (failed.value.job, failed.value.kind, failed.value.code) == (job.id, "default.fails", code)
        assert failed.value.fault.message == (message or failed.value.fault.message)
        assert code in str(failed.value)
    assert known.get().last_status == 404
    with pytest.raises(JobCancelled) as cancelled:
        stopped.result()
    assert cancelled.value.job == stopped.id
    with pytest.raises(JobForgotten) as forgotten:
        gone.result(timeout="1h")
    assert (forgotten.value.job, isinstance(forgotten.value, NotFound)) == (gone.id, True)


def test_a_result_of_none_is_a_result(q: Queue) -> None:
    @q.job
    def quiet() -> None: ...

    job = quiet.enqueue()
    q.drain()
    job.result()
    assert job.get().state == "done"


def test_on_a_running_loop_a_result_names_what_to_await(q: Queue, clock: VirtualClock) -> None:
    job = q.job(waits).enqueue(1)

    async def main() -> None:
        with pytest.raises(RuntimeError, match="aresult"):
            job.result()
        with pytest.raises(TimeoutError, match=r"queued after 20ms"):
            await job.aresult("20ms")

    clock.run(main())


def test_a_result_is_waited_for(q: Queue, clock: VirtualClock) -> None:
    @q.job
    async def slow(a: int) -> int:
        await asyncio.sleep(100)
        return a

    async def main() -> None:
        job = slow.enqueue(7)
        stop = asyncio.Event()
        worker = asyncio.create_task(q.arun_worker(stop=stop))
        with pytest.raises(TimeoutError):
            await job.aresult("10s")
        assert await job.aresult() == 7
        stop.set()
        await worker

    clock.run(main())
