"""The inbox: lists notices, counts unread ones, acknowledges and snoozes them."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from tidegate import audit
from tidegate.audit import AuditSubject as At
from tidegate.errors import NotFound, Rejected
from tidegate.notices.policy import SNOOZES
from tidegate.store import base
from tidegate.store.base import ResultPage, Tx

MAX_UNREAD = 1000  # counting stops here
_MARK, _URGENT = "n", "u"  # of cursors: the next notice, and the oldest error listed first
_BATCH_SIZE = 500


@dataclass(frozen=True, slots=True)
class NoticeLine:
    """One notice. The fields are the columns. *name* is that of the target, queue, job or server."""

    id: int
    kind: str
    level: str  # "error", "warning", "success" or "info"
    subject: str  # "target", "queue", "job" or "server"
    name: str
    key: str  # '' for the whole subject
    operation: str
    episode: float
    code: str | None
    title: str
    message: str
    advice: str
    user: str | None  # the user it concerns, if any
    created_at: float
    ended_at: float | None
    acked_at: float | None
    acked_by: str | None
    told_at: float | None = None  # when deliveries were queued
    decided_at: float | None = None
    waits_until: float | None = None  # when the decision is due
    why: str | None = None  # why it is not sent, or not yet
    snoozed_until: float | None = None
    snoozed_by: str | None = None

    @property
    def open(self) -> bool:
        """Whether the condition continues."""
        return self.ended_at is None

    @property
    def unread(self) -> bool:
        return self.acked_at is None

    @property
    def urgent(self) -> bool:
        """Whether it is an open error."""
        return self.open and self.level == "error"

    def as_json(self) -> dict[str, object]:
        return {**asdict(self), "open": self.open, "unread": self.unread}


def list_notices(
    tx: Tx, *, unread_only: bool = False, cursor: str | None = None, limit: int = 50
) -> ResultPage[NoticeLine]:
    """Lists notices, newest first. Raises ValueError for an invalid cursor."""
    name = "notices_unread" if unread_only else "notices"
    rows = tx.query_as(NoticeLine, name, {"before": base.read_cursor(cursor, _MARK), "n": limit + 1})
    items = rows[:limit]
    return ResultPage(items, base.write_cursor(_MARK, items[-1].id) if len(rows) > limit else None)


def urgent_first(
    tx: Tx, *, unread_only: bool = False, cursor: str | None = None, limit: int = 50
) -> ResultPage[NoticeLine]:
    """Lists open errors of any age, then all others, newest first.

    The cursor knows which errors were listed first, so later pages do not repeat them. Raises ValueError for an invalid
    cursor.
    """
    first = urgent(tx, unread_only=unread_only, limit=limit) if cursor is None else []
    place, lowest = _places(cursor)
    lowest = first[-1].id if first else lowest
    rest, more = list[NoticeLine](), True
    while more and len(rest) <= limit:
        page = list_notices(tx, unread_only=unread_only, cursor=base.write_cursor(_MARK, place), limit=limit)
        rest += [line for line in page.items if not (line.urgent and line.id >= lowest)]
        more = page.next is not None
        place = page.items[-1].id if more else place
    if len(rest) <= limit:
        return ResultPage([*first, *rest], None)
    mark = "" if lowest == base.END else base.write_cursor(_URGENT, lowest)
    return ResultPage([*first, *rest[:limit]], f"{base.write_cursor(_MARK, rest[limit - 1].id)}{mark}")


def urgent(tx: Tx, *, unread_only: bool = False, limit: int = 50) -> list[NoticeLine]:
    """Lists the open errors, newest first."""
    return tx.query_as(NoticeLine, "notices_urgent", {"unread": int(unread_only), "n": limit})


def get(tx: Tx, id_: int) -> NoticeLine:
    line = tx.first(NoticeLine, "notice", {"id": id_})
    if line is None:
        raise NotFound(f"there is no notice {id_}")
    return line


def unread(tx: Tx) -> int:
    """Counts unread notices, up to `MAX_UNREAD`."""
    return tx.scalar(int, "notices_unread_count", {"n": MAX_UNREAD})


def acknowledge(tx: Tx, id_: int, by: str) -> bool:
    """Marks a notice as read. Returns False if it was read before. Raises NotFound for an unknown notice."""
    if tx.query("notice_ack", {"id": id_, "actor": by}):
        audit.append_entry(tx, by, "notice_read", At(subject="notice", name=str(id_)))
        return True
    get(tx, id_)
    return False


def acknowledge_all(tx: Tx, newest: int, by: str) -> int:
    """Marks all notices up to *newest* as read. Returns how many were unread."""
    total, n = 0, _BATCH_SIZE
    while n == _BATCH_SIZE:
        n = len(tx.query("notices_ack", {"newest": newest, "actor": by, "n": _BATCH_SIZE}))
        total += n
    if total:
        audit.append_entry(tx, by, "notice_read", At(subject="notice", name=str(newest)), became={"notices": total})
    return total


def snooze(tx: Tx, id_: int, lasts: str, by: str) -> float:
    """Suppresses deliveries of a notice for a time, and returns its end. If it is still open then, it is sent again.

    Raises ValueError for a time that is not in `SNOOZES`, NotFound for an unknown notice, Refused for a resolved one.
    """
    if lasts not in SNOOZES:
        raise ValueError(f"lasts: {lasts!r} is not allowed; give one of: {', '.join(SNOOZES)}")
    until = tx.scalar_or_none(float, "notice_snooze", {"id": id_, "lasts": SNOOZES[lasts], "actor": by})
    if until is None:
        get(tx, id_)
        raise Rejected(f"notice {id_} is resolved, so it cannot be snoozed; dismiss it instead")
    audit.append_entry(tx, by, "notice_snoozed", At(subject="notice", name=str(id_)), became={"until": until})
    return until


def _places(cursor: str | None) -> tuple[int, int]:
    """Decodes a cursor: where the page begins, and the oldest error that was listed first."""
    place, mark, lowest = (cursor or base.write_cursor(_MARK, base.END)).partition(_URGENT)
    return base.read_cursor(place, _MARK), base.read_cursor(f"{mark}{lowest}", _URGENT) if mark else base.END
