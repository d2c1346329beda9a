"""How a state looks: the words of `ops.words`, and those of what is no target and no job."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.ops.words import JOBS, TARGETS, Word

OTHERS: Mapping[str, Word] = {
    # workers
    "there": Word("At work", "play", "good", {"": "it takes jobs, and says every few seconds that it is there."}),
    "late": Word("Late", "clock", "warn", {"": "it has missed a heartbeat, and may come back."}),
    "gone": Word("Lost", "unplug", "bad", {"": "it was not heard of for 35 s; what it held is taken over."}),
    "stopping": Word("Stopping", "stop", "calm", {"": "it takes nothing new, and ends what it has."}),
    "outdated": Word(
        "Outdated", "alert", "bad", {"": "older than the database: it takes no jobs. Update and restart it."}
    ),
    "no_worker": Word("No worker", "unplug", "bad", {"": "nobody works on this queue."}),
    # stages of a job, as tabs and filters name them
    "ready": Word("Ready", "list", "calm", {"": "may go as soon as a worker takes it."}),
    "waiting": Word("Waiting for a time", "clock", "calm", {"": "is due later."}),
    # the breaker of a target
    "closed": Word("Closed", "check", "good", {"": "calls go through."}),
    "half-open": Word("Half-open", "half", "warn", {"": "a few calls try it."}),
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
_UNKNOWN = Word("Unknown", "help", "calm", {"": "nothing is known of it."})


def of(token: str) -> Word:
    """How a state is shown; one that nobody knows is said to be unknown."""
    return TARGETS.get(token) or JOBS.get(token) or OTHERS.get(token) or _UNKNOWN


def of_need(kind: str) -> Word:
    tone, icon = NEEDS.get(kind, ("warn", "alert"))
    return Word("", icon, tone, {})
