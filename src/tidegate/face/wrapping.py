"""A whole client behind a target, without touching its calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

C = TypeVar("C")
Guard = Callable[[Callable[..., Any], str], Callable[..., Any]]

# A gate that is shut must not keep a program from cleaning up.
_NEVER_GUARDED = frozenset({"close", "aclose"})


class Wrapped:
    """Passes everything on to the client; public methods, `def` and `async def`, go through the gates.

    It says that it is of the client's class, for those who ask with `isinstance`.
    """

    __slots__ = ("__weakref__", "_client", "_guard", "_guarded", "_target")

    def __init__(self, target: str, client: object, guard: Guard) -> None:
        object.__setattr__(self, "_target", target)
        object.__setattr__(self, "_client", client)
        object.__setattr__(self, "_guard", guard)
        object.__setattr__(self, "_guarded", {})

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self._client)

    def __getattr__(self, name: str) -> Any:
        if name in Wrapped.__slots__:  # a copy that is not made yet
            raise AttributeError(name)
        found = getattr(self._client, name)
        if name.startswith("_") or name in _NEVER_GUARDED or not callable(found) or isinstance(found, type):
            return found
        kept = self._guarded.get(name)
        if kept is None or kept[0] != found:
            kept = self._guarded[name] = (found, self._guard(found, name))
        return kept[1]

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._client, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._client, name)

    def __dir__(self) -> list[str]:
        return dir(self._client)

    def __repr__(self) -> str:
        return f"<{self._client!r} behind {self._target!r}>"

    def __enter__(self) -> Any:
        entered = self._client.__enter__()
        return self if entered is self._client else entered

    def __exit__(self, *details: object) -> Any:
        return self._client.__exit__(*details)

    async def __aenter__(self) -> Any:
        entered = await self._client.__aenter__()
        return self if entered is self._client else entered

    async def __aexit__(self, *details: object) -> Any:
        return await self._client.__aexit__(*details)


def wrapped(target: str, client: C, guard: Guard) -> C:
    return cast("C", Wrapped(target, client, guard))
