"""How often a call is repeated at once, and after which waits."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.core.checks import whole
from tidegate.core.duration import Duration, seconds

_FACTOR = 2.0
_MAX_ATTEMPTS = 101


@dataclass(frozen=True, slots=True)
class Retry:
    """Up to *attempts* calls in all, with a wait of U[0, min(base * 2^n, cap)] before the attempt number n + 2.

        @api.guard(retry=Retry(attempts=3, base="100ms", cap="5s"))     # the same as retry=3

    A service that asks for a longer wait is given it, up to *cap*; if it asks for more, the call is not repeated.
    """

    attempts: int = 3
    base: Duration = "100ms"
    cap: Duration = "5s"

    def __post_init__(self) -> None:
        whole(self.attempts, field="Retry.attempts", maximum=_MAX_ATTEMPTS)
        base = seconds(self.base, field="Retry.base")
        cap = seconds(self.cap, field="Retry.cap")
        if cap < base:
            raise ValueError(f"Retry.cap must be at least Retry.base ({self.base!r}), got {self.cap!r}")
        object.__setattr__(self, "base", base)
        object.__setattr__(self, "cap", cap)

    def pause(self, failed: int, roll: float, asked: float = 0.0) -> float | None:
        """Seconds until the next attempt after *failed* of them; None when there is none.

        *roll* in [0, 1) picks the jitter, *asked* is what the service asks for.
        """
        cap = seconds(self.cap)
        if failed >= self.attempts or asked > cap:
            return None
        longest: float = min(seconds(self.base) * _FACTOR ** min(failed - 1, 64), cap)
        return max(longest * roll, asked)


ONCE = Retry(attempts=1)


def retry_of(given: object) -> Retry:
    """What was given as *retry*: a Retry, a number of attempts in all, or None for one attempt."""
    if given is None:
        return ONCE
    if isinstance(given, Retry):
        return given
    if isinstance(given, bool) or not isinstance(given, int):
        raise TypeError(
            f"retry must be a Retry or a number of attempts in all, got {given!r:.60}; did you mean retry=3?"
        )
    if not 1 <= given <= _MAX_ATTEMPTS:
        raise ValueError(
            f"retry must be the number of attempts in all, from 1 to {_MAX_ATTEMPTS}, got {given}; 1 means no retry"
        )
    return Retry(attempts=given)
