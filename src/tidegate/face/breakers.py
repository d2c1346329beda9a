"""Which breakers a target has: none, one, or one per declared group of its operations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any
from weakref import ref

from tidegate.machine.breaker import Breaker
from tidegate.runtime.caller import Caller
from tidegate.runtime.clock import Clock

Moved = Callable[[str, str, str], object]


class Telling:
    """Tells a caller of the changes of its breakers, and does not keep it.

    The numbers of a breaker outlive it, and with them its callback: a target must not live on by that.
    """

    __slots__ = ("_caller",)

    def __init__(self) -> None:
        self._caller: ref[Caller] | None = None

    def to(self, caller: Caller) -> None:
        self._caller = ref(caller)

    def __call__(self, name: str, old: str, new: str) -> None:
        caller = None if self._caller is None else self._caller()
        if caller is not None:
            caller.breaker_moved(name, old, new)


def breakers_of(
    name: str,
    given: Breaker | Mapping[str, Any] | bool | None,
    groups: Mapping[str, Iterable[str]] | None,
    moved: Moved,
    clock: Clock,
    probe: Callable[[], Any] | None,
) -> tuple[dict[str | None, Breaker], dict[str, str]]:
    """Breakers by group (None: everything else), and the group of each operation.

    *given* is a breaker of the user's own, its numbers as a mapping, or True for the usual numbers. One of their own
    tells of its changes only whom they named: these are no events, and concurrency does not ramp after them.
    """
    if not given:
        if groups:
            raise ValueError("groups: they are groups of breakers; give breaker=True or its numbers too")
        return {}, {}
    if isinstance(given, Breaker):
        if groups:
            raise ValueError("groups: each has a breaker of its own; give the numbers, not a Breaker")
        return {None: given}, {}
    _check_kinds(given, groups)
    numbers = {} if given is True else dict(given)
    if probe is not None:
        numbers.setdefault("timeout", None)  # with a probe, only the probe ends the open state
    told = numbers.pop("on_state_change", None)

    def make(label: str) -> Breaker:
        def on_state_change(which: str, old: str, new: str) -> None:
            moved(which, old, new)
            if told is not None:
                told(which, old, new)

        breaker = Breaker(label, on_state_change=on_state_change, clock=clock.monotonic, **numbers)
        breaker.read_on(clock.now)
        return breaker

    found: dict[str | None, Breaker] = {None: make(name)}
    group_of: dict[str, str] = {}
    for group, operations in (groups or {}).items():
        found[group] = make(f"{name}/{group}")
        for operation in operations:
            if operation in group_of:
                raise ValueError(f"groups: operation {operation!r} is in {group_of[operation]!r} and in {group!r}")
            group_of[operation] = group
    return found, group_of


def _check_kinds(given: object, groups: object) -> None:
    if given is not True and not isinstance(given, Mapping):
        raise TypeError(f"breaker: {given!r:.60} is no breaker; give True, its numbers as a mapping, or a Breaker")
    if groups is not None and not isinstance(groups, Mapping):
        raise TypeError(f"groups: {groups!r:.60} are no groups; give {{'a group': ['an operation', ...]}}")
    for group, operations in (groups or {}).items():
        if isinstance(operations, str):
            raise TypeError(f"groups: {operations!r} is a text; give the operations of {group!r} as a list")
