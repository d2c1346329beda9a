"""A target: something outside that we call and keep health for."""

from __future__ import annotations

import math
import random
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

from tidegate.core.backoff import Backoff
from tidegate.core.checks import valid_name, whole
from tidegate.core.codes import CORE, CodeBook
from tidegate.core.duration import MOST, Duration, seconds
from tidegate.core.events import EventKind
from tidegate.core.fault import Fault, Reach, Reason
from tidegate.core.policy import Confirm, Cooldown
from tidegate.core.rate import Rate
from tidegate.core.rule import Pack, Rule
from tidegate.face import adapter, guarding, staleness, transport
from tidegate.face.breakers import breakers_of
from tidegate.face.explaining import explained
from tidegate.face.health import Health, health_of
from tidegate.face.wrapping import wrapped
from tidegate.machine.breaker import Breaker
from tidegate.machine.doubt import Doubt
from tidegate.machine.gate import Hold, HoldReason
from tidegate.machine.own_link import SelfGuard
from tidegate.runtime import bus as buses
from tidegate.runtime import own_links
from tidegate.runtime.attempts import Attempts, How
from tidegate.runtime.caller import Caller, CallPolicy
from tidegate.runtime.calling import acall, call
from tidegate.runtime.capacity import Capacity
from tidegate.runtime.clock import SYSTEM, Clock
from tidegate.runtime.job_target import TargetRules
from tidegate.runtime.keys import Known, key_text
from tidegate.runtime.limits import Limits
from tidegate.runtime.stale import Answer, Shelf

if TYPE_CHECKING:
    from tidegate.runtime.orders import Follower

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C")
_SYNC = Backoff.sync()
_MOST_KEYS = 50  # that a summary names
Until = float | str | timedelta | datetime | None


