"""How the queue is used, for mypy: it runs nothing, and fails the type check when a type gets lost."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NewType, assert_type

from tidegate import (
    Again,
    Context,
    Done,
    Drained,
    Enqueued,
    Job,
    JobEvent,
    JobFunction,
    JobState,
    Queue,
    Target,
    children,
)
from tidegate.children import Limits

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
)
async def submit(a: Submission, job: Context) -> LidarrId:
    assert_type(job.attempt, int)
    await job.save(pending="sha")
    if job.cancelled:
        raise Again(delay="5m", keep_attempt=True)
    return LidarrId(a.id)


@q.job()
async def without_context(a: Submission) -> str:
    return a.user


@q.job()
def plain(a: int, job: Context) -> list[int]:
    job.save_now(n=1)
    return [a]


@q.job(process=Limits(memory_mb=256))
def plain_without_context(a: bytes) -> None:
    return None


@q.job()
async def with_writes(a: int, job: Context) -> Done[str]:
    return Done("x", writes=[])


@q.job()
def plain_with_writes(a: int) -> Done[str]:
    return Done("x")


@q.job()
async def with_a_word_after(a: int) -> Done[str]:
    return Done("x", after=lambda: a + 1)


@q.job()
async def either(a: int) -> str | Done[str] | None:
    return Done("x") if a else None


assert_type(submit, JobFunction[Submission, LidarrId])
assert_type(without_context, JobFunction[Submission, str])
assert_type(plain, JobFunction[int, list[int]])
assert_type(plain_without_context, JobFunction[bytes, None])
assert_type(with_writes, JobFunction[int, str])
assert_type(plain_with_writes, JobFunction[int, str])
assert_type(with_a_word_after, JobFunction[int, str])
assert_type(either, JobFunction[int, str | None])


async def using() -> None:
    one = submit.enqueue(Submission("artist", 1, "ada"), after=[7], due="5m", priority=3)
    assert_type(one, Enqueued[LidarrId])
    two = await submit.aenqueue(Submission("album", 2, "ada"), after=one, due=datetime.now(UTC) + timedelta(hours=1))
    assert_type(two, Enqueued[LidarrId])
    assert_type(submit.enqueue_many([Submission("album", 3, "ada")]), list[Enqueued[LidarrId]])
    assert_type(submit.refuse(Submission("album", 4, "ada"), "not_found"), Enqueued[LidarrId])
    assert_type(plain.enqueue(1).result(), list[int] | None)

    assert_type(one.id, int)
    assert_type(one.created, bool)
    assert_type(one.state(), JobState)
    assert_type(one.result(), LidarrId | None)
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
    submit.enqueue(Submission("artist", 1, "ada"), due=object())  # type: ignore[arg-type]
    submit.enqueue(Submission("artist", 1, "ada"), after=["artist"])  # type: ignore[list-item]
    q.job(nonsense=1)  # type: ignore[call-arg]


def many_arguments(a: int, b: int, c: int) -> None: ...


q.job()(many_arguments)  # type: ignore[arg-type]


async def parsed(body: bytes) -> dict[str, int]:
    return {"n": len(body)}


async def in_children() -> None:
    assert_type(await children.run(parsed, b"x", Limits(cpu="5s")), dict[str, int])
    assert_type(children.run_now(len, b"x"), int)
    assert_type(await children.run("package.module:function", {"a": 1}), Any)
    await children.run(parsed, 7)  # type: ignore[arg-type]
