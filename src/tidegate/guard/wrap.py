"""A whole client behind a target, without touching its calls."""

from __future__ import annotations

import copy
import functools
import re
from collections.abc import Callable, Collection
from difflib import get_close_matches
from types import MethodType
from typing import Any, NoReturn, SupportsIndex, TypeVar, cast

from tidegate.guard.functions import is_async_function

C = TypeVar("C")
Guard = Callable[[Callable[..., Any], str], Callable[..., Any]]

# First words of methods that may do something twice when they are called twice.
_NOT_REPEATED = re.compile(
    r"a?(?:post|patch|request|send|create|add|insert|append|publish|submit|upload|import|start|trigger|execute|run|pay"
    r"|charge|refund|transfer|order|book|buy|sell|notify|increment|enqueue|push|invite)(?![a-z])"
)
# A gate that is shut must not keep a program from cleaning up.
_NEVER_GUARDED = frozenset({"close", "aclose"})


class Methods:
    """The guarded methods of one client. It does not hold its wrapper, which goes when nobody else does."""

    __slots__ = ("_guarded", "client", "guard")

    def __init__(self, client: Any, guard: Guard) -> None:
        self.client = client
        self.guard = guard
        self._guarded: dict[str, tuple[Any, Callable[..., Any]]] = {}

    def find(self, name: str, kept: dict[str, Any]) -> Any:
        """The client's attribute as it is now, guarded if it is a public method; *kept* if it may stay."""
        found = getattr(self.client, name)
        if name.startswith("_") or name in _NEVER_GUARDED or not callable(found) or isinstance(found, type):
            return found
        if _is_method(self.client, name, found):
            return kept.setdefault(name, self.guard(_late(self.client, name, found), name))
        known = self._guarded.get(name)
        if known is None or known[0] != found:
            known = self._guarded[name] = (found, self.guard(found, name))
        return known[1]


def _is_method(client: object, name: str, found: Any) -> bool:
    """Whether it is a plain method of the client's class: a property may give another function each time."""
    return (
        isinstance(found, MethodType)
        and found.__self__ is client
        and getattr(type(client), name, None) is found.__func__
    )


def _late(client: object, name: str, found: MethodType) -> Callable[..., Any]:
    """The method that the client has when it is called: somebody may have put another in its place by then."""
    if is_async_function(found):

        @functools.wraps(found)
        async def alate(*args: Any, **kwargs: Any) -> Any:
            return await getattr(client, name)(*args, **kwargs)

        return alate

    @functools.wraps(found)
    def late(*args: Any, **kwargs: Any) -> Any:
        return getattr(client, name)(*args, **kwargs)

    return late


class WrapperState:
    """Has a namespace of its own, in which methods are found without asking."""

    __slots__ = ("__dict__", "__weakref__", "_methods", "_target")

    _methods: Methods
    _target: str


_kept = WrapperState.__dict__["__dict__"].__get__


class Wrapped(WrapperState):
    """Passes everything on to the client; public methods, `def` and `async def`, go through the gates.

    It says that it is of the client's class, for those who ask with `isinstance`.
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
        if name in WrapperState.__slots__:  # a copy that is not made yet
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
        """Another client behind the same gates: what one of them meets holds the other, too."""
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
    """Whether a method of this name may be repeated; TypeError and ValueError for *methods* that cannot be."""
    if methods is None:
        return lambda name: _NOT_REPEATED.match(name) is None
    if isinstance(methods, str) or not isinstance(methods, Collection):
        raise TypeError(
            f"retry_methods must be a list of names of methods or None, got {methods!r:.60};"
            f" did you mean retry_methods=[{methods!r:.60}]?"
        )
    if retry is None:
        raise ValueError(f"retry_methods needs retry, got {methods!r:.60} without it; did you mean retry=3 as well?")
    known = [name for name in dir(client) if not name.startswith("_") and callable(getattr(client, name, None))]
    for name in methods:
        if name not in known:
            close = get_close_matches(str(name), known, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise ValueError(f"retry_methods must be methods of {type(client).__name__}, got {name!r:.60}{hint}")
    return frozenset(methods).__contains__


def wrap_client(target: str, client: C, guard: Guard) -> C:
    return cast("C", Wrapped(target, client, guard))
