"""Events and notices: what changed, and what a user should read.

from tidegate.events import EventKind, subscribe
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = [
    "Bus",
    "Event",
    "EventKind",
    "Notice",
    "NoticeKind",
    "Subscription",
    "subscribe",
]

if TYPE_CHECKING:
    from tidegate.core.events import Event, EventKind, Notice, NoticeKind
    from tidegate.runtime.bus import Bus, Subscription, subscribe
else:
    # The same for the running program. Type checkers do not read it, so they still report an unknown name.
    from tidegate._lazy import lazy_names

    __getattr__, __dir__ = lazy_names(
        globals(),
        {
            "tidegate.core.events": ("Event", "EventKind", "Notice", "NoticeKind"),
            "tidegate.runtime.bus": ("Bus", "Subscription", "subscribe"),
        },
    )
