"""A whole client behind a target, without touching its calls."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import MethodType
from typing import Any, Protocol, TypeVar, cast

from tidegate.face.signatures import is_async

C = TypeVar("C")
Method = Callable[..., Any]

# A gate that is shut must not keep a program from cleaning up.
_NEVER_GUARDED = frozenset({"close", "aclose"})


class Guards(Protocol):
    """What stands before the methods of a client."""

    def guard(self, fn: Method, name: str) -> Method:
        """*fn* behind the gates."""

    def first(self, fn: Method, name: str) -> Method | None:
        """*fn* behind the one gate that is quick to ask; None when there is none."""


class Methods:
    """The guarded methods of one client. It does not hold its wrapper, which goes when nobody else does."""

    __slots__ = ("_guarded", "client", "guards")

    def __init__(self, client: Any, guards: Guards) -> None:
        self.client = client
        self.guards = guards
        self._guarded: dict[str, tuple[Any, Method]] = {}

    def find(self, name: str) -> Any:
        """The client's attribute as it is at this moment, guarded if it is a public method."""
        found = getattr(self.client, name)
        if name.startswith("_") or name in _NEVER_GUARDED or not callable(found) or isinstance(found, type):
            return found
        kept = self._guarded.get(name)
        if kept is None or kept[0] != found:
            kept = self._guarded[name] = (found, self.guards.guard(found, name))
        return kept[1]

    def kept(self, name: str, guarded: Any) -> Method | None:
        """What the wrapper may keep for good under this name; None when each use must look anew.

        It looks for the client's method when it is called, and only if the first gate does not say no already.
        """
        known = self._guarded.get(name)
        if known is None or known[1] is not guarded or not self._of_its_class(name, known[0]):
            return None
        if is_async(guarded):

            @functools.wraps(guarded)
            async def afound(*args: Any, **kwargs: Any) -> Any:
                return await self.find(name)(*args, **kwargs)

            return self.guards.first(afound, name)

        @functools.wraps(guarded)
        def found(*args: Any, **kwargs: Any) -> Any:
            return self.find(name)(*args, **kwargs)

        return self.guards.first(found, name)

    def _of_its_class(self, name: str, found: Any) -> bool:
        """Whether it is a plain method: a property may give another function each time."""
        return (
            isinstance(found, MethodType)
            and found.__self__ is self.client
            and getattr(type(self.client), name, None) is found.__func__
        )


class Keeping:
    """Has a namespace of its own, in which methods are found without asking."""

    __slots__ = ("__dict__", "__weakref__", "_methods", "_target")

    _methods: Methods
    _target: str


_kept = Keeping.__dict__["__dict__"].__get__


class Wrapped(Keeping):
    """Passes everything on to the client; public methods, `def` and `async def`, go through the gates.

    It says that it is of the client's class, for those who ask with `isinstance`.
    """

    __slots__ = ()

    def __init__(self, target: str, client: object, guards: Guards) -> None:
        object.__setattr__(self, "_target", target)
        object.__setattr__(self, "_methods", Methods(client, guards))

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self._methods.client)

    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        return self._methods.client.__dict__

    def __getattr__(self, name: str) -> Any:
        if name in Keeping.__slots__:  # a copy that is not made yet
            raise AttributeError(name)
        methods = self._methods
        found = methods.find(name)
        quick = methods.kept(name, found)
        return found if quick is None else _kept(self).setdefault(name, quick)

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


def wrapped(target: str, client: C, guards: Guards) -> C:
    return cast("C", Wrapped(target, client, guards))
