"""What one gateway takes on, as one frozen value."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

MIB = 1024 * 1024


def _cores() -> int:
    return max(2, os.cpu_count() or 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayLimits:
    """Bounds of a gateway; times are seconds.

    *time* is by the clock and ends a conversion on a machine that is too busy; *cpu* and *memory_mb* end one whose
    document asks for too much. An answer to a job_id is kept for *kept_for*, while there is room.
    """

    pdf_bytes: int = 50 * MIB
    xml_bytes: int = 512 * MIB
    body_time: float = 120.0  # for all of a request's body
    uploads: int = 64  # requests at a time whose body is arriving
    conversions: int = field(default_factory=_cores)  # at a time, each in a child process of its own
    waiting: int = 64  # requests that wait for one of those
    memory_mb: int = 1024
    cpu: float = 60.0
    time: float = 150.0
    kept: int = 256
    kept_bytes: int = 512 * MIB
    kept_for: float = 900.0
    folder: Path | None = None  # where its own folder is made; None: where the system puts temporary files

    @classmethod
    def for_one_who_waits(cls, seconds: float, pdf_bytes: int) -> Self:
        """Those for a caller that waits so long for one conversion: it is ended before, so that it hears of it."""
        usual = cls(pdf_bytes=pdf_bytes)
        return replace(usual, cpu=max(usual.cpu, seconds / 3), time=max(usual.time, seconds * 5 / 6))

    def __post_init__(self) -> None:
        for name in ("pdf_bytes", "xml_bytes", "uploads", "conversions", "memory_mb"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: {getattr(self, name)} is not allowed; give 1 or more")
        for name in ("body_time", "cpu", "time"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}: {getattr(self, name)} is not allowed; give more than 0 seconds")
        for name in ("waiting", "kept", "kept_bytes", "kept_for"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}: {getattr(self, name)} is not allowed; give 0 or more")
