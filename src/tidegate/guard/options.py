"""Options of a target, checked and converted: its policy and its breakers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import Any
from weakref import ref

from tidegate import validation
from tidegate.clock import Clock
from tidegate.faults.codes import CodeBook
from tidegate.faults.confirm import Confirm
from tidegate.faults.fault import Reach, Reason
from tidegate.guard import network_guard
from tidegate.guard.backoff import Backoff
from tidegate.guard.breaker import Breaker
from tidegate.guard.breaker_policy import BreakerPolicy
from tidegate.guard.capacity import Capacity
from tidegate.guard.cooldown import Cooldown
from tidegate.guard.key_breakers import KeyBreakers
from tidegate.guard.limits import MAX_RATE, MIN_RATE, CallLimits, Rate
from tidegate.guard.network_guard import NetworkGuardPolicy
from tidegate.guard.pipeline import CallPipeline
from tidegate.guard.profiles import PER, BreakerOptions
from tidegate.validation import did_you_mean, number, whole

# -- policy ---------------------------------------------------------------------------------------------------------


def check_kinds(
    backoff: object, cooldown: object, probe: object, user: object, title: object, store: object, clock: object
) -> None:
    """Checks options that are only used when a call fails, so that mistakes show at construction."""
    validation.text(title, field="title")
    validation.clock(clock)
    if not (store is None or isinstance(store, str)):
        raise TypeError(f"store must be the URL of a database or None, got {store!r:.60}; give 'sqlite:///jobs.db'")
    if backoff is not None and not isinstance(backoff, Backoff):
        meant = (
            f"; did you mean Backoff({backoff!r:.20})?" if type(backoff) in (str, int, float) else "; give Backoff(...)"
        )
        raise TypeError(f"backoff must be a Backoff or None, got {backoff!r:.60}{meant}")
    if cooldown is not None and not isinstance(cooldown, Cooldown):
        raise TypeError(f"cooldown must be a Cooldown or None, got {cooldown!r:.60}; give Cooldown(...)")
    if probe is not None:
        if not callable(probe):
            raise TypeError(f"probe must be a function without parameters or None, got {probe!r:.60}")
        validation.parameters(probe, field="probe")
    if user is not None:
        if not callable(user):
            raise TypeError(f"user must be a function of the key or None, got {user!r:.60}")
        validation.parameters(user, "key", field="user")


def confirmed_of(confirm: object) -> tuple[Confirm, ...]:
    if confirm is None or confirm is False:
        return ()
    if isinstance(confirm, str) or not isinstance(confirm, Iterable):
        raise TypeError(f"confirm must be a list of Confirm or None, got {confirm!r:.60}; give [Confirm(...)]")
    policies = tuple(confirm)
    for policy in policies:
        if not isinstance(policy, Confirm):
            raise TypeError(f"confirm must be a list of Confirm, got {policy!r:.60} in it; give [Confirm(...)]")
    return policies


def limits_of(rate: Rate | float | None, concurrency: int | None, wait: float) -> CallLimits | None:
    if concurrency is not None:
        whole(concurrency, field="concurrency")
    if isinstance(rate, str):
        raise TypeError(
            f"rate must be a Rate, or a number from {MIN_RATE:g} to {MAX_RATE:g} of calls a second, got {rate!r:.60};"
            " did you mean Rate(10, '1s')?"
        )
    if not (rate is None or isinstance(rate, Rate)):
        number(rate, field="rate", minimum=MIN_RATE, maximum=MAX_RATE)
    if rate is None and concurrency is None:
        return None
    return CallLimits(rate if isinstance(rate, Rate) or rate is None else Rate(rate), concurrency, wait)


def capacity_of(capacity: Capacity | None) -> Capacity | None:
    if capacity is not None and not isinstance(capacity, Capacity):
        raise TypeError(f"capacity must be a Capacity or None, got {capacity!r:.60}; give Capacity(...)")
    return capacity


def probe_after_of(codes: Collection[str] | bool, probe: Callable[[], Any] | None) -> frozenset[str] | bool:
    value: object = codes
    if isinstance(value, str) or not isinstance(value, Collection | bool):
        hint = f"; did you mean {{{value!r:.60}}}?" if isinstance(value, str) else ""
        raise TypeError(f"probe_after must be a set of codes, True or False, got {value!r:.60}{hint}")
    if codes and probe is None:
        raise ValueError(f"probe_after needs a probe that can be asked, got {codes!r:.60} without one; give probe too")
    return codes if isinstance(codes, bool) else frozenset(codes)


def link_of(self_guard: NetworkGuardPolicy | bool | None, clock: Clock) -> network_guard.ProcessNetworkGuard:
    if isinstance(self_guard, NetworkGuardPolicy):
        return network_guard.ProcessNetworkGuard(self_guard)
    if not (self_guard is None or isinstance(self_guard, bool)):
        raise TypeError(
            f"self_guard must be a NetworkGuardPolicy, True or False, got {self_guard!r:.60};"
            " give NetworkGuardPolicy(hosts=5)"
        )
    return network_guard.of(clock) if self_guard else network_guard.OFF


def check_codes(cooldown: Cooldown | None, code_book: CodeBook) -> None:
    for code in () if cooldown is None else (*cooldown.rests, *cooldown.same):
        if code not in code_book:
            raise ValueError(f"cooldown: the target's rules have no code {code!r}{did_you_mean(code, code_book)}")
        if code_book[code].reason in (Reason.THROTTLED, Reason.CANCELLED) or code_book[code].reach is Reach.SELF:
            raise ValueError(f"cooldown: {code!r} never counts towards a rest; leave it out")


# -- breakers -------------------------------------------------------------------------------------------------------

Moved = Callable[[str, str, str, Hashable], object]


class BreakerListener:
    """Passes changes of breakers to their pipeline without keeping it alive.

    The totals of a breaker outlive it, and so does its callback. They must not keep the target alive.
    """

    __slots__ = ("_pipeline",)

    def __init__(self) -> None:
        self._pipeline: ref[CallPipeline] | None = None

    def to(self, pipeline: CallPipeline) -> None:
        self._pipeline = ref(pipeline)

    def __call__(self, name: str, old: str, new: str, key: Hashable = None) -> None:
        caller = None if self._pipeline is None else self._pipeline()
        if caller is not None:
            caller.breaker_moved(name, old, new, key)


def breakers_of(
    name: str,
    given: Breaker | Mapping[str, Any] | None,
    groups: Mapping[str, Iterable[str]] | None,
    per: str,
    moved: Moved,
    clock: Clock,
) -> tuple[dict[str | None, Breaker], dict[str, str], KeyBreakers | None]:
    """Returns the breakers by group (None: all other operations), the group of each operation, and the key breakers.

    *given* is the user's breaker, a dict of options, or None for no breaker. The user's breaker reports changes only to
    its own callback: they are not events, and concurrency does not ramp after them.
    """
    _check_groups(given, groups, per)
    if given is None:
        return {}, {}, None
    if isinstance(given, Breaker):
        return {None: given}, {}, None
    numbers = dict(given)
    listener = numbers.pop("on_state_change", None)

    def make(label: str, key: Hashable = None) -> Breaker:
        def on_state_change(which: str, old: str, new: str) -> None:
            moved(which, old, new, key)
            if listener is not None:
                listener(which, old, new)

        breaker = Breaker(label, on_state_change=on_state_change, clock=clock.monotonic, **numbers)
        breaker.read_on(clock.now)
        return breaker

    if per == "key":
        policy = BreakerPolicy(name=name, **numbers)  # invalid options raise now, not at the first failure
        made = KeyBreakers(lambda key: make(name, key), monotonic=clock.monotonic, idle_after=policy.idle_after)
        return {}, {}, made
    group_of = _groups_of(groups or {})
    return {None: make(name), **{group: make(f"{name}/{group}") for group in groups or {}}}, group_of, None


def _groups_of(groups: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """Returns the group of each operation."""
    group_of: dict[str, str] = {}
    for group, operations in groups.items():
        for operation in operations:
            if operation in group_of:
                raise ValueError(f"groups: operation {operation!r} is in {group_of[operation]!r} and in {group!r}")
            group_of[operation] = group
    return group_of


def check_breaker(given: object, per: object) -> None:
    if not (given is None or given == "profile" or isinstance(given, (bool, Breaker, Mapping))):
        raise TypeError(
            f"breaker must be a dict of its options, a Breaker, True, False or None, got {given!r:.60};"
            " did you mean breaker={'consecutive': 5}?"
        )
    if per not in PER:
        raise ValueError(f"breaker_per must be 'target' or 'key', got {per!r:.60}{did_you_mean(per, PER)}")
    for option in given if isinstance(given, Mapping) else ():
        if option not in BreakerOptions.__annotations__:
            raise ValueError(f"breaker: got {option!r:.60}; {_instead_of(option)}")


def check_per_key(profile: str, given: object, *, has_breaker: bool, has_probe: bool) -> None:
    """Rejects options that do not work with `breaker_per="key"`."""
    if not has_breaker:
        cause = f"breaker={given}" if given in (None, False) else f"profile {profile!r}, which has no breaker"
        raise ValueError(f"breaker_per='key' needs a breaker, got {cause}; give breaker=True or its numbers")
    if has_probe:
        raise ValueError(
            "breaker_per='key' got a probe, but a probe has no key; leave the probe out, or give breaker_per='target'"
        )


def _instead_of(option: object) -> str:
    """Returns the replacement for an option that the breaker of a target does not accept."""
    if option == "counts_as_failure":
        return "give faults={Class: code} to the target, which says what an exception means"
    if option in ("name", "clock"):
        return f"the breaker has the {option} of its target, so leave it out"
    allowed = list(BreakerOptions.__annotations__)
    return f"allowed are {', '.join(allowed)}{did_you_mean(_OTHER_NAMES.get(str(option), option), allowed)}"


# Options of pybreaker, circuitbreaker and resilience4j, and ours.
_OTHER_NAMES = {
    "fail_max": "consecutive",
    "failure_threshold": "consecutive",
    "reset_timeout": "timeout",
    "recovery_timeout": "timeout",
    "success_threshold": "max_requests",
}


def _check_groups(given: object, groups: object, per: str) -> None:
    if groups and given is None:
        raise ValueError("groups are groups of breakers, got no breaker; give breaker=True or its options too")
    if groups and isinstance(given, Breaker):
        raise ValueError("groups have a breaker each, got one Breaker; give its options as a dict instead")
    if per == "key" and isinstance(given, Breaker):
        raise ValueError("breaker_per='key' makes a breaker for each key, got one Breaker; give its options as a dict")
    if per == "key" and groups:
        raise ValueError("breaker_per='key' does not go with groups; give one of them")
    if groups is not None and not isinstance(groups, Mapping):
        raise TypeError(
            f"groups must be a dict of lists of operations, got {groups!r:.60}; give {{'search': ['find', 'suggest']}}"
        )
    for group, operations in (groups or {}).items():
        if isinstance(operations, str):
            raise TypeError(
                f"groups[{group!r}] must be a list of operations, got {operations!r}; did you mean [{operations!r}]?"
            )
