"""What a program that guards its calls by itself tells people, as rows of the store."""

from __future__ import annotations

import socket
from dataclasses import replace

from tidegate.core.events import Event, EventKind, Notice, NoticeKind
from tidegate.core.storable import key_text
from tidegate.machine.cooldown import AUTO
from tidegate.runtime import notices
from tidegate.runtime.notices import Subject
from tidegate.store import notice_rows
from tidegate.store.notice_rows import NewNotice, NoticeSubject
from tidegate.store.tx import Tx


def write_notice(tx: Tx, event: Event) -> Notice | None:
    """Writes the notice of an event; None when people know it already, from whichever process."""
    if event.notice is None:
        return None
    row = _row(event, event.notice)
    found = notice_rows.record_target_notice(tx, row) or notice_rows.record_recovery(tx, row)
    return None if found is None else replace(event.notice, episode=found.episode)


def resolve_notice(tx: Tx, event: Event) -> None:
    """What other events mean for the notices that are open."""
    lane = key_text(event.key)
    place = NoticeSubject(subject=notice_rows.TARGET, name=event.target, lane=lane)
    match event.kind:
        case EventKind.TARGET_DISABLED if event.fields.get("by") == AUTO and event.fault is not None:
            about = Subject(event.target, event.key, None, event.at)
            notice_rows.raise_notice(tx, _row(event, notices.resting(about, event.fault)))
        case EventKind.TARGET_ENABLED:
            notice_rows.resolve_notices(tx, place, (NoticeKind.DISABLED,))
        case EventKind.TARGET_RECOVERED if event.fields.get("held") is False:
            notice_rows.resolve_notices(tx, replace(place, operation=event.operation or ""), (NoticeKind.FATAL,))
        case EventKind.TARGET_CLEARED:
            notice_rows.acknowledge_recovered(tx, event.target, lane)
        case EventKind.OWN_LINK_BACK:
            notice_rows.resolve_notices(tx, _this_machine(), (NoticeKind.OWN_LINK,))


def _row(event: Event, notice: Notice) -> NewNotice:
    user = None if event.user is None else key_text(event.user)
    new = notice_rows.of_target(notice, key_text(event.key), user)
    # Our own network is nobody's target.
    return replace(new, place=_this_machine(), user=None) if notice.kind is NoticeKind.OWN_LINK else new


def _this_machine() -> NoticeSubject:
    return NoticeSubject(subject=notice_rows.SERVER, name=socket.gethostname())
