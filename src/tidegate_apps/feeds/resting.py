"""A feed rests, or goes on: what is written of it, what people are told, and what the poller does then."""

from __future__ import annotations

from tidegate.apps import DbTx
from tidegate_apps.feeds import dues, telling
from tidegate_apps.feeds.dues import DueReason
from tidegate_apps.feeds.matrix import MANUAL, REASONS, rest_of
from tidegate_apps.feeds.source import AUTO, Source
from tidegate_apps.feeds.source_rows import active_from, found_in, standing


def disable(tx: DbTx, id_: int, reason: str, by: str, at: float, *, recorded: bool) -> Source:
    """The source as it is then; ValueError for an unknown reason. *recorded*: the poller has written its own state."""
    if reason not in REASONS:
        raise ValueError(f"reason: {reason[:40]!r} is not known; give one of: {', '.join(REASONS)}")
    found = found_in(tx, id_, lock=True)
    if _only_a_person_ends_it(found, by):
        return found
    rest = rest_of(reason)
    until = None if rest is None else at + rest
    able = active_from(found.feed_url, enabled=found.enabled) is not None
    tx.all(
        "set_rest", id=id_, feed_disabled_at=at, feed_disable_reason=reason, disabled_by=by,
        active_from=until if able else None,
    )  # fmt: skip
    tx.all("add_event", source_id=id_, at=at, kind="disabled", actor=by, detail=reason)
    if by != AUTO:
        became = {"state": "disabled", "why": reason, "until": until, "feed": found.name}
        tx.noted(by, "target_disabled", telling.TARGET, id_, was=standing(found), became=became)
    if not recorded:
        tx.all(
            "set_state_rest", source_id=id_, rest_at=at, rest_until=until, rest_reason=reason, rest_by=by,
            due_at=until if able else None, due_why=str(DueReason.COOLDOWN),
        )  # fmt: skip
    if reason != MANUAL:
        tx.tell(telling.resting(id_, found.name, reason, at))
    return found_in(tx, id_)


def enable(tx: DbTx, id_: int, by: str, at: float, *, recorded: bool) -> tuple[Source, Source]:
    """The source as it was and as it is then; the same when only a person ends its rest, or it does not rest."""
    found = found_in(tx, id_, lock=True)
    if found.feed_disabled_at is None or _only_a_person_ends_it(found, by):
        return found, found
    active = active_from(found.feed_url, enabled=found.enabled)
    tx.all("set_rest", id=id_, feed_disabled_at=None, feed_disable_reason=None, disabled_by=None, active_from=active)
    tx.all("add_event", source_id=id_, at=at, kind="enabled", actor=by, detail=found.feed_disable_reason)
    if by != AUTO:
        became = {"state": "enabled", "feed": found.name}
        tx.noted(by, "target_enabled", telling.TARGET, id_, was=standing(found), became=became)
    if not recorded:
        tx.all(
            "set_state_rest", source_id=id_, rest_at=None, rest_until=None, rest_reason=None, rest_by=None,
            due_at=None if active is None else dues.POLL_NOW, due_why=str(DueReason.ASKED),
        )  # fmt: skip
    if by == AUTO:
        tx.tell(telling.recovered(id_, found.name, at))
    else:
        tx.settled(telling.TARGET, id_)
    return found, found_in(tx, id_)


def _only_a_person_ends_it(source: Source, by: str) -> bool:
    return by == AUTO and source.feed_disable_reason == MANUAL
