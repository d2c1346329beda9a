"""Lists that go on: a cursor that is no longer good begins anew instead of failing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def cursor_of(given: str, ask: Callable[[str | None], T]) -> T:
    """What *ask* finds at this place; at the beginning when there is no such place."""
    try:
        return ask(given or None)
    except ValueError:
        if not given:
            raise
        return ask(None)
