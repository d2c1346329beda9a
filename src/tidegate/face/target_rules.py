"""What a target is given beside its breakers, looked at and put into the form that it works with."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from tidegate.core import checks
from tidegate.core.backoff import Backoff
from tidegate.core.checks import number, whole
from tidegate.core.codes import CodeBook
from tidegate.core.fault import Reach, Reason
from tidegate.core.policy import Confirm, Cooldown
from tidegate.core.rate import MAX_RATE, MIN_RATE, Rate
from tidegate.machine.own_link import NetworkGuardPolicy
from tidegate.runtime import own_links
from tidegate.runtime.capacity import Capacity
from tidegate.runtime.clock import Clock
from tidegate.runtime.limits import CallLimits


def check_kinds(
    backoff: object, cooldown: object, probe: object, user: object, title: object, store: object, clock: object
) -> None:
    """What is asked only when a call fails is looked at before the first one is made."""
    checks.text(title, field="title")
    checks.clock(clock)
    if not (store is None or isinstance(store, str)):
        raise TypeError(f"store must be the URL of a database or None, got {store!r:.60}; give 'sqlite:///jobs.db'")
    if backoff is not None and not isinstance(backoff, Backoff):
        meant = f"; did you mean Backoff({backoff!r:.20})?" if isinstance(backoff, (str, int, float)) else ""
        raise TypeError(f"backoff must be a Backoff or None, got {backoff!r:.60}{meant}")
    if cooldown is not None and not isinstance(cooldown, Cooldown):
        raise TypeError(f"cooldown: {cooldown!r:.60} is no Cooldown; give Cooldown(...) or None")
    if probe is not None and not callable(probe):
        raise TypeError(f"probe: {probe!r:.60} cannot be called; give a function without parameters, or None")
    if user is not None and not callable(user):
        raise TypeError(f"user: {user!r:.60} cannot be called; give a function of the key, or None")


def confirmed_of(confirm: object) -> tuple[Confirm, ...]:
    if isinstance(confirm, str) or not isinstance(confirm, Iterable):
        raise TypeError(f"confirm: {confirm!r:.60} is no list; give [Confirm(...)]")
    found = tuple(confirm)
    for each in found:
        if not isinstance(each, Confirm):
            raise TypeError(f"confirm: {each!r:.60} is no Confirm; give [Confirm(...)]")
    return found


def limits_of(rate: Rate | float | None, concurrency: int | None, wait: float) -> CallLimits | None:
    if concurrency is not None:
        whole(concurrency, field="concurrency")
    if not (rate is None or isinstance(rate, Rate)):
        number(rate, field="rate", minimum=MIN_RATE, maximum=MAX_RATE)
    if rate is None and concurrency is None:
        return None
    return CallLimits(rate if isinstance(rate, Rate) or rate is None else Rate(rate), concurrency, wait)


def capacity_of(capacity: Capacity | None) -> Capacity | None:
    if capacity is not None and not isinstance(capacity, Capacity):
        raise TypeError(f"capacity: {capacity!r:.60} is no Capacity; give Capacity(...) or None")
    return capacity


def probe_after_of(codes: Collection[str] | bool, probe: Callable[[], Any] | None) -> frozenset[str] | bool:
    given: object = codes
    if isinstance(given, str) or not isinstance(given, Collection | bool):
        hint = f"; did you mean {{{given!r:.60}}}?" if isinstance(given, str) else ""
        raise TypeError(f"probe_after must be a set of codes, True or False, got {given!r:.60}{hint}")
    if codes and probe is None:
        raise ValueError(f"probe_after needs a probe that can be asked, got {codes!r:.60} without one; give probe too")
    return codes if isinstance(codes, bool) else frozenset(codes)


def link_of(self_guard: NetworkGuardPolicy | bool, clock: Clock) -> own_links.ProcessNetworkGuard:
    if isinstance(self_guard, NetworkGuardPolicy):
        return own_links.ProcessNetworkGuard(self_guard)
    if not isinstance(self_guard, bool):
        raise TypeError(
            f"self_guard must be a SelfGuard, True or False, got {self_guard!r:.60}; give SelfGuard(hosts=5)"
        )
    return own_links.of(clock) if self_guard else own_links.OFF


def check_codes(cooldown: Cooldown | None, code_book: CodeBook) -> None:
    for code in () if cooldown is None else (*cooldown.rests, *cooldown.same):
        if code not in code_book:
            raise ValueError(f"cooldown: there is no code {code!r} in the book of the target's rules")
        if code_book[code].reason in (Reason.THROTTLED, Reason.CANCELLED) or code_book[code].reach is Reach.SELF:
            raise ValueError(f"cooldown: {code!r} never counts towards a rest; leave it out")
