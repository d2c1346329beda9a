"""Declaring a kind of job: everything that is said about it is checked before the first one is put in."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Hashable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

from tidegate.core.backoff import Backoff
from tidegate.core.checks import valid_code, valid_name, whole
from tidegate.core.codes import CORE
from tidegate.core.duration import Duration, seconds
from tidegate.core.job import DEFAULT_ATTEMPTS, DEFAULT_CRASHES, while_mask
from tidegate.core.serial import MOST, Serial, encode
from tidegate.face.job_function import Intake, JobFunction
from tidegate.face.target import Target
from tidegate.machine.lifecycle import JOB_BACKOFF, WORKER_LOST, Done, KindPolicy
from tidegate.runtime.children import DEFAULT, Limits, place_of
from tidegate.runtime.context import Context
from tidegate.runtime.job_gates import FAIL_FAST
from tidegate.runtime.job_kinds import JobKind
from tidegate.runtime.signatures import Signature, signature_of, verify_takes_context

if TYPE_CHECKING:
    from tidegate.face.queue import Queue

A = TypeVar("A")
R = TypeVar("R")


class Declare(Protocol):
    """What `q.job(...)` gives: it turns a handler into a job, and keeps the types of both."""

    @overload
    def __call__(self, fn: Callable[[A, Context], Coroutine[Any, Any, Done[R]]], /) -> JobFunction[A, R]: ...
    @overload
    def __call__(self, fn: Callable[[A, Context], Coroutine[Any, Any, R | Done[R]]], /) -> JobFunction[A, R]: ...
    @overload
    def __call__(self, fn: Callable[[A], Coroutine[Any, Any, Done[R]]], /) -> JobFunction[A, R]: ...
    @overload
    def __call__(self, fn: Callable[[A], Coroutine[Any, Any, R | Done[R]]], /) -> JobFunction[A, R]: ...
    @overload
    def __call__(self, fn: Callable[[A, Context], Done[R]], /) -> JobFunction[A, R]: ...
    @overload
    def __call__(self, fn: Callable[[A, Context], R | Done[R]], /) -> JobFunction[A, R]: ...
    @overload
    def __call__(self, fn: Callable[[A], Done[R]], /) -> JobFunction[A, R]: ...
    @overload
    def __call__(self, fn: Callable[[A], R | Done[R]], /) -> JobFunction[A, R]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """All that can be said of a kind; see `Queue.job`."""

    queue: str = "default"
    name: str | None = None
    target: Target | None = None
    key: Callable[[Any], Hashable] | None = None
    unique: Callable[[Any], Hashable] | None = None
    while_: AbstractSet[str] | None = None
    attempts: int = DEFAULT_ATTEMPTS
    per_code: Mapping[str, int] = field(default_factory=dict)
    backoff: Backoff | None = None
    verify: Callable[..., Any] | None = None
    process: bool | Limits = False
    expires: Duration | None = None
    cancellable: bool = True
    fail_fast_code: str = FAIL_FAST
    lost_code: str = WORKER_LOST
    max_crashes: int = DEFAULT_CRASHES

    def __post_init__(self) -> None:
        valid_name(self.queue, field="queue")
        if self.name is not None:
            valid_name(self.name, field="name")
        if self.target is not None and not isinstance(self.target, Target):
            raise TypeError(f"target: {self.target!r:.60} is no Target")
        if self.backoff is not None and not isinstance(self.backoff, Backoff):
            raise TypeError(f"backoff: {self.backoff!r:.60} is no Backoff")
        for what in ("key", "unique", "verify"):
            if getattr(self, what) is not None and not callable(getattr(self, what)):
                raise TypeError(f"{what}: {getattr(self, what)!r:.60} is no function")
        for what, kinds, allowed in (
            ("process", (bool, Limits), "True, False or Limits(...)"),
            ("cancellable", (bool,), "True or False"),
        ):
            if not isinstance(getattr(self, what), kinds):
                raise TypeError(f"{what}: {getattr(self, what)!r:.60} is not allowed; give {allowed}")
        if self.while_ is not None and self.unique is None:
            raise ValueError("while_: it says how long a unique is held; give unique, too")
        pack = None if self.target is None else self.target.for_jobs().pack
        for what in ("fail_fast_code", "lost_code"):
            if getattr(self, what) not in (CORE if pack is None else pack.book):
                raise ValueError(f"{what}: there is no code {getattr(self, what)!r} in the book of the target")
        whole(self.max_crashes, field="max_crashes", most=1000)
        if isinstance(self.while_, str):
            raise TypeError(f"while_: {self.while_!r} is a text; give a set of states, such as {{{self.while_!r}}}")

    def policy(self) -> KindPolicy:
        per_code = {
            valid_code(code, field="per_code"): whole(most, field=f"per_code[{code!r}]", most=1000)
            for code, most in self.per_code.items()
        }
        attempts = whole(self.attempts, field="attempts", most=1000)
        return KindPolicy(attempts=attempts, per_code=per_code, backoff=self.backoff or JOB_BACKOFF)

    def intake(self, signature: Signature, most: int) -> Intake:
        held = {"queued", "running"} if self.while_ is None else set(self.while_)
        return Intake(
            arguments=signature.arguments,
            result=signature.result,
            key=self.key,
            unique=self.unique,
            unique_while=while_mask(held),
            expires=None if self.expires is None else seconds(self.expires, field="expires", least=0.001),
            most=most,
        )

    def declared(self, queue: Queue, fn: Callable[..., Any], scope: Mapping[str, Any]) -> JobFunction[Any, Any]:
        """The job that *fn* is from now on."""
        signature = signature_of(fn, scope)
        kind = JobKind(
            name=valid_name(self.name or f"{self.queue}.{fn.__name__}", field="name"),
            queue=self.queue,
            handler=fn,
            decode=signature.arguments.decode,
            encode_result=partial(_encode_result, signature.result),
            takes_context=signature.takes_context,
            colour="process" if self.process else "async" if signature.is_async else "thread",
            policy=self.policy(),
            target="" if self.target is None else self.target.name,
            verify=self.verify,
            verify_takes_context=(
                None if self.verify is None else verify_takes_context(self.verify, signature.takes_context)
            ),
            place=place_of(fn) if self.process else "",
            limits=self.process if isinstance(self.process, Limits) else DEFAULT,
            cancellable=self.cancellable,
            fail_fast_code=self.fail_fast_code,
            lost_code=self.lost_code,
            max_crashes=self.max_crashes,
        )
        return JobFunction(queue, kind, self.intake(signature, queue.most_args))


def _encode_result(serial: Serial, result: Any) -> str | None:
    if result is None:
        return None
    try:
        return serial.encode(result, what="result", most=MOST)
    except TypeError:  # other than announced, and the work is done: kept if JSON can hold it at all
        return encode(result, what="result", most=MOST)
