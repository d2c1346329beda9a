"""How far something long is. Whoever does it tells; whoever waits for it listens, and may raise to end it."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[int, int], None]  # done so far, of how many
Stages = Callable[[str], Progress]  # what is begun now; until it tells, nobody knows how much of it there is


def unheard(_done: int, _total: int) -> None:
    """Nobody waits for it."""


def unwatched(_stage: str) -> Progress:
    """Nobody waits for any of it."""
    return unheard
