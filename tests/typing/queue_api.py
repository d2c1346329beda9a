"""How the queue is used, for mypy: it runs nothing, and fails the type check when a type gets lost."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NewType, assert_type

from tidegate import Again, Context, Done, Job, Queue, Target, children
from tidegate.children import Limits
from tidegate.jobs import ConfiguredJob, Drained, Enqueued, JobEvent, JobFunction, JobState

LidarrId = NewType("LidarrId", int)
q = Queue("sqlite:///jobs.db")
lidarr = Target("lidarr")


@dataclass
class Submission:
    kind: str
    id: int
    user: str


@q.job(
    queue="lidarr",
    target=lidarr,
    key=lambda a: a.user,
    unique=lambda a: (a.kind, a.id, a.user),
    while_={"queued", "running", "done", "failed"},
    attempts=10,
    per_code={"IO_ERROR": 2},
    expires="1h",
    aliases=["lidarr.send"],
)
async def submit(job: Context, a: Submission) -> LidarrId:
    assert_type(job.attempt, int)
    await job.save(pending="sha")
    if job.cancelled:
        raise Again(delay="5m", keep_attempt=True)
    return LidarrId(a.id)


@q.job
async def without_context(a: Submission) -> str:
    return a.user


@q.job()
def plain(job: Context, /, a: int) -> list[int]:
    job.save_now(n=1)
    return [a]


@q.job(process=Limits(memory_mb=256))
def plain_without_context(a: bytes) -> None:
    return None


@q.job()
async def with_writes(a: int) -> Done[str]:
    return Done("x", writes=[])


@q.job
def plain_with_writes(a: int) -> Done[str]:
    return Done("x")


@q.job()
async def with_a_word_after(a: int) -> Done[str]:
    return Done("x", after=lambda: a + 1)


@q.job()
async def either(a: int) -> str | Done[str] | None:
    return Done("x") if a else None


@q.job
def nothing() -> int:
    return 1


@q.job(attempts=5, unique="to", key=("to", "subject"))
async def send(to: str, subject: str = "hello", *, urgent: bool = False) -> bool:
    return urgent


@q.job(attempts=5)
async def send_with_context(job: Context, to: str, subject: str = "hello", *, urgent: bool = False) -> bool:
    return urgent


@q.job(attempts=5)
async def context_last(to: str, subject: str = "hello", *, urgent: bool = False, job: Context) -> bool:
    return urgent


@q.job
async def context_may_be_none(to: str, *, job: Context | None = None) -> bool:
    return job is None


@q.job
async def context_asked_for(to: str, subject: str = "hello", *, urgent: bool = False) -> bool:
    assert_type(Context.current(), Context)
    return urgent


@q.job
def context_second(to: str, context: Context) -> Done[int]:
    return Done(1)


@q.job
async def context_between(to: str, ctx: Context, subject: str = "hello") -> Done[int] | int:
    return 1


@q.job
def a_job_that_is_a_text(job: str) -> int:
    return 1


assert_type(context_asked_for.enqueue("ada", urgent=True), Enqueued[bool])
context_asked_for.enqueue("ada", urgnt=True)  # type: ignore[call-arg]
assert_type(without_context.enqueue(Submission("artist", 1, "ada")), Enqueued[str])
assert_type(plain.enqueue(1), Enqueued[list[int]])
assert_type(plain_without_context.enqueue(b"x"), Enqueued[None])
assert_type(with_writes.enqueue(1), Enqueued[str])
assert_type(plain_with_writes.enqueue(a=1), Enqueued[str])
assert_type(with_a_word_after.enqueue(1), Enqueued[str])
assert_type(either.enqueue(1), Enqueued[str | None])
assert_type(nothing.enqueue(), Enqueued[int])
assert_type(a_job_that_is_a_text.enqueue("x"), Enqueued[int])

of_one: JobFunction[[Submission], LidarrId] = submit
of_none: JobFunction[[], int] = nothing


async def parameters() -> None:
    """Where the Context comes first, or is not wanted, the parameters of `enqueue` are those of the function."""
    for job in (send, send_with_context):
        assert_type(job.enqueue("ada"), Enqueued[bool])
        assert_type(job.enqueue("ada", "hi", urgent=True), Enqueued[bool])
        assert_type(job.enqueue(to="ada", subject="hi"), Enqueued[bool])
        assert_type(await job.aenqueue("ada", urgent=True), Enqueued[bool])
        assert_type(await job.options(due="5m").aenqueue("ada", urgent=True), Enqueued[bool])
        await job("ada", urgent=True)
        job.enqueue()  # type: ignore[call-arg]
        job.enqueue(7)  # type: ignore[arg-type]
        job.enqueue("ada", urgent="yes")  # type: ignore[arg-type]
        job.enqueue("ada", due="5m")  # type: ignore[call-arg]
        job.options(due="5m").enqueue("ada", colour=1)  # type: ignore[call-arg]
        await job.aenqueue("ada", "hi", True, 1)  # type: ignore[call-arg]
    nothing.enqueue(1)  # type: ignore[call-arg]
    a_job_that_is_a_text.enqueue(1)  # type: ignore[arg-type]


async def context_elsewhere() -> None:
    """A parameter before the Context loses its name. A type cannot leave out a Context by keyword."""
    assert_type(context_second.enqueue("ada"), Enqueued[int])
    assert_type(context_between.enqueue("ada", "hi"), Enqueued[int])
    assert_type(await context_between.aenqueue("ada", subject="hi"), Enqueued[int])
    context_second.enqueue(7)  # type: ignore[arg-type]
    context_between.enqueue("ada", colour=1)  # type: ignore[call-arg]
    assert_type(context_last, JobFunction[..., bool])
    assert_type(context_may_be_none, JobFunction[..., bool])
    assert_type(context_last.enqueue("ada", urgent=True), Enqueued[bool])


async def using() -> None:
    first = submit.options(after=[7], due="5m", priority=3, queue="slow", unique="a", connection=None)
    one = first.enqueue(Submission("artist", 1, "ada"))
    assert_type(one, Enqueued[LidarrId])
    later = submit.options(after=one, due=datetime.now(UTC) + timedelta(hours=1))
    assert_type(await later.aenqueue(Submission("album", 2, "ada")), Enqueued[LidarrId])
    assert_type(submit.enqueue_many([(Submission("album", 3, "ada"),)]), list[Enqueued[LidarrId]])
    assert_type(await later.aenqueue_many([{"a": Submission("album", 3, "ada")}]), list[Enqueued[LidarrId]])
    assert_type(submit.refuse((Submission("album", 4, "ada"),), "not_found"), Enqueued[LidarrId])
    assert_type(plain.enqueue(1).result(timeout="30s"), list[int])
    bound: ConfiguredJob[[Submission], LidarrId] = later
    del bound

    assert_type(one.id, int)
    assert_type(one.created, bool)
    assert_type(one.state(), JobState)
    assert_type(one.result(), LidarrId)
    assert_type(await one.aresult("1m"), LidarrId)
    assert_type(await one.wait("1m"), Job)

    assert_type(q.get(one), Job)
    assert_type(q.get(7).state, JobState)
    assert_type(q.events(one), list[JobEvent])
    assert_type(q.retry(one), bool)
    assert_type(q.forget(one), bool)
    assert_type(q.drain(queue="lidarr"), Drained)
    assert_type(await q.adrain(), Drained)

    submit.enqueue("artist")  # type: ignore[arg-type]
    await submit.aenqueue(7)  # type: ignore[arg-type]
    submit.enqueue_many(["artist"])  # type: ignore[list-item]
    submit.options(due=object())  # type: ignore[arg-type]
    submit.options(after=["artist"])  # type: ignore[list-item]
    submit.options(colour=1)  # type: ignore[call-arg]
    q.job(nonsense=1)  # type: ignore[call-overload]


async def parsed(body: bytes) -> dict[str, int]:
    return {"n": len(body)}


async def in_children() -> None:
    assert_type(await children.run(parsed, b"x", Limits(cpu="5s")), dict[str, int])
    assert_type(children.run_now(len, b"x"), int)
    assert_type(await children.run("package.module:function", {"a": 1}), Any)
    await children.run(parsed, 7)  # type: ignore[arg-type]
