"""A target: something outside that we call and keep health for."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from tidegate.core.backoff import Backoff
from tidegate.core.checks import valid_name
from tidegate.core.codes import CORE
from tidegate.core.duration import Duration, seconds
from tidegate.core.events import EventKind
from tidegate.core.pack import Pack, pack_of
from tidegate.core.policy import Confirm, Cooldown
from tidegate.core.rate import Rate
from tidegate.core.rule import Rule
from tidegate.face.breakers import Telling, breakers_of
from tidegate.face.health import Health, health_of
from tidegate.face.part import Part, Until, steady
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
from tidegate.machine.doubt import Doubt
from tidegate.machine.own_link import SelfGuard
from tidegate.runtime import bus as buses
from tidegate.runtime.caller import Caller, CallPolicy
from tidegate.runtime.capacity import Capacity
from tidegate.runtime.clock import SYSTEM, Clock
from tidegate.runtime.job_target import TargetRules
from tidegate.runtime.stale import Shelf

if TYPE_CHECKING:
    from tidegate.runtime.orders import Follower

_SYNC = Backoff.sync()


class Target(Part):
    """Something outside that we call, by name; `key()` tells its parts (users, feeds) apart.

        spotify = Target("spotify", rules=rules.spotify, backoff=Backoff("30s", cap="30m"))

        @spotify.guard(key="user_id", retry=3)
        async def recent(user_id: int, after: int) -> list[Play]: ...

    Breaker, rate and concurrency are the target's; backoff, fatal state and cooldown are each key's, or each
    operation's where a fault reaches no further. All state is in memory; for jobs of a `Queue` it is in its store.
    Without a *backoff* (None) only what the service asks for is waited, and fatal faults, cooldowns and the breaker
    hold calls as ever.

    *title* is how people call it; what they are told of it says that instead of its name.

    For jobs alone: *capacity* asks how full the target is, and *probe_after* names the codes (or True) after which the
    *probe* is asked at once; when that fails too, the breaker opens.

    With a *store* (the URL of a database of jobs) its transitions and a summary every 5 s are written there, by a
    thread of its own and never in the way of a call, so that `tidegate targets` shows it. What people do to it there
    (pause, resume, clear, disable, enable) is done here within seconds.
    """

    def __init__(
        self,
        name: str,
        *,
        title: str = "",
        rules: Pack | Iterable[Rule] | None = None,
        backoff: Backoff | None = _SYNC,
        breaker: Breaker | Mapping[str, Any] | bool | None = None,
        cooldown: Cooldown | None = None,
        groups: Mapping[str, Iterable[str]] | None = None,
        capacity: Capacity | None = None,
        rate: Rate | float | None = None,
        concurrency: int | None = None,
        confirm: Iterable[Confirm] | None = None,
        probe: Callable[[], Any] | None = None,
        probe_every: Duration = "10s",
        probe_after: Collection[str] | bool = False,
        behind: Literal["hold", "fail-fast", "serve-stale"] = "hold",
        deadline: Duration | None = None,
        store: str | None = None,
        wait: Duration = 0,
        reprobe: Duration | None = "1h",
        most_asked: Duration = "1h",
        cap_notice: bool = True,
        self_guard: SelfGuard | bool = True,
        user: Callable[[Hashable], Hashable] = lambda key: key,
        clock: Clock = SYSTEM,
        bus: buses.Bus = buses.DEFAULT,
        dice: Callable[[], float] = random.random,
    ) -> None:
        if behind not in ("hold", "fail-fast", "serve-stale"):
            raise ValueError(f"behind: {behind!r} is not allowed; give 'hold', 'fail-fast' or 'serve-stale'")
        valid_name(name, field="name")
        check_kinds(backoff, cooldown, probe, user)
        pack = pack_of(rules, name)
        policy = CallPolicy(
            name=name,
            title=title,
            pack=pack,
            backoff=backoff,
            cooldown=cooldown,
            deadline=None if deadline is None else seconds(deadline, field="deadline", least=0.001),
            most_asked=seconds(most_asked, field="most_asked"),
            reprobe=None if reprobe is None else seconds(reprobe, field="reprobe", least=1),
            cap_notice=cap_notice,
            user=user,
            probe=probe,
            probe_every=seconds(probe_every, field="probe_every", least=0.001),
        )
        book = CORE if pack is None else pack.book
        check_codes(cooldown, book)
        believed = (pack.confirm if pack is not None else ()) if confirm is None else confirmed_of(confirm)
        told = Telling()
        breakers, group_of = breakers_of(name, breaker, groups, told, clock, probe)
        self._caller = Caller(
            policy,
            breakers=breakers,
            groups=group_of,
            limits=limits_of(rate, concurrency, seconds(wait, field="wait")),
            doubt=Doubt(believed, book),
            clock=clock,
            bus=bus,
            link=link_of(self_guard, clock),
            dice=dice,
        )
        told.to(self._caller)
        self._shelf = Shelf()
        self._stale = behind == "serve-stale"
        self._key = None
        self._follower: Follower | None = None
        self.behind = behind
        self.capacity = capacity_of(capacity)
        self.probe_after = probe_after_of(probe_after, probe)
        if store is not None:
            from tidegate.runtime.orders import Follower
            from tidegate.runtime.reporting import reporter_of

            reporter = reporter_of(store)
            self._caller.news.notify = reporter.notices_for(bus)
            self._follower = Follower(self._caller, self._shelf)
            reporter.add(name, self.summary, bus, self._caller.keys.adopt, self._follower.follow)

    def key(self, key: Hashable) -> Part:
        """The part of the target that *key* names."""
        hash(key)
        return Part(self, key)

    @property
    def breaker(self) -> Breaker | None:
        """The breaker of the whole target, if it has one."""
        return self._caller.breakers.get(None)

    @property
    def breakers(self) -> Mapping[str | None, Breaker]:
        """The breakers by group; None is the group of every other operation."""
        return dict(self._caller.breakers)

    def for_jobs(self) -> TargetRules:
        """The numbers of the target for jobs, whose state is in the store instead of in this object."""
        policy, limits, breaker = self._caller.policy, self._caller.limits, self.breaker
        return TargetRules(
            name=policy.name,
            pack=policy.pack,
            backoff=policy.backoff,
            cooldown=policy.cooldown,
            breaker=None if breaker is None else breaker.policy,
            rate=None if limits is None else limits.rate,
            concurrency=None if limits is None else limits.concurrency,
            behind=self.behind,
            most_asked=policy.most_asked,
            reprobe=policy.reprobe,
            cap_notice=policy.cap_notice,
            probe=policy.probe,
            probe_every=policy.probe_every,
            probe_after=self.probe_after,
            capacity=self.capacity,
        )

    def summary(self) -> dict[str, Any]:
        """How it is, in a few plain values: what it tells its *store* every few seconds."""
        return summary_of(self._caller, self.unhealthy())

    def unhealthy(self) -> list[Health]:
        """Every key, and every operation, that is not well. A key that never failed is not even known."""
        return [health_of(self._caller, *found) for found in self._caller.keys.unhealthy()]

    def pause(self, until: Until, by: str = "person") -> None:
        """No call of any key until then; always with an end."""
        if until is None:
            raise ValueError("until: a pause always has an end; give a time")
        self._caller.keys.pause(steady(until, self._caller.clock), f"Paused by {by}.")
        self._caller.news.publish(EventKind.TARGET_PAUSED, fields={"by": by})

    def resume(self, by: str = "person") -> bool:
        """Ends a pause; False when there was none."""
        was = self._caller.keys.resume()
        if was:
            self._caller.news.publish(EventKind.TARGET_RESUMED, fields={"by": by})
        return was

    def caught_up(self, wait: Duration = "5s") -> bool:
        """Whether it knows what people have ordered in its *store*; waits for that at most so long."""
        return self._follower is None or self._follower.heard(seconds(wait, field="wait"))

    def __repr__(self) -> str:
        return f"<Target {self.name!r}>"
