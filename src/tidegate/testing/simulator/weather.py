"""The outage of a simulator, as it goes on."""

from __future__ import annotations

from typing import Any

from tidegate.core.duration import brief
from tidegate.ops.outage import FailureMode, FailurePeriod, Outage
from tidegate.testing.simulator.steps import Step

_GIVE_OUTAGE = "give a text such as '5m down', '1h 30% errors', '2h hang' or '2h 429 retry-after 5m', or 'none'"


class OutageState:
    """An outage that began at *since*; times are those of one clock that never steps."""

    def __init__(self, outage: Outage, since: float) -> None:
        self._outage = outage
        self._since = since

    def down(self, now: float) -> bool:
        """Whether nothing listens."""
        return any(
            _shuts(trouble) and trouble.start <= now - self._since < trouble.end for trouble in self._outage.troubles
        )

    def change(self, now: float) -> float | None:
        """When `down` changes next; None when it does not."""
        edges = [edge for trouble in self._outage.troubles if _shuts(trouble) for edge in (trouble.start, trouble.end)]
        return min((self._since + edge for edge in edges if self._since + edge > now), default=None)

    def step(self, now: float, roll: float) -> Step | None:
        """What a request meets instead of the script; *roll* in [0, 1) decides where only a share of them fails."""
        trouble = self._outage.trouble(now - self._since, roll)
        match trouble:
            case None:
                return None
            case FailurePeriod(ill=FailureMode.STATUS):
                return Step(trouble.status, retry_after=trouble.retry_after)
            case FailurePeriod(ill=FailureMode.HANG):
                return Step(hang=self._since + trouble.end - now)
        # Nobody can refuse a share of the connections: those that are through the door are reset.
        return Step(reset=True)

    def as_json(self, now: float) -> dict[str, Any] | None:
        left = (self._outage.end or 0.0) - (now - self._since)
        return None if left <= 0 else {"text": self._outage.label, "ends_in": brief(left)}


def outage_of(what: Outage | str | None) -> Outage:
    """*what* as an outage that begins at once; ValueError or TypeError says what to give."""
    if what is None:
        return Outage()
    if isinstance(what, Outage):
        return what
    if not isinstance(what, str):
        raise TypeError(f"outage: {what!r:.80} is no outage; {_GIVE_OUTAGE}")
    return Outage.parse(what, lead=0)


def _shuts(trouble: FailurePeriod) -> bool:
    return trouble.ill is FailureMode.DOWN and trouble.share >= 1
