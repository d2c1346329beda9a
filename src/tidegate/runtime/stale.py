"""The last good answer of a call, for when there is no new one."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")
CacheKey = tuple[Hashable, Hashable]  # a key, and what was asked


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """A value, whether it is an old one, and how old: seconds since it was fetched."""

    value: T
    stale: bool
    age: float


class StaleCache:
    """The last good values per key, function and arguments; at most so many, the oldest go first."""

    __slots__ = ("_lock", "_limit", "_values")

    def __init__(self, limit: int = 256) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._values: OrderedDict[CacheKey, tuple[Any, float]] = OrderedDict()

    def put(self, entry_key: CacheKey, value: object, now: float) -> None:
        with self._lock:
            self._values[entry_key] = (value, now)
            self._values.move_to_end(entry_key)
            if len(self._values) > self._limit:
                self._values.popitem(last=False)

    def get(self, entry_key: CacheKey, now: float) -> Answer[Any] | None:
        with self._lock:
            found = self._values.get(entry_key)
        return None if found is None else Answer(found[0], stale=True, age=max(0.0, now - found[1]))

    def forget(self, key: Hashable) -> None:
        """A reconnect: another account may have other answers."""
        with self._lock:
            for place in [place for place in self._values if place[0] == key]:
                del self._values[place]


def cache_key(key: Hashable, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> CacheKey:
    """What tells one call from another; TypeError when an argument cannot be told apart by value."""
    named = tuple(sorted(kwargs.items()))
    # 1, 1.0 and True are equal, and not the same question.
    place = (key, (fn, args, named, tuple(map(type, args)), tuple(type(value) for _, value in named)))
    try:
        hash(place)
    except TypeError as error:
        raise TypeError(f"stale answers need hashable arguments: {error}") from error
    return place
