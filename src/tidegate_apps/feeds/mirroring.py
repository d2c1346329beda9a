"""What the poller knows of a feed follows what its source says."""

from __future__ import annotations

from tidegate.apps import DbTx
from tidegate_apps.feeds.dues import DueReason
from tidegate_apps.feeds.matrix import rest_of
from tidegate_apps.feeds.source import Source
from tidegate_apps.feeds.verdicts import host_of


def mirror_change(tx: DbTx, was: Source, now: Source, at: float) -> None:
    """Writes what a change of a source, at the time *at*, means for its polls."""
    if not now.feed_url:
        tx.all("remove_state", source_id=now.id)
        return
    due = now.active_from  # at once, when it does not rest
    tx.many("add_state", [{
        "source_id": now.id, "name": now.name, "feed_url": now.feed_url, "host": host_of(now.feed_url),
        "interval_s": now.interval, "due_at": due, "due_why": str(DueReason.NEW),
    }])  # fmt: skip
    if not was.feed_url and now.feed_disabled_at is not None:
        rest = rest_of(now.feed_disable_reason or "")
        tx.all(
            "set_state_rest", source_id=now.id, rest_at=now.feed_disabled_at, rest_reason=now.feed_disable_reason,
            rest_until=None if rest is None else now.feed_disabled_at + rest, rest_by=now.disabled_by, due_at=due,
            due_why=str(DueReason.COOLDOWN),
        )  # fmt: skip
    elif was.feed_url != now.feed_url:
        tx.all(
            "set_address", source_id=now.id, feed_url=now.feed_url, host=host_of(now.feed_url), due_at=due,
            due_why=str(DueReason.NEW),
        )  # fmt: skip
    elif was.active_from != now.active_from:
        tx.all("set_due", source_id=now.id, due_at=due, due_why=str(DueReason.COOLDOWN if due else DueReason.NEW))
    elif was.interval != now.interval:
        # Sooner only if nothing but the interval made it wait.
        tx.all("sooner", source_id=now.id, due_at=at + now.interval, due_why=str(DueReason.INTERVAL))
