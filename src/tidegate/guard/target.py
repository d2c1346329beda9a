"""`Target`: an external service, with the gates before its calls and the health of its keys."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Literal, ParamSpec, TypeGuard, TypeVar, overload

from tidegate import events as buses
from tidegate.clock import SYSTEM, Clock
from tidegate.durations import MAX_SECONDS, Duration, seconds
from tidegate.events import EventKind
from tidegate.faults.attribution import add_client
from tidegate.faults.codes import CORE
from tidegate.faults.confirm import Confirm
from tidegate.faults.fault import Fault
from tidegate.faults.rule import Faults, Pack, Rule, pack_of
from tidegate.guard import decorator, stale, transports
from tidegate.guard.attempts import CallAttempts, CallSpec, acall, call
from tidegate.guard.backoff import ONCE, Backoff, Retry, retry_of
from tidegate.guard.breaker import Breaker
from tidegate.guard.breaker_policy import BreakerPolicy
from tidegate.guard.capacity import Capacity
from tidegate.guard.confirmation import ConfirmationTracker
from tidegate.guard.cooldown import Cooldown
from tidegate.guard.functions import Fixed, KeyOf, check_function, key_getter, named
from tidegate.guard.health import Health, explain_call, health_of, summary_of
from tidegate.guard.hold import Hold
from tidegate.guard.keys import RestoredHealth
from tidegate.guard.limits import Rate
from tidegate.guard.network_guard import NetworkGuardPolicy
from tidegate.guard.options import (
    BreakerListener,
    breakers_of,
    capacity_of,
    check_breaker,
    check_codes,
    check_kinds,
    check_per_key,
    confirmed_of,
    limits_of,
    link_of,
    probe_after_of,
)
from tidegate.guard.pipeline import CallPipeline, CallPolicy
from tidegate.guard.policy import TargetRules
from tidegate.guard.profiles import (
    PROFILES,
    BreakerOptions,
    BreakerPer,
    ProfileName,
    Tuning,
    counts_in_a_row,
    profile_of,
    tuning_of,
)
from tidegate.guard.stale import Answer, StaleCache
from tidegate.guard.wrap import repeated_methods, repeats, wrap_client
from tidegate.validation import did_you_mean, valid_name, whole

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C")
Until = float | str | timedelta | datetime | None
_WHEN_OPEN = ("hold", "fail-fast", "serve-stale")


class TargetKey:
    """A target, or one key of it: makes guarded calls, reports health, and takes orders from operators."""

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
        """The breaker of the target. With `breaker_per="key"`, that of the key, or None until the key has failed."""
        return self._pipeline.breaker(None, self._key)

    # -- calls ---------------------------------------------------------------------------------------------------

    @overload
    def guard(self, fn: Callable[P, R], /) -> Callable[P, R]: ...
    @overload
    def guard(
        self,
        *,
        key: str | Callable[..., Hashable] | None = None,
        retry: Retry | int | None = None,
        operation: str | None = None,
    ) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
    def guard(  # type: ignore[misc]  # mypy does not accept it although every parameter has the same type
        self,
        fn: Any = None,
        /,
        *,
        key: str | Callable[..., Hashable] | None = None,
        retry: Retry | int | None = None,
        operation: str | None = None,
    ) -> Any:
        """Decorates a `def` or `async def` function, with or without parentheses.

        *key* is a parameter's name, or a function of the arguments. *retry* is a `Retry`, or the total number of
        attempts. Fatal faults, bugs of the program and held calls are not retried.
        """
        attempts = retry_of(retry)

        def decorate(fn: Callable[..., Any]) -> Callable[..., Any]:
            check_function(fn)
            return self._guarded(fn, key_getter(fn, key, self._key), operation or named(fn), attempts)

        return decorate if fn is None else decorate(fn)

    def _guarded(self, fn: Callable[P, R], key_of: KeyOf, operation: str, retry: Retry) -> Callable[P, R]:
        if self._stale:
            return stale.guard_stale(self._pipeline, self._stale_cache, fn, key_of, operation, retry)
        return decorator.guard(self._pipeline, fn, key_of, operation, retry)

    def call(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Makes one guarded call of `fn(*args, **kwargs)`."""
        return call(CallAttempts(self._pipeline, CallSpec(self._key, named(fn))), fn, args, kwargs, plain=True)

    async def acall(self, fn: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Makes one guarded call of `await fn(*args, **kwargs)`."""
        return await acall(CallAttempts(self._pipeline, CallSpec(self._key, named(fn))), fn, args, kwargs)

    def call_stale(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Answer[R]:
        """Returns a fresh response, or the last good one for the same arguments with its age."""
        how = CallSpec(self._key, named(fn))
        return stale.call_stale(self._pipeline, self._stale_cache, how, fn, args, kwargs, plain=True)

    async def acall_stale(self, fn: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs) -> Answer[R]:
        """The async form of `call_stale`."""
        return await stale.acall_stale(
            self._pipeline, self._stale_cache, CallSpec(self._key, named(fn)), fn, args, kwargs
        )

    def wrap(self, client: C, *, retry: Retry | int | None = None, retry_methods: Collection[str] | None = None) -> C:
        """Returns *client* with every public method guarded. It keeps the type of *client*.

        *retry* is as for `guard`. It applies to methods whose names begin with a verb that only reads, such as
        `get_user` and `list`, and to those in *retry_methods*.
        """
        attempts, is_repeated = retry_of(retry), repeats(client, retry, retry_methods)
        add_client(client, sys._getframe(1).f_globals.get("__name__", ""))

        def guarded(fn: Callable[..., Any], name: str) -> Callable[..., Any]:
            return self._guarded(fn, Fixed(self._key), name, attempts if is_repeated(name) else ONCE)

        return wrap_client(self.name, client, guarded)

    def transport(
        self, inner: Any, *, retry: Retry | int | None = None, retry_methods: Collection[str] | None = None
    ) -> Any:
        """Returns a transport for httpx or httpx2 around *inner*, sync or async like *inner*.

        *retry* is as for `guard`. Only requests that are safe to repeat are retried: the method is idempotent or in
        *retry_methods*, such as `["POST"]`, and the body is in memory.
        """
        repeated = repeated_methods(retry, retry_methods)
        return transports.guarded_transport(self._pipeline, self._key, inner, retry_of(retry), repeated)

    def adapter(
        self, inner: Any = None, *, retry: Retry | int | None = None, retry_methods: Collection[str] | None = None
    ) -> Any:
        """Returns an adapter for `requests.Session.mount`, around *inner* or a new `HTTPAdapter`.

        *retry* and *retry_methods* are as for `transport`.
        """
        repeated = repeated_methods(retry, retry_methods)
        return transports.guarded_adapter(self._pipeline, self._key, inner, retry_of(retry), repeated)

    # -- health and operator actions -----------------------------------------------------------------------------

    def explain(self, operation: str | None = None) -> list[Hold]:
        """Returns the reasons that hold a call now, in gate order and wall-clock time. Empty if nothing holds it."""
        return explain_call(self._pipeline, self._key, operation)

    def health(self) -> list[Health]:
        """Returns the health of the key and of its operations that are failing. Empty if all are healthy."""
        return [health_of(self._pipeline, *entry) for entry in self._pipeline.keys.unhealthy_at(self._key)]

    def restore(
        self, fault: Fault, *, failures: int, since: float, until: float | None, operation: str | None = None
    ) -> None:
        """Restores the health that an earlier process reported with `health()`. Newer state wins.

        If *until* is None, time does not end the hold when the fault needs an operator.
        """
        offset = self._pipeline.clock.now() - self._pipeline.clock.monotonic()
        end = None if until is None else until - offset
        known = RestoredHealth(failures=whole(failures, field="failures"), since=since - offset, until=end, fault=fault)
        self._pipeline.keys.restore(self._key, operation, known)

    def clear(self) -> None:
        """Forgets all state of the key, for example after the user reconnects.

        The next call is allowed, unless the breaker of the whole target is open: `breaker.reset()` closes it.
        """
        self._pipeline.clear(self._key)
        self._stale_cache.forget(self._key)

    def retry_now(self) -> None:
        """Lets the next call go now, unless the service asked for the wait with Retry-After.

        The failure count and the notices sent so far stay. After a fatal fault, one trial call is allowed. Rejected
        credentials are not tried again: they need `clear()`. An open breaker becomes half-open, unless an operator
        forced it open.
        """
        self._pipeline.hurry(self._key)

    def disable(self, until: Until = None, by: str = "person", reason: str = "manual") -> None:
        """Holds all calls until *until*: "48h" or a timedelta from now, a datetime, UNIX time, or None.

        None holds them until `enable()`.
        """
        end = None if until is None else steady(until, self._pipeline.clock)
        self._pipeline.keys.disable(self._key, end, by, reason)
        self._pipeline.publisher.publish(EventKind.TARGET_DISABLED, self._key, fields={"reason": reason, "by": by})

    def enable(self, by: str = "person") -> bool:
        """Ends a cooldown, automatic or ordered. Returns False if there was none."""
        ended = self._pipeline.keys.enable(self._key)
        if ended:
            self._pipeline.publisher.publish(EventKind.TARGET_ENABLED, self._key, fields={"by": by})
        return ended


def steady(until: float | str | timedelta | datetime, clock: Clock) -> float:
    """Converts *until* to monotonic time. Raises ValueError if it is not in the future."""
    if isinstance(until, (str, timedelta)):
        left = seconds(until, field="until")
    else:
        left = (until.timestamp() if isinstance(until, datetime) else float(until)) - clock.now()
    if not 0 < left <= MAX_SECONDS:
        raise ValueError(f"until: {until!r} is not allowed; give a time ahead of now, at most a hundred years")
    return clock.monotonic() + left


class Target(TargetKey):
    """An external service. `key()` returns the part for one user, account or host.

        spotify = Target("spotify", rules=rules.spotify)

        @spotify.guard(key="user_id", retry=3)
        async def recent(user_id: int, after: int) -> list[Play]: ...

    An option that you leave out has its default. None, or False, turns off one that is on by default.

    *profile* sets the defaults of the other options:
        "requests": calls on behalf of a user or a request. A breaker decides. Single failures hold nothing.
        "sync": loops over users and accounts. Each key backs off after each failure. There is no breaker.
        "jobs": jobs of a queue. Jobs always use this profile, whatever profile direct calls use.

    Failure handling:
        *backoff*: how long a key waits after failures. Off: only as long as the service asks.
        *breaker*: a dict of `Breaker` options that override the profile, True for `{}`, or a `Breaker`.
        *breaker_per*: "target" for one breaker, or "key" for one per key, for example when keys are hosts.
        *cooldown*: how many failures with one code suspend a key, and for how long.
        *groups*: operations that have their own breaker.
        *rules*, *faults*, *confirm*: the meaning of responses and exceptions. `faults={KeyError: "bad_answer"}` sets
            the code of an exception class. None instead of a code marks a bug of the program.

    Load: *rate*, *concurrency*, *wait* (for the rate) and *deadline* (of one call with its retries). For jobs,
    *capacity* limits what is sent to the free space in the target's queue. Use *deadline* instead of
    `asyncio.timeout` or `asyncio.wait_for` around a guarded call: they cancel it, and a cancelled call counts neither
    as a failure nor as a success, so an outage in which all calls hang would stay unnoticed.

    While the breaker is open: *when_open* sets what a call gets. *probe* checks the health of the service every
    *probe_every*. For jobs it also runs after the codes in *probe_after*. *reprobe_every* sets how often one call
    checks whether a quota or configuration fault is over.

    *store* is the URL of a job database. The target is listed there and follows the orders of operators. *title* is the
    name for users. *user* maps a key to the user who gets its events. *self_guard* suspects the local network when many
    hosts fail together. *tuning* has options for tests and for Tidegate.

    The target holds breaker, rate and concurrency. Each key holds backoff, fatal state and cooldown, or each operation
    if a fault reaches no further. All state is in memory. For jobs of a `Queue` it is in the store.
    """

    def __init__(
        self,
        name: str,
        profile: ProfileName = "requests",
        *,
        rules: Pack | Iterable[Rule] | None = None,
        faults: Faults | None = None,
        backoff: Backoff | Literal["profile", False] | None = "profile",
        breaker: BreakerOptions | Breaker | bool | Literal["profile"] | None = "profile",
        breaker_per: BreakerPer = "target",
        cooldown: Cooldown | None = None,
        rate: Rate | float | None = None,
        concurrency: int | None = None,
        wait: Duration = 0,
        deadline: Duration | None = None,
        when_open: Literal["hold", "fail-fast", "serve-stale"] = "hold",
        probe: Callable[[], Any] | None = None,
        probe_every: Duration = "10s",
        probe_after: Collection[str] | bool = False,
        reprobe_every: Duration | Literal[False] | None = "1h",
        confirm: Iterable[Confirm] | Literal["rules", False] | None = "rules",
        groups: Mapping[str, Iterable[str]] | None = None,
        capacity: Capacity | None = None,
        title: str = "",
        user: Callable[[Hashable], Hashable] | None = None,
        store: str | None = None,
        self_guard: NetworkGuardPolicy | bool | None = True,
        clock: Clock = SYSTEM,
        tuning: Tuning | None = None,
    ) -> None:
        valid_name(name, field="name")
        chosen = profile_of(profile)
        if when_open not in _WHEN_OPEN:
            allowed = "'hold', 'fail-fast' or 'serve-stale'"
            raise ValueError(f"when_open must be {allowed}, got {when_open!r:.60}{did_you_mean(when_open, _WHEN_OPEN)}")
        given_backoff = None if backoff == "profile" or backoff is False else backoff
        check_kinds(given_backoff, cooldown, probe, user, title, store, clock)
        check_breaker(breaker, breaker_per)
        tuned = tuning_of(tuning)
        bus = tuned.bus or buses.DEFAULT
        pack = pack_of(rules, name, faults)
        waits = chosen.backoff if backoff == "profile" else given_backoff
        policy = CallPolicy(
            name=name,
            title=title,
            rule_pack=pack,
            backoff=waits,
            cooldown=cooldown,
            deadline=None if deadline is None else seconds(deadline, field="deadline", minimum=0.001),
            max_retry_after=seconds(tuned.max_retry_after, field="max_retry_after"),
            reprobe_every=(
                seconds(reprobe_every, field="reprobe_every", minimum=1) if _is_given(reprobe_every) else None
            ),
            cap_notice=tuned.cap_notice,
            user=user or _key_itself,
            probe=probe,
            probe_every=seconds(probe_every, field="probe_every", minimum=0.001),
            hold_without_key=chosen.hold_without_key,
            expects_keys=profile == "sync" and waits is not None,
            pass_own_bugs=chosen.pass_own_bugs,
        )
        book = CORE if pack is None else pack.code_book
        check_codes(cooldown, book)
        believed = (
            confirmed_of(pack.confirm if pack is not None else ()) if confirm == "rules" else confirmed_of(confirm)
        )
        listener = BreakerListener()
        own = breaker if isinstance(breaker, Breaker) else None
        numbers = None if isinstance(breaker, Breaker) else chosen.breaker_numbers(breaker, probe=probe is not None)
        if breaker_per == "key":
            check_per_key(
                profile, breaker, has_breaker=own is not None or numbers is not None, has_probe=probe is not None
            )
        breakers, group_of, key_breakers = breakers_of(name, own or numbers, groups, breaker_per, listener, clock)
        if profile != "jobs" and given_backoff is not None and given_backoff.bound and counts_in_a_row(own or numbers):
            warnings.warn(
                f"Target {name!r}: backoff holds calls before the breaker can count failures in a row. Give"
                " backoff=False, or breaker=False. If the target is only for jobs, give profile='jobs'.",
                stacklevel=2,
            )
        self._pipeline = CallPipeline(
            policy,
            breakers=breakers,
            groups=group_of,
            key_breakers=key_breakers,
            limits=limits_of(rate, concurrency, seconds(wait, field="wait")),
            doubt=ConfirmationTracker(believed, book),
            clock=clock,
            bus=bus,
            link=link_of(self_guard, clock),
            rng=tuned.rng,
        )
        job_backoff = PROFILES["jobs"].backoff if backoff == "profile" else given_backoff
        self._for_jobs = job_backoff, _breaker_for_jobs(name, breaker, probed=probe is not None)
        listener.to(self._pipeline)
        self._stale_cache = StaleCache()
        self._stale = when_open == "serve-stale"
        self._key = None
        self._follower: RemoteControl | None = None
        self.when_open = when_open
        self.capacity = capacity_of(capacity)
        self.probe_after = probe_after_of(probe_after, probe)
        if store is not None:
            from tidegate.targets.remote_control import RemoteControl
            from tidegate.targets.reporter import reporter_of

            reporter = reporter_of(store)
            self._pipeline.publisher.notify = reporter.notices_for(bus)
            self._follower = RemoteControl(self._pipeline, self._stale_cache)
            reporter.add(name, self.summary, bus, self._pipeline.keys.adopt, self._follower.follow)

    def key(self, key: Hashable) -> TargetKey:
        """Returns the part of the target for *key*."""
        hash(key)
        return TargetKey(self, key)

    @property
    def breakers(self) -> Mapping[str | None, Breaker]:
        """The breakers by group. None is the group of all other operations."""
        return dict(self._pipeline.breakers)

    def for_jobs(self) -> TargetRules:
        """Returns the policy of the target for jobs, whose state is in the store.

        Defaults come from profile "jobs", whatever profile direct calls use.
        """
        policy, limits = self._pipeline.policy, self._pipeline.limits
        backoff, breaker = self._for_jobs
        return TargetRules(
            name=policy.name,
            rule_pack=policy.rule_pack,
            backoff=backoff,
            cooldown=policy.cooldown,
            breaker=breaker,
            rate=None if limits is None else limits.rate,
            concurrency=None if limits is None else limits.concurrency,
            when_open=self.when_open,
            max_retry_after=policy.max_retry_after,
            reprobe_every=policy.reprobe_every,
            cap_notice=policy.cap_notice,
            probe=policy.probe,
            probe_every=policy.probe_every,
            probe_after=self.probe_after,
            capacity=self.capacity,
        )

    def summary(self) -> dict[str, Any]:
        """Returns the status as plain values. The target writes it to its *store* every few seconds."""
        return summary_of(self._pipeline, self.unhealthy())

    def unhealthy(self) -> list[Health]:
        """Returns the health of every failing key and operation. A key that never failed has no entry."""
        return [health_of(self._pipeline, *entry) for entry in self._pipeline.keys.unhealthy()]

    def pause(self, until: Until, by: str = "person") -> None:
        """Holds all calls of all keys until *until*. A pause always has an end."""
        if until is None:
            raise ValueError("until must be a time, got None: a pause always has an end; give '2h'")
        self._pipeline.keys.pause(steady(until, self._pipeline.clock), f"Paused by {by}.")
        self._pipeline.publisher.publish(EventKind.TARGET_PAUSED, fields={"by": by})

    def resume(self, by: str = "person") -> bool:
        """Ends a pause. Returns False if there was none."""
        was = self._pipeline.keys.resume()
        if was:
            self._pipeline.publisher.publish(EventKind.TARGET_RESUMED, fields={"by": by})
        return was

    def caught_up(self, wait: Duration = "5s") -> bool:
        """Waits up to *wait* for the operators' orders from the *store*. Returns whether they have arrived."""
        return self._follower is None or self._follower.heard(seconds(wait, field="wait"))

    def __repr__(self) -> str:
        return f"<Target {self.name!r}>"


def _key_itself(key: Hashable) -> Hashable:
    return key


def _is_given(option: Duration | Literal[False] | None) -> TypeGuard[Duration]:
    return option is not None and option is not False


def _breaker_for_jobs(
    name: str, breaker: Mapping[str, Any] | Breaker | bool | Literal["profile"] | None, *, probed: bool
) -> BreakerPolicy | None:
    """Returns the breaker for jobs: the target's options over profile "jobs"."""
    if isinstance(breaker, Breaker):
        return breaker.policy
    numbers = PROFILES["jobs"].breaker_numbers(breaker, probe=probed)
    return None if numbers is None else BreakerPolicy(name=name, **numbers)
