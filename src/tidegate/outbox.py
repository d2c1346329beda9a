"""Notices as rows: written with the change that they tell of, once per episode, whichever process tells."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tidegate.events import Notice, NoticeKind
from tidegate.store.base import Row, Tx
from tidegate.validation import storable

TARGET, QUEUE, SERVER = "target", "queue", "server"  # what a notice may be about
# What a success of its key ends.
TROUBLES = (NoticeKind.FATAL, NoticeKind.CAP, NoticeKind.DISABLED)
_MAX_TEXT = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeSubject:
    """What a notice is about."""

    subject: str
    name: str
    lane: str = ""
    operation: str = ""

    def params(self) -> dict[str, str]:
        return {"subject": self.subject, "name": self.name, "lane": self.lane, "operation": self.operation}


@dataclass(frozen=True, slots=True, kw_only=True)
class NewNotice:
    """A notice that is to be written, unless it was told before."""

    kind: str
    level: str  # "error", "warning", "success" or "info"
    place: NoticeSubject
    episode: float  # when it began
    title: str
    message: str
    advice: str = ""
    code: str = ""
    user: str | None = None
    over: bool = False  # it tells of an end, so there is nothing to be waited for


@dataclass(frozen=True, slots=True)
class OpenNotice:
    """A notice that has not ended. The fields are the columns."""

    kind: str
    lane: str
    operation: str
    episode: float
    code: str | None


def of_target(notice: Notice, key_text: str, user: str | None = None) -> NewNotice:
    """The row of what a target tells."""
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
    """Writes it; False when the episode has one, or the same trouble is open there.

    One that is open with another code has ended: the reason is a new one.
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
    """Ends what is open there; returns when the first of it began, or None when nothing was."""
    found = [row[0] for kind in kinds for row in tx.query("notice_end", {**subject.params(), "kind": str(kind)})]
    return min(found, default=None)


def record_target_notice(tx: Tx, new: NewNotice) -> NewNotice | None:
    """Writes what a target tells; None when people know it already.

    A recovery ends the trouble there and gets its episode; nobody needs to hear of the end of what nobody was told of.
    """
    if new.kind == NoticeKind.RECOVERED:
        began = resolve_notices(tx, new.place)
        if began is None:
            return None
        new = replace(new, episode=began)
        _may_be_mailed(tx, new.place.name, new.place.lane)
    return new if raise_notice(tx, new) else None


def record_recovery(tx: Tx, new: NewNotice) -> NewNotice | None:
    """Writes the recovery of a key whose trouble a person has ended, as by new credentials; None when none is owed."""
    where = {"subject": TARGET, "name": new.place.name, "lane": new.place.lane}
    if new.kind != NoticeKind.RECOVERED or not (found := tx.query("notice_unanswered_of", where)):
        return None
    new = replace(new, episode=found[0][0])
    return new if raise_notice(tx, new) else None


def unanswered_notices(tx: Tx, target: str, limit: int = 1000) -> list[str]:
    """The keys of which people were told trouble, that a person has cleared since, and no success has followed."""
    return [row[0] for row in tx.query("notices_unanswered", {"subject": TARGET, "name": target, "n": limit})]


def acknowledge_recovered(tx: Tx, target: str, key_text: str) -> int:
    """A person has cleared a key: all that is open of it has ended."""
    _may_be_mailed(tx, target, _clean(key_text))
    return len(tx.query("notice_end_key", {"subject": TARGET, "name": target, "lane": _clean(key_text)}))


def _may_be_mailed(tx: Tx, target: str, key_text: str) -> None:
    tx.query("mailed_forget", {"subject": TARGET, "name": target, "lane": key_text})


def open_of(tx: Tx, target: str, limit: int = 1000) -> list[OpenNotice]:
    rows: list[Row] = tx.query("notices_open_of", {"subject": TARGET, "name": target, "n": limit})
    return [OpenNotice(*row) for row in rows]


def prune(tx: Tx, before: float, limit: int) -> int:
    """Removes a slice of those that ended before then."""
    return len(tx.query("notices_prune", {"before": before, "n": limit}))


def _clean(text: str) -> str:
    return storable(text, _MAX_TEXT)
