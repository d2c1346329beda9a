"""Places in lists that go on, as addresses say them: one that is no longer good begins anew instead of failing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
_MAX_DIGITS = 15  # every JSON reader holds such a number, and every database


def cursor_of(given: str, ask: Callable[[str | None], T]) -> T:
    """What *ask* finds at this place; at the beginning when there is no such place."""
    try:
        return ask(given or None)
    except ValueError:
        if not given:
            raise
        return ask(None)


def number_of(text: str) -> int | None:
    """The number that a part of an address says; None when it says none, or one that no table has.

    Python reads digits of other scripts too, and refuses what has thousands of them.
    """
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS else None
