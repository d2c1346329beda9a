"""A whole client behind a target, without touching its calls."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, TypeVar, cast

from tidegate.face.guarding import guard
from tidegate.runtime.caller import Caller

C = TypeVar("C")


class Wrapped:
    """Passes everything on to the client; public methods go through the gates."""

    __slots__ = ("__weakref__", "_caller", "_client", "_guarded", "_key")

    def __init__(self, caller: Caller, key: Hashable, client: object) -> None:
        object.__setattr__(self, "_caller", caller)
        object.__setattr__(self, "_key", key)
        object.__setattr__(self, "_client", client)
        object.__setattr__(self, "_guarded", {})

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        if name.startswith("_") or not callable(found) or isinstance(found, type):
            return found
        kept = self._guarded.get(name)
        if kept is None or kept[0] != found:
            kept = self._guarded[name] = (found, guard(self._caller, found, lambda args, kwargs: self._key, name, 0))
        return kept[1]

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._client, name, value)

    def __dir__(self) -> list[str]:
        return dir(self._client)

    def __repr__(self) -> str:
        return f"<{self._client!r} behind {self._caller.policy.name!r}>"

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


def wrapped(caller: Caller, key: Hashable, client: C) -> C:
    return cast("C", Wrapped(caller, key, client))
