"""What an outcome changed in the state of its key, for those who must be told."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.machine.cooldown import Rest
from tidegate.machine.keystate import Told


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """What a failure changed: of which operation (None: of the key), in the episode that began at *since*."""

    operation: str | None
    since: float
    news: Told = Told.NOTHING  # what people must be told now
    rest: Rest | None = None  # the rest that has begun
    failures: int = 0  # in a row, of any code, when it began


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What a success ended."""

    operation: str | None
    since: float
    told: Told = Told.NOTHING  # what people had been told
    enabled: bool = False
    resolved: bool = False  # a fault that people were told of, and that held nothing
