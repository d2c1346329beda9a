"""Kinds of jobs are declared: everything wrong is said at once, in words."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.jobs.queueing import TARGET, Submission, handler
from tidegate import Context, Queue, Target

if TYPE_CHECKING:
    from somewhere import Unknown  # type: ignore[import-not-found]


WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"queue": ""}, ValueError, "queue: ''"),
    ({"queue": 7}, TypeError, "queue: 7"),
    ({"name": "a\nb"}, ValueError, "name:"),
    ({"target": "lidarr"}, TypeError, "got 'lidarr'"),
    ({"aliases": "old"}, TypeError, r"aliases .* \['old'\]"),
    ({"aliases": [""]}, ValueError, "aliases: ''"),
    ({"aliases": ["default.handler"]}, ValueError, r"aliases: .*'default\.handler'"),
    ({"key": "user"}, TypeError, "key: 'user'.* 'a'"),
    ({"key": 7}, TypeError, "key .* 7"),
    ({"unique": "id"}, TypeError, "unique: 'id'.* 'a'"),
    ({"unique": ("a", "id")}, TypeError, "unique: 'id'.* 'a'"),
    ({"unique": ()}, TypeError, r"unique .* \(\)"),
    ({"unique": lambda a, b: a}, TypeError, "unique: .*'b'.* 'a'"),
    ({"verify": 1}, TypeError, "verify .* 1"),
    ({"while_": {"queued"}}, ValueError, "while_"),
    (
        {"unique": str, "while_": {"waiting"}},
        ValueError,
        "'waiting'.* queued, running, done",
    ),
    ({"unique": str, "while_": set()}, ValueError, "'queued' and 'running'"),
    ({"unique": str, "while_": "queued"}, TypeError, "while_: 'queued'"),
    ({"attempts": 0}, ValueError, "attempts: 0"),
    ({"attempts": 1.5}, ValueError, "attempts: 1.5"),
    ({"attempts": True}, ValueError, "attempts: True"),
    ({"per_code": {"timeout": 0}}, ValueError, "per_code\\['timeout'\\]: 0"),
    ({"per_code": {"": 1}}, ValueError, "per_code: ''"),
    ({"per_code": {404: 1}}, ValueError, "per_code: 404"),
    ({"backoff": 30}, TypeError, r"backoff .* 30; did you mean Backoff\(30\)\?"),
    ({"process": "yes"}, TypeError, "process: 'yes'"),
    ({"cancellable": None}, TypeError, "cancellable: None"),
    ({"expires": "soon"}, ValueError, "expires: 'soon'"),
    ({"expires": 0}, ValueError, "expires: 0"),
]


@pytest.mark.parametrize(("said", "error", "message"), WRONG)
def test_what_is_wrong_about_a_kind_is_said_when_it_is_declared(
    said: dict[str, Any], error: type[Exception], message: str, q: Queue
) -> None:
    with pytest.raises(error, match=message):
        q.job(**said)(handler)
    q.job()(handler)  # and nothing of it stays


def test_an_unknown_setting_of_a_kind_is_a_type_error(q: Queue) -> None:
    with pytest.raises(TypeError, match="retries"):
        q.job(retries=3)  # type: ignore[call-overload]


def any_number(*args: int) -> None: ...
def any_name(a: int, **more: int) -> None: ...
def two_contexts(a: int, job: Context, other: Context) -> None: ...
def of_an_unknown_type(a: Unknown) -> None: ...
def of_a_stranger(a: Exception) -> None: ...
def yields(a: int) -> Iterator[int]:
    yield a


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (any_number, r"\*args.* list"),
        (any_name, r"\*\*more.* dict"),
        (two_contexts, "'job'.*'other'"),
        (of_an_unknown_type, r"'Unknown'.*'a'"),
        (of_a_stranger, "of_a_stranger: a: "),
        (yields, "yields"),
        (7, "7 "),
        (Submission, r"`def`.*`async def`"),
    ],
)
def test_what_cannot_be_a_handler_is_refused(fn: Any, message: str, q: Queue) -> None:
    with pytest.raises(TypeError, match=message):
        q.job()(fn)


def test_a_name_stands_for_one_kind(q: Queue) -> None:
    q.job(queue="a")(handler)
    q.job(queue="b")(handler)
    q.job(queue="a", name="other")(handler)
    with pytest.raises(ValueError, match=r"'a\.handler'"):
        q.job(queue="a")(handler)


def test_a_target_is_one_object(q: Queue) -> None:
    q.job(target=TARGET)(handler)
    q.job(target=TARGET, name="same")(handler)
    with pytest.raises(ValueError, match="'lidarr'"):
        q.job(target=Target("lidarr"), name="twin")(handler)


def test_a_declared_job_is_still_the_function(q: Queue) -> None:
    @q.job()
    async def plain(a: int) -> int:
        """Doubles."""
        return 2 * a

    assert asyncio.run(plain(21)) == 42
    assert (vars(plain)["__name__"], plain.__doc__) == ("plain", "Doubles.")
    assert repr(plain) == "<job default.plain>"


def test_types_that_are_declared_inside_a_function_are_found(q: Queue) -> None:
    @dataclass
    class Inner:
        n: int

    @dataclass
    class Outer:
        inner: Inner

    seen = []

    @q.job()
    async def keep(a: Outer) -> None:
        seen.append(a)

    keep.enqueue(Outer(Inner(1)))
    q.drain()
    assert seen == [Outer(Inner(1))]


def test_a_declaration_needs_no_parentheses(q: Queue) -> None:
    job = q.job(handler)

    assert (job.kind.name, job.enqueue(Submission("artist", 1)).get().kind) == ("default.handler", "default.handler")


def test_a_hook_that_could_never_be_called_is_refused(q: Queue) -> None:
    for hook in (lambda a, job, more: None, lambda more, other: None):
        with pytest.raises(TypeError, match="verify: "):
            q.job(verify=hook)(handler)
