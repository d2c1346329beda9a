"""Circuit breakers and retry decorators of other libraries, and the floors: each behind the same two functions.

A breaker opens after *limit* failures in a row and stays open for an hour. Each is used in the fastest form that its
documentation shows. All of them are installed only in the environment of `make peers`.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from typing import Any

import aiobreaker
import aioresilience
import asyncbreaker
import backoff
import circuitbreaker
import failsafe
import fluxgate
import interlock
import opnieuw
import purgatory
import pybreaker
import pyresilience
import redress
import resilience  # flexinfer-resilience
import resilient_circuit
import stamina
import tenacity
from fluxgate.permits import All
from fluxgate.retries import Cooldown
from fluxgate.trippers import Closed, FailureStreak, HalfOpened
from hyx.circuitbreaker import consecutive_breaker
from hyx.retry import retry as hyx_retry
from lasier.circuit_breaker.asyncio import CircuitBreaker as LasierAsyncBreaker
from lasier.circuit_breaker.rules import MaxFailuresRule
from lasier.circuit_breaker.sync import CircuitBreaker as LasierBreaker
from redress.strategies import decorrelated_jitter
from resilient_circuit.storage import InMemoryStorage

from bench.breaker import apassed, passed
from tidegate import Breaker, Target

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
Pair = tuple[Decorator | None, Decorator | None]  # for functions, for coroutine functions
HOUR = 3600
NEVER = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerLibrary:
    """*made* returns the decorators of a new breaker; *key* returns what a user keeps for one more key."""

    name: str
    made: Callable[[int], Pair]
    key: Callable[[str], object] | None = None
    opens: bool = True  # a wrapper never does


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryLibrary:
    """The decorators of up to three attempts."""

    name: str
    made: Callable[[], Pair]


class Rejected(Exception):
    pass


def unguarded(fn: Callable[..., Any]) -> Callable[..., Any]:
    return fn


def exact(fn: Callable[..., Any]) -> Callable[..., Any]:
    def guarded() -> Any:
        return fn()

    return guarded


def aexact(fn: Callable[..., Any]) -> Callable[..., Any]:
    async def guarded() -> Any:
        return await fn()

    return guarded


class LeanBreaker:
    """Counts failures in a row; takes no lock and reads no clock while calls succeed."""

    __slots__ = ("failures", "limit", "lock", "until")
    shared_lock = threading.Lock()

    def __init__(self, limit: int) -> None:
        self.limit, self.failures, self.until, self.lock = limit, 0, 0.0, self.shared_lock

    def admit(self) -> None:
        if time.monotonic() < self.until:
            raise Rejected
        with self.lock:
            self.until = 0.0

    def settle(self, *, failed: bool) -> None:
        with self.lock:
            self.failures = self.failures + 1 if failed else 0
            if self.failures >= self.limit:
                self.until = time.monotonic() + HOUR

    def sync(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(*args: Any, **kwargs: Any) -> Any:
            if self.until:
                self.admit()
            try:
                result = fn(*args, **kwargs)
            except Exception:
                self.settle(failed=True)
                raise
            if self.failures:
                self.settle(failed=False)
            return result

        return guarded

    def aio(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        async def guarded(*args: Any, **kwargs: Any) -> Any:
            if self.until:
                self.admit()
            try:
                result = await fn(*args, **kwargs)
            except Exception:
                self.settle(failed=True)
                raise
            if self.failures:
                self.settle(failed=False)
            return result

        return guarded


def lean(limit: int) -> Pair:
    breaker = LeanBreaker(limit)
    return breaker.sync, breaker.aio


def both(made: Callable[..., Any]) -> Callable[[int], Pair]:
    """A breaker that decorates functions and coroutine functions."""

    def pair(limit: int) -> Pair:
        breaker = made("peers", limit)
        return breaker, breaker

    return pair


def ours(key: str, limit: int = 5) -> Any:
    return Breaker(key, consecutive=limit, min_requests=NEVER, timeout=HOUR, max_requests=1)


def aiobreaker_breaker(key: str, limit: int = 5) -> Any:
    return aiobreaker.CircuitBreaker(fail_max=limit, timeout_duration=timedelta(seconds=HOUR), name=key)


def aioresilience_breaker(key: str, limit: int = 5) -> Any:
    config = aioresilience.CircuitConfig(
        failure_threshold=limit, recovery_timeout=HOUR, success_threshold=1, half_open_max_calls=1
    )
    return aioresilience.CircuitBreaker(name=key, config=config)


def aioresilience_pair(limit: int) -> Pair:
    breaker = aioresilience_breaker("peers", limit)
    return None, lambda fn: functools.partial(breaker.call, fn)


def asyncbreaker_breaker(key: str, limit: int = 5) -> Any:
    return asyncbreaker.CircuitBreaker(fail_max=limit, timeout_duration=timedelta(seconds=HOUR), name=key)


def circuitbreaker_breaker(key: str, limit: int = 5) -> Any:
    return circuitbreaker.CircuitBreaker(failure_threshold=limit, recovery_timeout=HOUR, name=key)


def flexinfer_breaker(key: str, limit: int = 5) -> Any:
    config = resilience.CircuitBreakerConfig(
        failure_threshold=limit, recovery_timeout=HOUR, half_open_max_calls=1, success_threshold=1
    )
    return resilience.CircuitBreaker(key, config)


def fluxgate_pair(limit: int) -> Pair:
    def options() -> dict[str, Any]:
        tripper = (Closed() & FailureStreak(limit)) | (HalfOpened() & FailureStreak(1))
        return {"tripper": tripper, "retry": Cooldown(HOUR), "permit": All()}

    return fluxgate.CircuitBreaker(**options()), fluxgate.AsyncCircuitBreaker(**options())


def hyx_breaker(_: str, limit: int = 5) -> Any:
    return consecutive_breaker(failure_threshold=limit, recovery_time_secs=HOUR, recovery_threshold=1)


INTERLOCK = interlock.Config()


def interlock_breaker(key: str, limit: int) -> Any:
    config = interlock.Config(
        failure_rate_threshold=1.0, minimum_number_of_calls=limit, window_size=100, permitted_calls_in_half_open=1,
        wait_duration_in_open=HOUR,
    )  # fmt: skip
    return interlock.CircuitBreaker(name=key, config=config)


class Cache:
    """lasier keeps its state in a cache that the user brings; this one is a dict."""

    def __init__(self) -> None:
        self.values: dict[str, tuple[Any, float]] = {}

    def get(self, key: str) -> Any:
        value, until = self.values.get(key, (None, 0.0))
        return value if until > time.monotonic() else None

    def set(self, key: str, value: Any, timeout: float | None = None) -> None:
        self.values[key] = value, time.monotonic() + (timeout or HOUR)

    def add(self, key: str, value: Any, timeout: float | None = None) -> None:
        if self.get(key) is None:
            self.set(key, value, timeout)

    def incr(self, key: str) -> int:
        value, until = self.values.get(key, (0, time.monotonic() + HOUR))
        self.values[key] = value + 1, until
        return int(value + 1)

    def expire(self, key: str, timeout: float) -> None:
        self.set(key, self.get(key), timeout)


class AsyncCache:
    def __init__(self, cache: Cache) -> None:
        self.cache = cache

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self.cache, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            return method(*args, **kwargs)

        return call


LASIER_CACHE = Cache()


def lasier_pair(limit: int) -> Pair:
    cache, rule = Cache(), MaxFailuresRule(max_failures=limit, failure_cache_key="peers")
    options: dict[str, Any] = {"rule": rule, "failure_exception": Rejected, "circuit_timeout": HOUR}
    return LasierBreaker(cache=cache, **options), LasierAsyncBreaker(cache=AsyncCache(cache), **options)


def lasier_key(key: str) -> object:
    return LasierBreaker(rule=MaxFailuresRule(5, key), cache=LASIER_CACHE, failure_exception=Rejected)


PURGATORY = purgatory.SyncCircuitBreakerFactory()


def purgatory_pair(limit: int) -> Pair:
    options: dict[str, Any] = {"default_threshold": limit, "default_ttl": HOUR}
    factories = purgatory.SyncCircuitBreakerFactory(**options), purgatory.AsyncCircuitBreakerFactory(**options)
    return factories[0]("peers"), factories[1]("peers")


def pybreaker_breaker(key: str, limit: int = 5) -> Any:
    return pybreaker.CircuitBreaker(fail_max=limit, reset_timeout=HOUR, name=key)


def pyfailsafe_policy(_: str, limit: int = 5) -> Any:
    breaker = failsafe.CircuitBreaker(maximum_failures=limit, reset_timeout_seconds=HOUR)
    return failsafe.Failsafe(circuit_breaker=breaker)


def pyfailsafe_pair(limit: int) -> Pair:
    policy = pyfailsafe_policy("peers", limit)
    return None, lambda fn: functools.partial(policy.run, fn)


def pyresilience_decorator(_: str, limit: int = 5) -> Any:
    config = pyresilience.CircuitBreakerConfig(failure_threshold=limit, recovery_timeout=HOUR, success_threshold=1)
    return pyresilience.resilient(circuit_breaker=config)


def redress_pair(limit: int) -> Pair:
    classes = {redress.ErrorClass.TRANSIENT, redress.ErrorClass.SERVER_ERROR, redress.ErrorClass.UNKNOWN}
    breaker = redress.CircuitBreaker(failure_threshold=limit, window_s=60.0, recovery_timeout_s=HOUR, trip_on=classes)
    policy, apolicy = redress.Policy(circuit_breaker=breaker), redress.AsyncPolicy(circuit_breaker=breaker)
    return (lambda fn: functools.partial(policy.call, fn)), (lambda fn: functools.partial(apolicy.call, fn))


RESILIENT_STORAGE = InMemoryStorage()


def resilient_breaker(key: str, limit: int = 5) -> Any:
    # It opens at a ratio of the last results, so that one above 1 is never reached.
    ratio = Fraction(101, 100) if limit >= NEVER else Fraction(1, 1)
    return resilient_circuit.CircuitProtectorPolicy(
        resource_key=f"{key}-{time.monotonic_ns()}", storage=RESILIENT_STORAGE, cooldown=timedelta(seconds=HOUR),
        failure_limit=ratio,
    )  # fmt: skip


OPNIEUW: dict[str, Any] = {
    "retry_on_exceptions": ConnectionError,
    "max_calls_total": 3,
    "retry_window_after_first_call_in_seconds": 10,
}


def same(decorator: Any) -> Pair:
    return decorator, decorator


def redress_retry() -> Pair:
    options: dict[str, Any] = {"classifier": redress.default_classifier, "max_attempts": 3}
    return same(redress.retry(strategy=decorrelated_jitter(max_s=3.0), **options))


def tenacity_retry() -> Pair:
    options: dict[str, Any] = {
        "stop": tenacity.stop_after_attempt(3),
        "wait": tenacity.wait_random_exponential(max=5),
        "retry": tenacity.retry_if_exception_type(ConnectionError),
    }
    return same(tenacity.retry(reraise=True, **options))


# The name of a library is that of its distribution, whose version is shown.
BREAKERS = [
    BreakerLibrary(name="bare call", made=lambda _: (unguarded, unguarded), opens=False),
    BreakerLibrary(name="floor: exact-signature wrapper", made=lambda _: (exact, aexact), opens=False),
    BreakerLibrary(name="floor: pass-through wrapper", made=lambda _: (passed, apassed), opens=False),
    BreakerLibrary(name="floor: lean breaker", made=lean, key=lambda _: LeanBreaker(5)),
    BreakerLibrary(name="tidegate", made=both(ours)),
    BreakerLibrary(name="aiobreaker", made=both(aiobreaker_breaker), key=aiobreaker_breaker),
    BreakerLibrary(name="aioresilience", made=aioresilience_pair, key=aioresilience_breaker),
    BreakerLibrary(
        name="asyncbreaker", made=lambda limit: (None, asyncbreaker_breaker("peers", limit)), key=asyncbreaker_breaker
    ),
    BreakerLibrary(name="circuitbreaker", made=both(circuitbreaker_breaker), key=circuitbreaker_breaker),
    BreakerLibrary(
        name="flexinfer-resilience",
        made=lambda limit: (None, flexinfer_breaker("peers", limit).decorate),
        key=flexinfer_breaker,
    ),
    BreakerLibrary(name="fluxgate", made=fluxgate_pair, key=lambda _: fluxgate.CircuitBreaker()),
    BreakerLibrary(name="hyx", made=lambda limit: (None, hyx_breaker("peers", limit)), key=hyx_breaker),
    BreakerLibrary(
        name="interlock-cb",
        made=both(interlock_breaker),
        key=lambda key: interlock.CircuitBreaker(name=key, config=INTERLOCK),
    ),
    BreakerLibrary(name="lasier", made=lasier_pair, key=lasier_key),
    BreakerLibrary(name="purgatory", made=purgatory_pair, key=lambda key: PURGATORY.get_breaker(key).context),
    BreakerLibrary(
        name="pybreaker", made=lambda limit: (pybreaker_breaker("peers", limit), None), key=pybreaker_breaker
    ),
    BreakerLibrary(name="pyfailsafe", made=pyfailsafe_pair, key=pyfailsafe_policy),
    BreakerLibrary(
        name="pyresilience",
        made=both(pyresilience_decorator),
        key=lambda key: pyresilience_decorator(key)(unguarded),
    ),
    BreakerLibrary(name="redress", made=redress_pair, key=lambda _: redress.CircuitBreaker()),
    BreakerLibrary(name="resilient-circuit", made=both(resilient_breaker), key=resilient_breaker),
]
RETRIES = [
    RetryLibrary(name="bare call", made=lambda: (unguarded, unguarded)),
    RetryLibrary(name="floor: pass-through wrapper", made=lambda: (passed, apassed)),
    RetryLibrary(name="tidegate", made=lambda: same(Target("peers").guard(retry=3))),
    RetryLibrary(name="backoff", made=lambda: same(backoff.on_exception(backoff.expo, ConnectionError, max_tries=3))),
    RetryLibrary(name="hyx", made=lambda: (None, hyx_retry(attempts=3))),
    RetryLibrary(name="opnieuw", made=lambda: (opnieuw.retry(**OPNIEUW), opnieuw.retry_async(**OPNIEUW))),
    RetryLibrary(
        name="pyresilience",
        made=lambda: same(pyresilience.resilient(retry=pyresilience.RetryConfig(max_attempts=3))),
    ),
    RetryLibrary(name="redress", made=redress_retry),
    RetryLibrary(name="resilient-circuit", made=lambda: same(resilient_circuit.RetryWithBackoffPolicy(max_retries=2))),
    RetryLibrary(name="stamina", made=lambda: same(stamina.retry(on=ConnectionError, attempts=3))),
    RetryLibrary(name="tenacity", made=tenacity_retry),
]
