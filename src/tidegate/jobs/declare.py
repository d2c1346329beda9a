"""Job declarations: options, retention and the types of job functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Hashable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, Protocol, TypeVar, overload

from tidegate.children.pool import DEFAULT, Limits, place_of
from tidegate.durations import Duration, seconds
from tidegate.faults.codes import CORE
from tidegate.guard.backoff import Backoff
from tidegate.guard.target import Target
from tidegate.jobs.context import Context
from tidegate.jobs.function import JobFunction, JobInserter, JobKind
from tidegate.jobs.gates import FAIL_FAST
from tidegate.jobs.job import DEFAULT_ATTEMPTS, DEFAULT_CRASHES, JobState, StoredState, while_mask
from tidegate.jobs.outcome import FREE_TRIALS, JOB_BACKOFF, WORKER_LOST, Done, KindPolicy
from tidegate.serialization import MAX_BYTES, Serial, encode
from tidegate.serialization.arguments import Hook, Parameters, Signature, hook_of, signature_of, values_of, verify_hook
from tidegate.validation import did_you_mean, valid_code, valid_name, whole

if TYPE_CHECKING:
    from tidegate.jobs.queue import Queue


# -- retention -------------------------------------------------------------------------------------------------------

ANY = "*"  # every queue that has no entry
_FINAL = tuple(str(state) for state in JobState if state.final)


def retention_of(said: Mapping[str, Mapping[str, Duration]] | None) -> dict[str, dict[StoredState, float]]:
    """Seconds by queue ("*": all others) and state. Raises ValueError for a non-final state or a bad duration."""
    if not (said is None or isinstance(said, Mapping)):
        raise TypeError(
            f"retention must be a dict by queue or None, got {said!r:.60}; did you mean {{'*': {{'done': '7d'}}}}?"
        )
    retention: dict[str, dict[StoredState, float]] = {}
    for queue, durations in (said or {}).items():
        if queue != ANY:
            valid_name(queue, field="retention")
        if not isinstance(durations, Mapping):
            raise TypeError(
                f"retention[{queue!r}]: {durations!r:.60} is no mapping; give {{'done': '7d', 'failed': '30d'}}"
            )
        unknown = [state for state in durations if state not in _FINAL]
        if unknown:
            raise ValueError(
                f"retention[{queue!r}]: {unknown[0]!r} is no state that a job ends in; give some of: "
                + ", ".join(_FINAL)
                + did_you_mean(unknown[0], _FINAL)
            )
        retention[queue] = {
            StoredState(state): seconds(time, field=f"retention[{queue!r}][{str(state)!r}]")
            for state, time in durations.items()
        }
    return retention


# -- types of job functions ------------------------------------------------------------------------------------------

R = TypeVar("R")
Out_co = TypeVar("Out_co", covariant=True)
# Selects values from the arguments: a parameter's name, several names, or a function of arguments.
Key = str | tuple[str, ...] | Callable[..., Hashable]


class KeywordContext0(Protocol[Out_co]):
    """A function that takes the Context by keyword only. The type system cannot remove such a parameter.

    There is one class for each number of other required parameters, because mypy does not infer through their union.
    """

    def __call__(self, *, job: Context) -> Out_co: ...


class KeywordContext1(Protocol[Out_co]):
    """As `KeywordContext0`, with one required parameter."""

    def __call__(self, a: Any, /, *, job: Context) -> Out_co: ...


class KeywordContext2(Protocol[Out_co]):
    """As `KeywordContext0`, with two required parameters."""

    def __call__(self, a: Any, b: Any, /, *, job: Context) -> Out_co: ...


class KeywordContext3(Protocol[Out_co]):
    """As `KeywordContext0`, with three required parameters."""

    def __call__(self, a: Any, b: Any, c: Any, /, *, job: Context) -> Out_co: ...


# The return types of an `async def`: a `Done`, or a value or a `Done` of it.
AsyncDone = Coroutine[Any, Any, Done[R]]
AsyncValue = Coroutine[Any, Any, R | Done[R]]


# -- options ---------------------------------------------------------------------------------------------------------

P = ParamSpec("P")
A = TypeVar("A")


class JobDecorator(Protocol):
    """The decorator that `q.job(...)` returns.

    Type checkers know the parameters of `enqueue` if the Context comes first or is absent. A parameter before the
    Context loses its name. A keyword-only Context called `job` hides all parameters, up to three required ones. They
    ask callers for any other Context: ParamSpec cannot drop a parameter that is not first.
    """

    @overload
    def __call__(self, fn: Callable[Concatenate[Context, P], AsyncDone[R]], /) -> JobFunction[P, R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[Context, P], AsyncValue[R]], /) -> JobFunction[P, R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[Context, P], Done[R]], /) -> JobFunction[P, R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[Context, P], R | Done[R]], /) -> JobFunction[P, R]: ...
    @overload
    def __call__(
        self, fn: Callable[Concatenate[A, Context, P], AsyncDone[R]], /
    ) -> JobFunction[Concatenate[A, P], R]: ...
    @overload
    def __call__(
        self, fn: Callable[Concatenate[A, Context, P], AsyncValue[R]], /
    ) -> JobFunction[Concatenate[A, P], R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[A, Context, P], Done[R]], /) -> JobFunction[Concatenate[A, P], R]: ...
    @overload
    def __call__(
        self, fn: Callable[Concatenate[A, Context, P], R | Done[R]], /
    ) -> JobFunction[Concatenate[A, P], R]: ...
    @overload
    def __call__(self, fn: KeywordContext0[AsyncDone[R]], /) -> JobFunction[..., R]: ...
    @overload
    def __call__(self, fn: KeywordContext0[AsyncValue[R]], /) -> JobFunction[..., R]: ...
    @overload
    def __call__(self, fn: KeywordContext0[Done[R]], /) -> JobFunction[..., R]: ...
    @overload
    def __call__(self, fn: KeywordContext0[R | Done[R]], /) -> JobFunction[..., R]: ...
    @overload
    def __call__(self, fn: KeywordContext1[AsyncDone[R]], /) -> JobFunction[..., R]: ...
    @overload
    def __call__(self, fn: KeywordContext1[AsyncValue[R]], /) -> JobFunction[..., R]: ...
    @overload
    def __call__(self, fn: KeywordContext1[Done[R]], /) -> JobFunction[..., R]: ...
    @overload
    def __call__(self, fn: KeywordContext1[R | Done[R]], /) -> JobFunction[..., R]: ...
    @overload
    def __call__(self, fn: KeywordContext2[AsyncDone[R]], /) -> JobFunction[..., R]: ...
    @overload
    def __call__(self, fn: KeywordContext2[AsyncValue[R]], /) -> JobFunction[..., R]: ...
    @overload
    def __call__(self, fn: KeywordContext2[Done[R]], /) -> JobFunction[..., R]: ...
    @overload
    def __call__(self, fn: KeywordContext2[R | Done[R]], /) -> JobFunction[..., R]: ...
    @overload
    def __call__(self, fn: KeywordContext3[AsyncDone[R]], /) -> JobFunction[..., R]: ...
    @overload
    def __call__(self, fn: KeywordContext3[AsyncValue[R]], /) -> JobFunction[..., R]: ...
    @overload
    def __call__(self, fn: KeywordContext3[Done[R]], /) -> JobFunction[..., R]: ...
    @overload
    def __call__(self, fn: KeywordContext3[R | Done[R]], /) -> JobFunction[..., R]: ...
    @overload
    def __call__(self, fn: Callable[P, AsyncDone[R]], /) -> JobFunction[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, AsyncValue[R]], /) -> JobFunction[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, Done[R]], /) -> JobFunction[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, R | Done[R]], /) -> JobFunction[P, R]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """The options of a kind, checked at declaration; see `Queue.job`."""

    queue: str = "default"
    name: str | None = None
    target: Target | None = None
    aliases: Sequence[str] = ()
    key: Key | None = None
    unique: Key | bool | None = None
    while_: AbstractSet[str] | None = None
    attempts: int = DEFAULT_ATTEMPTS
    per_code: Mapping[str, int] = field(default_factory=dict)
    backoff: Backoff | Literal[False] | None = JOB_BACKOFF
    free_trials: Duration = FREE_TRIALS
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
            raise TypeError(_no_target(self.target))
        if not (self.backoff is None or self.backoff is False or isinstance(self.backoff, Backoff)):
            raise TypeError(_no_backoff(self.backoff))
        _check_aliases(self.aliases)
        _check_key(self.key, "key", "None")
        _check_key(None if isinstance(self.unique, bool) else self.unique, "unique", "True")
        if self.verify is not None and not callable(self.verify):
            raise TypeError(f"verify must be a function or None, got {self.verify!r:.60}")
        for what, kinds, allowed in (
            ("process", (bool, Limits), "True, False or Limits(...)"),
            ("cancellable", (bool,), "True or False"),
        ):
            if not isinstance(getattr(self, what), kinds):
                raise TypeError(f"{what}: {getattr(self, what)!r:.60} is not allowed; give {allowed}")
        if self.while_ is not None and self.unique in (None, False):
            raise ValueError(
                f"while_ needs unique, got {self.while_!r:.60} without it; did you mean unique=True as well?"
            )
        pack = None if self.target is None else self.target.for_jobs().rule_pack
        for what in ("fail_fast_code", "lost_code"):
            code, book = getattr(self, what), CORE if pack is None else pack.code_book
            if code not in book:
                raise ValueError(
                    f"{what} must be a code of the target's rules, got {code!r:.60}{did_you_mean(code, book)}"
                )
        whole(self.max_crashes, field="max_crashes", maximum=1000)
        if isinstance(self.while_, str):
            raise TypeError(f"while_: {self.while_!r} is a text; give a set of states, such as {{{self.while_!r}}}")

    def policy(self) -> KindPolicy:
        if not isinstance(self.per_code, Mapping):
            raise TypeError(
                f"per_code must be a dict of attempts by code, got {self.per_code!r:.60}; give {{'timeout': 2}}"
            )
        per_code = {
            valid_code(code, field="per_code"): whole(most, field=f"per_code[{code!r}]", maximum=1000)
            for code, most in self.per_code.items()
        }
        attempts = whole(self.attempts, field="attempts", maximum=1000)
        return KindPolicy(
            attempts=attempts,
            per_code=per_code,
            backoff=self.backoff or Backoff(0),
            free_trials=seconds(self.free_trials, field="free_trials"),
        )

    def intake(self, signature: Signature, max_bytes: int) -> JobInserter:
        held = {"queued", "running"} if self.while_ is None else set(self.while_)
        return JobInserter(
            parameters=signature.parameters,
            result=signature.result,
            key=None if self.key is None else _hook(self.key, signature.parameters, "key"),
            unique=_unique(self.unique, signature.parameters),
            unique_while=while_mask(held),
            expires=None if self.expires is None else seconds(self.expires, field="expires", minimum=0.001),
            max_bytes=max_bytes,
        )

    def declared(self, queue: Queue, fn: Callable[..., Any], scope: Mapping[str, object]) -> JobFunction[..., Any]:
        """Builds the job function for *fn*. *scope* resolves its annotations."""
        signature = signature_of(fn, scope, whole=True)
        kind = JobKind(
            name=valid_name(self.name or f"{self.queue}.{fn.__name__}", field="name"),
            queue=self.queue,
            handler=fn,
            parameters=signature.parameters,
            encode_result=partial(_encode_result, signature.result),
            colour="process" if self.process else "async" if signature.is_async else "thread",
            policy=self.policy(),
            target="" if self.target is None else self.target.name,
            verify=None if self.verify is None else verify_hook(self.verify, signature.parameters),
            verify_is_async=inspect.iscoroutinefunction(self.verify),
            place=place_of(fn) if self.process else "",
            limits=self.process if isinstance(self.process, Limits) else DEFAULT,
            cancellable=self.cancellable,
            fail_fast_code=self.fail_fast_code,
            lost_code=self.lost_code,
            max_crashes=self.max_crashes,
        )
        return JobFunction(queue, kind, self.intake(signature, queue.max_args))


def _check_aliases(aliases: Sequence[str]) -> None:
    if isinstance(aliases, str):
        raise TypeError(f"aliases must be a list of names, got {aliases!r}; did you mean [{aliases!r}]?")
    for alias in aliases:
        valid_name(alias, field="aliases")


def _check_key(key: object, what: str, other: str) -> None:
    names = isinstance(key, tuple) and bool(key) and all(isinstance(name, str) for name in key)
    if key is None or isinstance(key, str) or names or callable(key):
        return
    raise TypeError(
        f"{what} must be {other}, a parameter's name, a tuple of names or a function of arguments, got {key!r:.60}"
    )


def _no_target(given: object) -> str:
    hint = f"; did you mean Target({given!r:.60})?" if isinstance(given, str) else ""
    return f"target must be a Target or None, got {given!r:.60}{hint}"


def _no_backoff(given: object) -> str:
    hint = f"; did you mean Backoff({given!r})?" if type(given) in (str, int, float) else ""
    return f"backoff must be a Backoff or None, got {given!r:.60}{hint}"


def _hook(key: Key, parameters: Parameters, what: str) -> Hook:
    if callable(key):
        return hook_of(key, parameters, what=what)
    return values_of(key, parameters, what=what)


def _unique(unique: Key | bool | None, parameters: Parameters) -> Hook | None:
    if unique is None or unique is False:
        return None
    if unique is True:
        return lambda bound, _: parameters.identity(bound)
    return _hook(unique, parameters, "unique")


def _encode_result(serial: Serial, result: Any) -> str | None:
    if result is None:
        return None
    try:
        return serial.encode(result, what="result", limit=MAX_BYTES)
    except TypeError:  # not the annotated type, but the work is done: store it if it is JSON at all
        return encode(result, what="result", limit=MAX_BYTES)
