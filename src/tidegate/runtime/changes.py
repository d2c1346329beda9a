"""What an outcome changed in the state of its key, for those who must be told."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.machine.cooldown import CooldownState
from tidegate.machine.keystate import Notified


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureChange:
    """What a failure changed: of which operation (None: of the key), in the episode that began at *since*."""

    operation: str | None
    since: float
    news: Notified = Notified.NOTHING  # what people must be told now
    rest: CooldownState | None = None  # the rest that has begun
    failures: int = 0  # in a row, of any code, when it began


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryChange:
    """What a success ended."""

    operation: str | None
    since: float
    told: Notified = Notified.NOTHING  # what people had been told
    enabled: bool = False
    resolved: bool = False  # a fault that people were told of, and that held nothing
