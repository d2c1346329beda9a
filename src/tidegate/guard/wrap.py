"""Wraps a whole client in a target, without changes to its calls."""

from __future__ import annotations

import copy
import functools
import re
from collections.abc import Callable, Collection
from types import MethodType
from typing import Any, NoReturn, SupportsIndex, TypeVar, cast

from tidegate.guard.exchange import IDEMPOTENT
from tidegate.guard.functions import is_async_function
from tidegate.validation import did_you_mean

C = TypeVar("C")
Guard = Callable[[Callable[..., Any], str], Callable[..., Any]]

# Methods whose names begin with one of these only read, so they are safe to repeat. The docs list them.
READ_VERBS = (
    "check", "count", "describe", "download", "exists", "fetch", "find", "get", "has", "head", "is", "list", "load",
    "lookup", "options", "ping", "query", "read", "retrieve", "scan", "search", "select", "show", "stat", "status",
    "view",
)  # fmt: skip
_READS = re.compile(rf"a?(?:{'|'.join(READ_VERBS)})(?![a-z])")
# A hold must not keep a program from closing its client.
_NEVER_GUARDED = frozenset({"close", "aclose"})


class Methods:
    """The guarded methods of one client. It does not reference its wrapper, so the wrapper is freed without a cycle."""

    __slots__ = ("_guarded", "client", "guard")

    def __init__(self, client: Any, guard: Guard) -> None:
        self.client = client
        self.guard = guard
        self._guarded: dict[str, tuple[Any, Callable[..., Any]]] = {}

    def find(self, name: str, cache: dict[str, object]) -> Any:
        """Returns the client's current attribute, guarded if it is a public method.

        Stable methods are cached in *cache*.
        """
        attribute = getattr(self.client, name)
        if name.startswith("_") or name in _NEVER_GUARDED or not callable(attribute) or isinstance(attribute, type):
            return attribute
        if _is_method(self.client, name, attribute):
            return cache.setdefault(name, self.guard(_late(self.client, name, attribute), name))
        known = self._guarded.get(name)
        if known is None or known[0] != attribute:
            known = self._guarded[name] = (attribute, self.guard(attribute, name))
        return known[1]


def _is_method(client: object, name: str, attribute: Any) -> bool:
    """Whether it is a plain method of the client's class. A property may return another function each time."""
    return (
        isinstance(attribute, MethodType)
        and attribute.__self__ is client
        and getattr(type(client), name, None) is attribute.__func__
    )


def _late(client: object, name: str, method: MethodType) -> Callable[..., Any]:
    """Looks up the method at call time, because the program may have replaced it since."""
    if is_async_function(method):

        @functools.wraps(method)
        async def alate(*args: Any, **kwargs: Any) -> Any:
            return await getattr(client, name)(*args, **kwargs)

        return alate

    @functools.wraps(method)
    def late(*args: Any, **kwargs: Any) -> Any:
        return getattr(client, name)(*args, **kwargs)

    return late


class WrapperState:
    """Has its own namespace, in which methods are found without `__getattr__`."""

    __slots__ = ("__dict__", "__weakref__", "_methods", "_target")

    _methods: Methods
    _target: str


_kept = WrapperState.__dict__["__dict__"].__get__


class Wrapped(WrapperState):
    """Forwards everything to the client. Public methods, `def` and `async def`, are guarded.

    `isinstance` with the client's class is true.
    """

    __slots__ = ()

    def __init__(self, target: str, client: object, guard: Guard) -> None:
        object.__setattr__(self, "_target", target)
        object.__setattr__(self, "_methods", Methods(client, guard))

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self._methods.client)

    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        return self._methods.client.__dict__

    def __getattr__(self, name: str) -> Any:
        if name in WrapperState.__slots__:  # during copy, before the attributes are set
            raise AttributeError(name)
        return self._methods.find(name, _kept(self))

    def __setattr__(self, name: str, value: object) -> None:
        _kept(self).pop(name, None)
        setattr(self._methods.client, name, value)

    def __delattr__(self, name: str) -> None:
        _kept(self).pop(name, None)
        delattr(self._methods.client, name)

    def __dir__(self) -> list[str]:
        return dir(self._methods.client)

    def __repr__(self) -> str:
        return f"<{self._methods.client!r} behind {self._target!r}>"

    def __copy__(self) -> Any:
        return self._around(copy.copy(self._methods.client))

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self._around(copy.deepcopy(self._methods.client, memo))

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError(
            f"a client behind {self._target!r} cannot be pickled, for its gates are those of this process; "
            "pickle the client itself, and wrap it where it is loaded"
        )

    def _around(self, client: object) -> Any:
        """Wraps another client with the same guards: their failures are shared."""
        return Wrapped(self._target, client, self._methods.guard)

    def __enter__(self) -> Any:
        client = self._methods.client
        entered = client.__enter__()
        return self if entered is client else entered

    def __exit__(self, *details: object) -> Any:
        return self._methods.client.__exit__(*details)

    async def __aenter__(self) -> Any:
        client = self._methods.client
        entered = await client.__aenter__()
        return self if entered is client else entered

    async def __aexit__(self, *details: object) -> Any:
        return await self._methods.client.__aexit__(*details)


def repeats(client: object, retry: object, methods: Collection[str] | None) -> Callable[[str], bool]:
    """Returns a check whether a method may be retried. TypeError and ValueError for invalid *methods*."""
    also = _checked(retry, methods)
    known = [name for name in dir(client) if not name.startswith("_")] if also else []
    for name in also:
        if name not in known or not callable(getattr(client, name, None)):
            raise ValueError(
                f"retry_methods must be methods of {type(client).__name__}, got {name!r:.60}{did_you_mean(name, known)}"
            )
    return lambda name: name in also or _READS.match(name) is not None


def repeated_methods(retry: object, methods: Collection[str] | None) -> frozenset[str]:
    """Returns the HTTP methods that may be retried: idempotent ones, and *methods*."""
    also = _checked(retry, methods)
    for name in also:
        if not str(name).isalpha() or name != str(name).upper():
            raise ValueError(f"retry_methods must be HTTP methods, got {name!r:.60}; give ['POST']")
    return IDEMPOTENT | also


def _checked(retry: object, methods: Collection[str] | None) -> frozenset[str]:
    if methods is None:
        return frozenset()
    if isinstance(methods, str) or not isinstance(methods, Collection):
        raise TypeError(
            f"retry_methods must be a list of names of methods or None, got {methods!r:.60};"
            f" did you mean retry_methods=[{methods!r:.60}]?"
        )
    if retry is None:
        raise ValueError(f"retry_methods needs retry, got {methods!r:.60} without it; did you mean retry=3 as well?")
    return frozenset(methods)


def wrap_client(target: str, client: C, guard: Guard) -> C:
    return cast("C", Wrapped(target, client, guard))