class Part:
    """A target, or the part of it that one key names: what can be called, asked and ended there."""

    _caller: Caller
    _shelf: Shelf
    _stale: bool

    def __init__(self, target: Part, key: Hashable) -> None:
        self._caller, self._shelf, self._stale = target._caller, target._shelf, target._stale
        self._key = key

    @property
    def name(self) -> str:
        return self._caller.policy.name

    # -- calls ---------------------------------------------------------------------------------------------------

    def guard(
        self, key: str | Callable[..., Hashable] | None = None, *, retry: int = 0, operation: str | None = None
    ) -> Callable[[Callable[P, R]], Callable[P, R]]:
        """A decorator for `def` and `async def`. *key*: a parameter's name, or a function of the arguments.

        *retry* allows so many short retries at once, never of a fatal fault nor of a call that was held.
        """
        whole(retry, field="retry", least=0, most=100)

        def decorate(fn: Callable[P, R]) -> Callable[P, R]:
            return self._guarded(fn, guarding.key_getter(fn, key, self._key), operation or _named(fn), retry)

        return decorate

    def _guarded(self, fn: Callable[P, R], key_of: guarding.KeyOf, operation: str, retry: int) -> Callable[P, R]:
        if self._stale:
            return staleness.guard_stale(self._caller, self._shelf, fn, key_of, operation, retry)
        return guarding.guard(self._caller, fn, key_of, operation, retry)

    def call(self, fn: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """`fn(*args, **kwargs)`, once, behind the gates."""
        return call(Attempts(self._caller, How(self._key, _named(fn))), fn, args, kwargs)

    async def acall(self, fn: Callable[P, Awaitable[R]], *args: P.args, **kwargs: P.kwargs) -> R:
        """`await fn(*args, **kwargs)`, once, behind the gates."""
        return await acall(Attempts(self._caller, How(self._key, _named(fn))), fn, args, kwargs)

    def call_stale(self, fn: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> Answer[R]:
        """A fresh answer, or the last good one for the same arguments, marked with its age."""
        return staleness.call_stale(self._caller, self._shelf, How(self._key, _named(fn)), fn, args, kwargs)

    async def acall_stale(self, fn: Callable[P, Awaitable[R]], *args: P.args, **kwargs: P.kwargs) -> Answer[R]:
        """As `call_stale`, awaited."""
        return await staleness.acall_stale(self._caller, self._shelf, How(self._key, _named(fn)), fn, args, kwargs)

    def wrap(self, client: C) -> C:
        """*client* with every public method guarded; it looks like the same type."""
        key = self._key
        return wrapped(self.name, client, lambda fn, name: self._guarded(fn, lambda args, kwargs: key, name, 0))

    def transport(self, inner: Any) -> Any:
        """A transport for httpx or httpx2 around *inner*; sync or async as the inner one is."""
        return transport.guarded(self._caller, self._key, inner)

    def adapter(self, inner: Any = None) -> Any:
        """An adapter for `requests.Session.mount`, around *inner* or a new `HTTPAdapter`."""
        return adapter.guarded(self._caller, self._key, inner)

    # -- what people ask and do ----------------------------------------------------------------------------------

    def explain(self, operation: str | None = None) -> list[Hold]:
        """Why a call would not go now, in the order of the gate, in wall time; empty when it would."""
        return explained(self._caller, self._key, operation)

    def health(self) -> list[Health]:
        """The key and each operation of it that is not well; empty when all of it is."""
        return [health_of(self._caller, *found) for found in self._caller.keys.unhealthy_at(self._key)]

    def restore(
        self, fault: Fault, *, failures: int, since: float, until: float | None, operation: str | None = None
    ) -> None:
        """Goes on where an earlier process was, with what its `health()` said; what is known by now stays.

        *until* None: time alone does not end it, if the fault is fatal.
        """
        offset = self._caller.clock.now() - self._caller.clock.monotonic()
        end = (math.inf if fault.fatal else -math.inf) if until is None else until - offset
        known = Known(
            failures=whole(failures, field="failures"), since=since - offset, until=end, fault=fault, fatal=fault.fatal
        )
        self._caller.keys.restore(self._key, operation, known)

    def clear(self) -> None:
        """Forgets all state of the key, as after a reconnect: the next call goes at once."""
        self._caller.clear(self._key)
        self._shelf.forget(self._key)

    def hurry(self) -> None:
        """Somebody does not want to wait: the next call may go at once, unless the service asked for the wait.

        The run of failures goes on, with what people were told of it. A fatal fault needs `clear()`.
        """
        self._caller.keys.hurry(self._key)

    def disable(self, until: Until = None, by: str = "person", reason: str = "manual") -> None:
        """No call until then: "48h" or a timedelta from now, a datetime or UNIX time, or None until `enable()`."""
        end = None if until is None else _moment(until, self._caller.clock)
        self._caller.keys.disable(self._key, end, by, reason)
        self._caller.news.publish(EventKind.TARGET_DISABLED, self._key, fields={"reason": reason, "by": by})

    def enable(self, by: str = "person") -> bool:
        """Ends a cooldown, whoever ordered it; False when there was none."""
        ended = self._caller.keys.enable(self._key)
        if ended:
            self._caller.news.publish(EventKind.TARGET_ENABLED, self._key, fields={"by": by})
        return ended


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
        pack = rules if isinstance(rules, Pack) or rules is None else Pack(name, rules)
        policy = CallPolicy(
            name=valid_name(name, field="name"),
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
        _check_codes(cooldown, book)
        believed = (pack.confirm if pack is not None else ()) if confirm is None else tuple(confirm)
        breakers, group_of = breakers_of(name, breaker, groups, self._breaker_moved, clock, probe)
        self._caller = Caller(
            policy,
            breakers=breakers,
            groups=group_of,
            limits=_limits(rate, concurrency, seconds(wait, field="wait")),
            doubt=Doubt(believed, book),
            clock=clock,
            bus=bus,
            link=_link(self_guard, clock),
            dice=dice,
        )
        self._shelf = Shelf()
        self._stale = behind == "serve-stale"
        self._key = None
        self._follower: Follower | None = None
        self.behind = behind
        self.capacity = _capacity(capacity)
        self.probe_after = _probe_after(probe_after, probe)
        if store is not None:
            from tidegate.runtime.orders import Follower
            from tidegate.runtime.reporting import reporter_of

            reporter = reporter_of(store)
            self._caller.news.notify = reporter.notices_for(bus)
            self._follower = Follower(self._caller, self._shelf)
            reporter.add(name, self.summary, bus, self._caller.keys.adopt, self._follower.follow)

    def _breaker_moved(self, name: str, old: str, new: str) -> None:
        self._caller.breaker_moved(name, old, new)

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
        ill = self.unhealthy()
        holds = [each.hold for each in ill if each.hold is not None]
        shut = holds + [hold for hold in explained(self._caller, None, None) if hold.reason is HoldReason.BREAKER]
        return {
            "breakers": {
                each.name: {"state": each.state, "calls": sum(each.totals.values()), **each.counts._asdict()}
                for each in self.breakers.values()
            },
            "unhealthy": len(ill),
            "held": len(holds),
            "reasons": sorted({str(hold.reason) for hold in holds}),
            "codes": sorted({each.fault.code for each in ill if each.fault is not None}),
            "since": min((hold.since for hold in shut), default=None),
            "until": min((hold.until for hold in shut if hold.until is not None), default=None),
            "keys": list(_held_keys(ill).values())[:_MOST_KEYS],
        }

    def unhealthy(self) -> list[Health]:
        """Every key, and every operation, that is not well. A key that never failed is not even known."""
        return [health_of(self._caller, *found) for found in self._caller.keys.unhealthy()]

    def pause(self, until: Until, by: str = "person") -> None:
        """No call of any key until then; always with an end."""
        if until is None:
            raise ValueError("until: a pause always has an end; give a time")
        self._caller.keys.pause(_moment(until, self._caller.clock), f"Paused by {by}.")
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


def _held_keys(ill: Iterable[Health]) -> dict[str, dict[str, Any]]:
    """What holds each key, or else one of its operations, as people read it."""
    found: dict[str, dict[str, Any]] = {}
    for each in ill:
        if each.hold is not None:
            found.setdefault(key_text(each.key), {
                "key": key_text(each.key), "reason": str(each.hold.reason), "since": each.hold.since,
                "until": each.hold.until, "failures": each.failures, "code": each.hold.code,
                "message": each.hold.message,
            })  # fmt: skip
    return found


def _named(fn: Callable[..., Any]) -> str:
    return str(getattr(fn, "__name__", None) or type(fn).__name__)


def _limits(rate: Rate | float | None, concurrency: int | None, wait: float) -> Limits | None:
    if concurrency is not None:
        whole(concurrency, field="concurrency")
    if rate is None and concurrency is None:
        return None
    return Limits(rate if isinstance(rate, Rate) or rate is None else Rate(rate), concurrency, wait)


def _capacity(capacity: Capacity | None) -> Capacity | None:
    if capacity is not None and not isinstance(capacity, Capacity):
        raise TypeError(f"capacity: {capacity!r} is no Capacity")
    return capacity


def _probe_after(codes: Collection[str] | bool, probe: Callable[[], Any] | None) -> frozenset[str] | bool:
    if codes and probe is None:
        raise ValueError("probe_after: there is no probe that could be asked; give probe too")
    if isinstance(codes, str):
        raise TypeError(f"probe_after: {codes!r} is a text; give a set of codes")
    return codes if isinstance(codes, bool) else frozenset(codes)


def _link(self_guard: SelfGuard | bool, clock: Clock) -> own_links.SharedLink:
    if isinstance(self_guard, SelfGuard):
        return own_links.SharedLink(self_guard)
    return own_links.of(clock) if self_guard else own_links.OFF


def _check_codes(cooldown: Cooldown | None, book: CodeBook) -> None:
    for code in () if cooldown is None else (*cooldown.rests, *cooldown.same):
        if code not in book:
            raise ValueError(f"cooldown: there is no code {code!r} in the book of the target's rules")
        if book[code].reason in (Reason.THROTTLED, Reason.CANCELLED) or book[code].reach is Reach.SELF:
            raise ValueError(f"cooldown: {code!r} never counts towards a rest; leave it out")


def _moment(until: float | str | timedelta | datetime, clock: Clock) -> float:
    """*until* on the clock that never steps; ValueError when it is not ahead."""
    if isinstance(until, (str, timedelta)):
        left = seconds(until, field="until")
    else:
        left = (until.timestamp() if isinstance(until, datetime) else float(until)) - clock.now()
    if not 0 < left <= MOST:
        raise ValueError(f"until: {until!r} is not allowed; give a time ahead of now, at most a hundred years")
    return clock.monotonic() + left
