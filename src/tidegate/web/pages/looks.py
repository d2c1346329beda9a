"""How a state looks: the words of `ops.words`, and those of what is no target and no job."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.ops.words import JOBS, TARGETS, StateLabel

OTHERS: Mapping[str, StateLabel] = {
    # workers
    "there": StateLabel("At work", "play", "good", {"": "it takes jobs, and says every few seconds that it is there."}),
    "late": StateLabel("Late", "clock", "warn", {"": "it has missed a heartbeat, and may come back."}),
    "gone": StateLabel("Lost", "unplug", "bad", {"": "it was not heard of for 35 s; what it held is taken over."}),
    "stopping": StateLabel("Stopping", "stop", "calm", {"": "it takes nothing new, and ends what it has."}),
    "outdated": StateLabel(
        "Outdated", "alert", "bad", {"": "older than the database: it takes no jobs. Update and restart it."}
    ),
    "no_worker": StateLabel("No worker", "unplug", "bad", {"": "nobody works on this queue."}),
    # stages of a job, as tabs and filters name them
    "ready": StateLabel("Ready", "list", "calm", {"": "may go as soon as a worker takes it."}),
    "waiting": StateLabel("Waiting for a time", "clock", "calm", {"": "is due later."}),
    # the breaker of a target
    "closed": StateLabel("Closed", "check", "good", {"": "calls go through."}),
    "half-open": StateLabel("Half-open", "half", "warn", {"": "a few calls try it."}),
}
NEEDS: Mapping[str, tuple[str, str]] = {  # of a card: tone, icon
    "fatal": ("bad", "key"),
    "unclassified": ("bad", "help"),
    "failed": ("bad", "cross"),
    "stuck": ("warn", "hourglass"),
    "no_worker": ("bad", "unplug"),
    "paused": ("calm", "pause"),
    "channel": ("bad", "notices"),
}
_UNKNOWN = StateLabel("Unknown", "help", "calm", {"": "nothing is known of it."})


def of(token: str) -> StateLabel:
    """How a state is shown; one that nobody knows is said to be unknown."""
    return TARGETS.get(token) or JOBS.get(token) or OTHERS.get(token) or _UNKNOWN


def of_need(kind: str) -> StateLabel:
    tone, icon = NEEDS.get(kind, ("warn", "alert"))
    return StateLabel("", icon, tone, {})
