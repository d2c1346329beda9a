"""How long final jobs are kept, as users say it."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.core.checks import valid_name
from tidegate.core.duration import Duration, seconds
from tidegate.core.job import JobState, StoredState

ANY = "*"  # a queue of which nothing else is said
_FINAL = tuple(str(state) for state in JobState if state.final)


def retention_of(said: Mapping[str, Mapping[str, Duration]] | None) -> dict[str, dict[StoredState, float]]:
    """Seconds by queue ("*": all others) and state; ValueError for a state that is not final, or for no duration."""
    if not (said is None or isinstance(said, Mapping)):
        raise TypeError(
            f"retention must be a dict by queue or None, got {said!r:.60}; did you mean {{'*': {{'done': '7d'}}}}?"
        )
    found: dict[str, dict[StoredState, float]] = {}
    for queue, kept in (said or {}).items():
        if queue != ANY:
            valid_name(queue, field="retention")
        if not isinstance(kept, Mapping):
            raise TypeError(f"retention[{queue!r}]: {kept!r:.60} is no mapping; give {{'done': '7d', 'failed': '30d'}}")
        unknown = [state for state in kept if state not in _FINAL]
        if unknown:
            raise ValueError(
                f"retention[{queue!r}]: {unknown[0]!r} is no state that a job ends in; give some of: "
                + ", ".join(_FINAL)
            )
        found[queue] = {
            StoredState(state): seconds(time, field=f"retention[{queue!r}][{str(state)!r}]")
            for state, time in kept.items()
        }
    return found
