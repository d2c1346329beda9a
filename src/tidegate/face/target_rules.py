"""What a target is given beside its breakers, looked at and put into the form that it works with."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from tidegate.core.checks import whole
from tidegate.core.codes import CodeBook
from tidegate.core.fault import Reach, Reason
from tidegate.core.policy import Cooldown
from tidegate.core.rate import Rate
from tidegate.machine.own_link import SelfGuard
from tidegate.runtime import own_links
from tidegate.runtime.capacity import Capacity
from tidegate.runtime.clock import Clock
from tidegate.runtime.limits import Limits


def limits_of(rate: Rate | float | None, concurrency: int | None, wait: float) -> Limits | None:
    if concurrency is not None:
        whole(concurrency, field="concurrency")
    if rate is None and concurrency is None:
        return None
    return Limits(rate if isinstance(rate, Rate) or rate is None else Rate(rate), concurrency, wait)


def capacity_of(capacity: Capacity | None) -> Capacity | None:
    if capacity is not None and not isinstance(capacity, Capacity):
        raise TypeError(f"capacity: {capacity!r} is no Capacity")
    return capacity


def probe_after_of(codes: Collection[str] | bool, probe: Callable[[], Any] | None) -> frozenset[str] | bool:
    if codes and probe is None:
        raise ValueError("probe_after: there is no probe that could be asked; give probe too")
    if isinstance(codes, str):
        raise TypeError(f"probe_after: {codes!r} is a text; give a set of codes")
    return codes if isinstance(codes, bool) else frozenset(codes)


def link_of(self_guard: SelfGuard | bool, clock: Clock) -> own_links.SharedLink:
    if isinstance(self_guard, SelfGuard):
        return own_links.SharedLink(self_guard)
    return own_links.of(clock) if self_guard else own_links.OFF


def check_codes(cooldown: Cooldown | None, book: CodeBook) -> None:
    for code in () if cooldown is None else (*cooldown.rests, *cooldown.same):
        if code not in book:
            raise ValueError(f"cooldown: there is no code {code!r} in the book of the target's rules")
        if book[code].reason in (Reason.THROTTLED, Reason.CANCELLED) or book[code].reach is Reach.SELF:
            raise ValueError(f"cooldown: {code!r} never counts towards a rest; leave it out")
