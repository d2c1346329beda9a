"""The short way to be told no: while the breaker of a target is open, a rejection costs little more than its exception.

What a rejection says and counts is the same as on the long way through `Caller.admit`; only the asking is shorter.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar, cast

from tidegate.errors import BreakerOpen
from tidegate.face.signatures import Fixed, KeyOf, is_async
from tidegate.machine.breaker import Breaker
from tidegate.machine.gate import HoldReason
from tidegate.runtime.caller import Caller

P = ParamSpec("P")
R = TypeVar("R")
_NOT_OPEN = -math.inf
_REASON = str(HoldReason.BREAKER)


def breaker_before(caller: Caller, operation: str) -> Breaker | None:
    """The breaker that may be asked first; None where the long way must be gone.

    A health probe has to be asked while the breaker is open, and a breaker with a clock of its own cannot tell whether
    a key is held, which comes before it.
    """
    breaker = caller.breaker(operation)
    if breaker is None or caller.policy.probe is not None:
        return None
    _, clock, _ = breaker.hot()
    return breaker if clock == caller.clock.monotonic else None


def rejecting(caller: Caller, breaker: Breaker, key_of: KeyOf, fn: Callable[P, R]) -> Callable[P, R]:
    """*fn*, which asks every gate itself, called only when the breaker does not already say no."""
    if is_async(fn):
        return cast("Callable[P, R]", _rejecting_async(caller, breaker, key_of, fn))
    keys, name, wall = caller.keys, caller.policy.name, caller.clock.now
    states, clock, reject = breaker.hot()
    fixed, known = isinstance(key_of, Fixed), key_of.key if isinstance(key_of, Fixed) else None

    @functools.wraps(fn)
    def asked(*args: P.args, **kwargs: P.kwargs) -> R:
        until = states.until
        if until > _NOT_OPEN and keys.quiet_from <= (now := clock()) < until:
            key = known if fixed else key_of(args, kwargs)
            reject()
            to_wall = wall() - now
            raise BreakerOpen(name, key, _REASON, states.since + to_wall, until + to_wall, until - now)
        return fn(*args, **kwargs)

    return asked


def _rejecting_async(
    caller: Caller, breaker: Breaker, key_of: KeyOf, fn: Callable[P, Awaitable[R]]
) -> Callable[P, Awaitable[R]]:
    keys, name, wall = caller.keys, caller.policy.name, caller.clock.now
    states, clock, reject = breaker.hot()
    fixed, known = isinstance(key_of, Fixed), key_of.key if isinstance(key_of, Fixed) else None

    @functools.wraps(fn)
    async def asked(*args: P.args, **kwargs: P.kwargs) -> R:
        until = states.until
        if until > _NOT_OPEN and keys.quiet_from <= (now := clock()) < until:
            key = known if fixed else key_of(args, kwargs)
            reject()
            to_wall = wall() - now
            raise BreakerOpen(name, key, _REASON, states.since + to_wall, until + to_wall, until - now)
        return await fn(*args, **kwargs)

    return asked
