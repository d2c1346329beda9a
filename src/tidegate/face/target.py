"""A target: something outside that we call and keep health for."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from tidegate.core.backoff import Backoff
from tidegate.core.checks import valid_name
from tidegate.core.codes import CORE
from tidegate.core.duration import Duration, seconds
from tidegate.core.events import EventKind
from tidegate.core.pack import Faults, Pack, pack_of
from tidegate.core.policy import Confirm, Cooldown
from tidegate.core.rate import Rate
from tidegate.core.rule import Rule
from tidegate.face.breakers import BreakerListener, breakers_of, check_breaker, check_per_key
from tidegate.face.health import Health, health_of
from tidegate.face.part import TargetKey, Until, steady
from tidegate.face.profiles import (
    PROFILES,
    BreakerOptions,
    BreakerPer,
    ProfileName,
    Tuning,
    counts_in_a_row,
    profile_of,
    tuning_of,
)
from tidegate.face.summing import summary_of
from tidegate.face.target_rules import (
    capacity_of,
    check_codes,
    check_kinds,
    confirmed_of,
    limits_of,
    link_of,
    probe_after_of,
)
from tidegate.machine.breaker import Breaker
from tidegate.machine.doubt import ConfirmationTracker
from tidegate.machine.own_link import NetworkGuardPolicy
from tidegate.machine.trip import BreakerPolicy
from tidegate.runtime import bus as buses
from tidegate.runtime.caller import CallPipeline, CallPolicy
from tidegate.runtime.capacity import Capacity
from tidegate.runtime.clock import SYSTEM, Clock
from tidegate.runtime.job_target import TargetRules
from tidegate.runtime.stale import StaleCache

if TYPE_CHECKING:
    from tidegate.runtime.orders import RemoteControl


class Target(TargetKey):
    """Something outside that we call, by name; `key()` tells its parts (users, hosts) apart.

        spotify = Target("spotify", rules=rules.spotify)

        @spotify.guard(key="user_id", retry=3)
        async def recent(user_id: int, after: int) -> list[Play]: ...

    *profile* says how it is used, and so what the other options are where they are left out:
    "requests": calls on behalf of a user or a request. A breaker decides; single failures hold nothing.
    "sync": loops over users and accounts. Each key waits longer after each failure; there is no breaker.
    "jobs": the jobs of a queue. Jobs always follow it, whatever profile the direct calls of their target have.

    What is failing:
    *backoff*: how long a key waits after failures; None: only for what the service asks for.
    *breaker*: its numbers as a dict, over those of the profile, or else of `Breaker`; True is short for `{}`; False for
    none; a `Breaker`.
    *breaker_per*: whose calls one breaker counts, all of the "target" or those of one "key", as where keys are hosts.
    *cooldown*: after how many failures of one code a key is suspended, and for how long.
    *groups*: operations that have a breaker of their own.
    *rules*, *faults*, *confirm*: what responses and exceptions mean. `faults={KeyError: "bad_answer"}` names the code
    of a class of exceptions; None instead of a code says that it is a bug of the program.

    How much at once: *rate*, *concurrency*, *wait* (for the rate), *deadline* (of one call with its retries), and for
    jobs *capacity*, which asks how full the target is.

    When it is open: *behind* says what a call gets. *probe* asks whether the service is healthy, every *probe_every*;
    for jobs also after the codes of *probe_after*. *reprobe_every*: how often one call finds out whether a fault of
    quota or settings is over; None: never.

    *store* is the URL of a database of jobs: the target is shown there, and follows what people order there. *title* is
    how people call it, *user* tells whom the events of a key are for. *self_guard* suspects our own network when many
    hosts fail at once. *tuning* has what only tests and Tidegate itself change.

    Breaker, rate and concurrency are the target's; backoff, fatal state and cooldown are each key's, or each
    operation's where a fault reaches no further. All state is in memory; for jobs of a `Queue` it is in its store.
    """

    def __init__(
        self,
        name: str,
        profile: ProfileName = "requests",
        *,
        rules: Pack | Iterable[Rule] | None = None,
        faults: Faults | None = None,
        backoff: Backoff | Literal["profile"] | None = "profile",
        breaker: BreakerOptions | Breaker | bool | None = None,
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
        reprobe_every: Duration | None = "1h",
        confirm: Iterable[Confirm] | None = None,
        groups: Mapping[str, Iterable[str]] | None = None,
        capacity: Capacity | None = None,
        title: str = "",
        user: Callable[[Hashable], Hashable] | None = None,
        store: str | None = None,
        self_guard: NetworkGuardPolicy | bool = True,
        clock: Clock = SYSTEM,
        tuning: Tuning | None = None,
    ) -> None:
        valid_name(name, field="name")
        chosen = profile_of(profile)
        if when_open not in ("hold", "fail-fast", "serve-stale"):
            raise ValueError(f"when_open: {when_open!r} is not allowed; give 'hold', 'fail-fast' or 'serve-stale'")
        check_kinds(None if backoff == "profile" else backoff, cooldown, probe, user, title, store, clock)
        check_breaker(breaker, breaker_per)
        tuned = tuning_of(tuning)
        bus = tuned.bus or buses.DEFAULT
        pack = pack_of(rules, name, faults)
        waits = chosen.backoff if backoff == "profile" else backoff
        policy = CallPolicy(
            name=name,
            title=title,
            rule_pack=pack,
            backoff=waits,
            cooldown=cooldown,
            deadline=None if deadline is None else seconds(deadline, field="deadline", minimum=0.001),
            max_retry_after=seconds(tuned.max_retry_after, field="max_retry_after"),
            reprobe_every=None if reprobe_every is None else seconds(reprobe_every, field="reprobe_every", minimum=1),
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
        believed = (pack.confirm if pack is not None else ()) if confirm is None else confirmed_of(confirm)
        told = BreakerListener()
        own = breaker if isinstance(breaker, Breaker) else None
        numbers = None if isinstance(breaker, Breaker) else chosen.breaker_numbers(breaker, probe=probe is not None)
        if breaker_per == "key":
            check_per_key(
                profile, breaker, has_breaker=own is not None or numbers is not None, has_probe=probe is not None
            )
        breakers, group_of, key_breakers = breakers_of(name, own or numbers, groups, breaker_per, told, clock)
        if profile == "requests" and backoff != "profile" and backoff and counts_in_a_row(own or numbers):
            warnings.warn(
                f"Target {name!r}: backoff holds calls before the breaker can count failures in a row. Leave backoff"
                " out, or give breaker=False. Where every call has a key, give profile='sync'; for jobs, 'jobs'.",
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
        self._for_jobs = _for_jobs(name, backoff, breaker, probed=probe is not None)
        told.to(self._pipeline)
        self._stale_cache = StaleCache()
        self._stale = when_open == "serve-stale"
        self._key = None
        self._follower: RemoteControl | None = None
        self.when_open = when_open
        self.capacity = capacity_of(capacity)
        self.probe_after = probe_after_of(probe_after, probe)
        if store is not None:
            from tidegate.runtime.orders import RemoteControl
            from tidegate.runtime.reporting import reporter_of

            reporter = reporter_of(store)
            self._pipeline.publisher.notify = reporter.notices_for(bus)
            self._follower = RemoteControl(self._pipeline, self._stale_cache)
            reporter.add(name, self.summary, bus, self._pipeline.keys.adopt, self._follower.follow)

    def key(self, key: Hashable) -> TargetKey:
        """The part of the target that *key* names."""
        hash(key)
        return TargetKey(self, key)

    @property
    def breakers(self) -> Mapping[str | None, Breaker]:
        """The breakers by group; None is the group of every other operation."""
        return dict(self._pipeline.breakers)

    def for_jobs(self) -> TargetRules:
        """The numbers of the target for jobs, whose state is in the store instead of in this object.

        What its options leave out is as profile "jobs" says, whatever profile direct calls have.
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
        """How it is, in a few plain values: what it tells its *store* every few seconds."""
        return summary_of(self._pipeline, self.unhealthy())

    def unhealthy(self) -> list[Health]:
        """Every key, and every operation, that is not well. A key that never failed is not even known."""
        return [health_of(self._pipeline, *found) for found in self._pipeline.keys.unhealthy()]

    def pause(self, until: Until, by: str = "person") -> None:
        """No call of any key until then; always with an end."""
        if until is None:
            raise ValueError("until: a pause always has an end; give a time")
        self._pipeline.keys.pause(steady(until, self._pipeline.clock), f"Paused by {by}.")
        self._pipeline.publisher.publish(EventKind.TARGET_PAUSED, fields={"by": by})

    def resume(self, by: str = "person") -> bool:
        """Ends a pause; False when there was none."""
        was = self._pipeline.keys.resume()
        if was:
            self._pipeline.publisher.publish(EventKind.TARGET_RESUMED, fields={"by": by})
        return was

    def caught_up(self, wait: Duration = "5s") -> bool:
        """Whether it knows what people have ordered in its *store*; waits for that at most so long."""
        return self._follower is None or self._follower.heard(seconds(wait, field="wait"))

    def __repr__(self) -> str:
        return f"<Target {self.name!r}>"


def _key_itself(key: Hashable) -> Hashable:
    return key


def _for_jobs(
    name: str,
    backoff: Backoff | Literal["profile"] | None,
    breaker: Mapping[str, Any] | Breaker | bool | None,
    *,
    probed: bool,
) -> tuple[Backoff | None, BreakerPolicy | None]:
    """The backoff and the breaker of jobs: what was given, over profile "jobs"."""
    jobs = PROFILES["jobs"]
    waits = jobs.backoff if backoff == "profile" else backoff
    if isinstance(breaker, Breaker):
        return waits, breaker.policy
    numbers = jobs.breaker_numbers(breaker, probe=probed)
    return waits, None if numbers is None else BreakerPolicy(name=name, **numbers)
