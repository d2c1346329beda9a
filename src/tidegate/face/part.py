"""One part of a target, or the whole of it: what can be called, asked and ended there."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Collection, Hashable
from datetime import datetime, timedelta
from typing import Any, ParamSpec, TypeVar

from tidegate.core.attribution import add_client
from tidegate.core.checks import whole
from tidegate.core.duration import MAX_SECONDS, seconds
from tidegate.core.events import EventKind
from tidegate.core.fault import Fault
from tidegate.core.retry import ONCE, Retry, retry_of
from tidegate.face import adapter, guarding, staleness, transport
from tidegate.face.explaining import explain_call
from tidegate.face.health import Health, health_of
from tidegate.face.signatures import Fixed, KeyOf, check_function, key_getter, named
from tidegate.face.wrapping import repeats, wrap_client
from tidegate.machine.breaker import Breaker
from tidegate.machine.gate import Hold
from tidegate.runtime.attempts import CallAttempts, CallSpec
from tidegate.runtime.caller import CallPipeline
from tidegate.runtime.calling import acall, call
from tidegate.runtime.clock import Clock
from tidegate.runtime.keys import RestoredHealth
from tidegate.runtime.stale import Answer, StaleCache

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C")
Until = float | str | timedelta | datetime | None


class TargetKey:
    """A target, or the part of it that one key names: what can be called, asked and ended there."""

    _pipeline: CallPipeline
    _stale_cache: StaleCache
    _stale: bool

    def __init__(self, target: TargetKey, key: Hashable) -> None:
        self._pipeline, self._stale_cache, self._stale = target._pipeline, target._stale_cache, target._stale
        self._key = key

    @property
    def name(self) -> str:
        return self._pipeline.policy.name

    @property
    def breaker(self) -> Breaker | None:
        """Its breaker, if there is one: of the whole target, or with `breaker_per="key"` of a key that has failed."""
        return self._pipeline.breaker(None, self._key)

    # -- calls ---------------------------------------------------------------------------------------------------

    def guard(
        self,
        key: str | Callable[..., Hashable] | None = None,
        *,
        retry: Retry | int | None = None,
        operation: str | None = None,
    ) -> Callable[[Callable[P, R]], Callable[P, R]]:
        """A decorator for `def` and `async def`. *key*: a parameter's name, or a function of the arguments.

        *retry* is a `Retry`, or the number of attempts in all. Fatal faults, bugs of the program and calls that were
        held are not repeated.
        """
        attempts = retry_of(retry)

        def decorate(fn: Callable[P, R]) -> Callable[P, R]:
            check_function(fn)
            return self._guarded(fn, key_getter(fn, key, self._key), operation or named(fn), attempts)

        return decorate

    def _guarded(self, fn: Callable[P, R], key_of: KeyOf, operation: str, retry: Retry) -> Callable[P, R]:
        if self._stale:
            return staleness.guard_stale(self._pipeline, self._stale_cache, fn, key_of, operation, retry)
        return guarding.guard(self._pipeline, fn, key_of, operation, retry)

    def call(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """`fn(*args, **kwargs)`, once, behind the gates."""
        return call(CallAttempts(self._pipeline, CallSpec(self._key, named(fn))), fn, args, kwargs, plain=True)

    async def acall(self, fn: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """`await fn(*args, **kwargs)`, once, behind the gates."""
        return await acall(CallAttempts(self._pipeline, CallSpec(self._key, named(fn))), fn, args, kwargs)

    def call_stale(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Answer[R]:
        """A fresh answer, or the last good one for the same arguments, marked with its age."""
        how = CallSpec(self._key, named(fn))
        return staleness.call_stale(self._pipeline, self._stale_cache, how, fn, args, kwargs, plain=True)

    async def acall_stale(self, fn: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs) -> Answer[R]:
        """As `call_stale`, awaited."""
        return await staleness.acall_stale(
            self._pipeline, self._stale_cache, CallSpec(self._key, named(fn)), fn, args, kwargs
        )

    def wrap(self, client: C, *, retry: Retry | int | None = None, retry_methods: Collection[str] | None = None) -> C:
        """*client* with every public method guarded; it looks like the same type.

        *retry* is as for `guard`, for the methods that *retry_methods* names. Without it all are repeated but those
        whose names say that they may do something twice, such as `post`, `create_order` and `send`.
        """
        attempts, is_repeated = retry_of(retry), repeats(client, retry, retry_methods)
        add_client(client, sys._getframe(1).f_globals.get("__name__", ""))

        def guarded(fn: Callable[..., Any], name: str) -> Callable[..., Any]:
            return self._guarded(fn, Fixed(self._key), name, attempts if is_repeated(name) else ONCE)

        return wrap_client(self.name, client, guarded)

    def transport(self, inner: Any, *, retry: Retry | int | None = None) -> Any:
        """A transport for httpx or httpx2 around *inner*; sync or async as the inner one is.

        *retry* is as for `guard`. Only requests that may be sent twice are repeated: of an idempotent method, with a
        body that is in memory.
        """
        return transport.guarded_transport(self._pipeline, self._key, inner, retry_of(retry))

    def adapter(self, inner: Any = None, *, retry: Retry | int | None = None) -> Any:
        """An adapter for `requests.Session.mount`, around *inner* or a new `HTTPAdapter`.

        *retry* is as for `transport`.
        """
        return adapter.guarded_adapter(self._pipeline, self._key, inner, retry_of(retry))

    # -- what people ask and do ----------------------------------------------------------------------------------

    def explain(self, operation: str | None = None) -> list[Hold]:
        """Why a call would not go now, in the order of the gate, in wall time; empty when it would."""
        return explain_call(self._pipeline, self._key, operation)

    def health(self) -> list[Health]:
        """The key and each operation of it that is not well; empty when all of it is."""
        return [health_of(self._pipeline, *found) for found in self._pipeline.keys.unhealthy_at(self._key)]

    def restore(
        self, fault: Fault, *, failures: int, since: float, until: float | None, operation: str | None = None
    ) -> None:
        """Goes on where an earlier process was, with what its `health()` said; what is known by now stays.

        *until* None: time alone does not end it, if the fault is one that holds calls until a person acts.
        """
        offset = self._pipeline.clock.now() - self._pipeline.clock.monotonic()
        end = None if until is None else until - offset
        known = RestoredHealth(failures=whole(failures, field="failures"), since=since - offset, until=end, fault=fault)
        self._pipeline.keys.restore(self._key, operation, known)

    def clear(self) -> None:
        """Forgets all state of the key, as after a reconnect: the next call goes at once."""
        self._pipeline.clear(self._key)
        self._stale_cache.forget(self._key)

    def retry_now(self) -> None:
        """Somebody does not want to wait: the next call may go at once, unless the service asked for the wait.

        The run of failures goes on, with what people were told of it. After a fatal fault it is one trial; refused
        credentials are not tried again: they need `clear()`. An open breaker becomes half-open, unless a person forced
        it.
        """
        self._pipeline.hurry(self._key)

    def disable(self, until: Until = None, by: str = "person", reason: str = "manual") -> None:
        """No call until then: "48h" or a timedelta from now, a datetime or UNIX time, or None until `enable()`."""
        end = None if until is None else steady(until, self._pipeline.clock)
        self._pipeline.keys.disable(self._key, end, by, reason)
        self._pipeline.publisher.publish(EventKind.TARGET_DISABLED, self._key, fields={"reason": reason, "by": by})

    def enable(self, by: str = "person") -> bool:
        """Ends a cooldown, whoever ordered it; False when there was none."""
        ended = self._pipeline.keys.enable(self._key)
        if ended:
            self._pipeline.publisher.publish(EventKind.TARGET_ENABLED, self._key, fields={"by": by})
        return ended


def steady(until: float | str | timedelta | datetime, clock: Clock) -> float:
    """*until* on the clock that never steps; ValueError when it is not ahead."""
    if isinstance(until, (str, timedelta)):
        left = seconds(until, field="until")
    else:
        left = (until.timestamp() if isinstance(until, datetime) else float(until)) - clock.now()
    if not 0 < left <= MAX_SECONDS:
        raise ValueError(f"until: {until!r} is not allowed; give a time ahead of now, at most a hundred years")
    return clock.monotonic() + left
