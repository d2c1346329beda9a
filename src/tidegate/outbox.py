"""Notices as rows, written in the transaction of the change that they report, once per episode."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tidegate.events import Notice, NoticeKind
from tidegate.store.base import Tx
from tidegate.validation import storable

TARGET, QUEUE, SERVER = "target", "queue", "server"  # the subjects of notices
# A success of the key resolves these.
TROUBLES = (NoticeKind.FATAL, NoticeKind.CAP, NoticeKind.DISABLED)
_MAX_TEXT = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeSubject:
    """The subject of a notice."""

    subject: str
    name: str
    lane: str = ""
    operation: str = ""

    def params(self) -> dict[str, str]:
        return {"subject": self.subject, "name": self.name, "lane": self.lane, "operation": self.operation}


@dataclass(frozen=True, slots=True, kw_only=True)
class NewNotice:
    """A notice to write, unless the episode already has one."""

    kind: str
    level: str  # "error", "warning", "success" or "info"
    place: NoticeSubject
    episode: float  # when the episode began
    title: str
    message: str
    advice: str = ""
    code: str = ""
    user: str | None = None
    over: bool = False  # it reports an end, so it needs no resolution


@dataclass(frozen=True, slots=True)
class OpenNotice:
    """An unresolved notice. The fields are the columns."""

    kind: str
    lane: str
    operation: str
    episode: float
    code: str | None


def of_target(notice: Notice, key_text: str, user: str | None = None) -> NewNotice:
    """Builds the row of a notice from a target."""
    return NewNotice(
        kind=str(notice.kind),
        level=notice.icon,
        episode=notice.episode,
        title=notice.title,
        code=notice.code,
        message=notice.message.removesuffix(notice.advice).rstrip(),
        advice=notice.advice,
        user=user,
        place=NoticeSubject(
            subject=TARGET, name=notice.target, lane=_clean(key_text), operation=_clean(notice.operation or "")
        ),
        over=notice.kind is NoticeKind.RECOVERED,
    )


def raise_notice(tx: Tx, new: NewNotice) -> bool:
    """Writes a notice. Returns False if the episode has one, or a notice with the same code is open.

    An open notice with another code is resolved first: the reason has changed.
    """
    where = {**new.place.params(), "kind": new.kind}
    if new.code:
        tx.query("notice_outdated", {**where, "code": new.code})
    return bool(
        tx.query(
            "notice_raise",
            {
                **where,
                "level": new.level,
                "episode": new.episode,
                "code": new.code or None,
                "title": _clean(new.title),
                "message": _clean(new.message),
                "advice": _clean(new.advice),
                "for_user": new.user,
                "over": int(new.over),
            },
        )
    )


def resolve_notices(tx: Tx, subject: NoticeSubject, kinds: Iterable[str] = TROUBLES) -> float | None:
    """Resolves the open notices of a subject. Returns when the first of them began, or None without any."""
    where = subject.params()
    return min(
        (at for kind in kinds for at in tx.scalars(float, "notice_end", {**where, "kind": str(kind)})), default=None
    )


def record_target_notice(tx: Tx, new: NewNotice) -> NewNotice | None:
    """Writes the notice of a target. Returns None if it was already reported.

    A recovery resolves the open notices and gets their episode. Without an open notice it is not reported.
    """
    if new.kind == NoticeKind.RECOVERED:
        began = resolve_notices(tx, new.place)
        if began is None:
            return None
        new = replace(new, episode=began)
        _may_be_mailed(tx, new.place.name, new.place.lane)
    return new if raise_notice(tx, new) else None


def record_recovery(tx: Tx, new: NewNotice) -> NewNotice | None:
    """Writes the recovery of a key that a user has cleared, as by new credentials. None if no recovery is due."""
    where = {"subject": TARGET, "name": new.place.name, "lane": new.place.lane}
    if new.kind != NoticeKind.RECOVERED:
        return None
    episode = tx.scalar_or_none(float, "notice_unanswered_of", where)
    if episode is None:
        return None
    new = replace(new, episode=episode)
    return new if raise_notice(tx, new) else None


def unanswered_notices(tx: Tx, target: str, limit: int = 1000) -> list[str]:
    """Returns the keys that were reported, that a user has cleared, and that have had no success since."""
    return tx.scalars(str, "notices_unanswered", {"subject": TARGET, "name": target, "n": limit})


def acknowledge_recovered(tx: Tx, target: str, key_text: str) -> int:
    """Resolves all open notices of a key that a user has cleared."""
    _may_be_mailed(tx, target, _clean(key_text))
    return len(tx.query("notice_end_key", {"subject": TARGET, "name": target, "lane": _clean(key_text)}))


def _may_be_mailed(tx: Tx, target: str, key_text: str) -> None:
    tx.query("mailed_forget", {"subject": TARGET, "name": target, "lane": key_text})


def open_of(tx: Tx, target: str, limit: int = 1000) -> list[OpenNotice]:
    return tx.query_as(OpenNotice, "notices_open_of", {"subject": TARGET, "name": target, "n": limit})


def prune(tx: Tx, before: float, limit: int) -> int:
    """Deletes up to *limit* notices that were resolved before *before*."""
    return len(tx.query("notices_prune", {"before": before, "n": limit}))


def _clean(text: str) -> str:
    return storable(text, _MAX_TEXT)
