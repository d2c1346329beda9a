"""Why a breaker opened: the rule that did it, and what had been counted by then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class OpenedBy(StrEnum):
    """What opens a breaker whose state is a row."""

    CONSECUTIVE = "run"  # so many failures in a row
    RATIO = "ratio"  # so many of its calls
    RULE = "rule"  # a rule of the user's own
    HALF_OPEN = "trial"  # a trial call failed while it was half-open
    PROBE = "probe"  # a call failed, and the health probe that was asked about it did too
    PERSON = "person"


@dataclass(frozen=True, slots=True, kw_only=True)
class TripReason:
    """One opening. *run* is the failures in a row; *requests* and *failures* are what its interval had seen."""

    rule: OpenedBy
    run: int = 0
    requests: int = 0
    failures: int = 0

    def dump(self) -> dict[str, Any]:
        return {**asdict(self), "rule": str(self.rule)}

    @classmethod
    def load(cls, kept: Mapping[str, Any] | None) -> TripReason | None:
        """None also for a rule that only a newer program knows."""
        if kept is None or kept.get("rule") not in _RULES:
            return None
        run, requests, failures = (int(kept.get(name, 0)) for name in ("run", "requests", "failures"))
        return cls(rule=OpenedBy(kept["rule"]), run=run, requests=requests, failures=failures)


_RULES = frozenset(map(str, OpenedBy))
