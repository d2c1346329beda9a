"""Rule packs, ready-made and your own; all of them live in the core, and each is loaded when it is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidegate.core.rules import *  # noqa: F403
else:
    from tidegate.core import rules as _packs

    __all__ = _packs.__all__

    def __getattr__(name: str) -> object:
        if name in __all__:
            return getattr(_packs, name)
        raise AttributeError(f"module 'tidegate.rules' has no attribute {name!r}", name=name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
