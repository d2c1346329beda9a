"""Deliveries of notices, and the state of each channel."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tidegate.jobs import settle
from tidegate.notices import channels as notice_channels
from tidegate.notices.channels import QUEUE, ChannelRow
from tidegate.notices.policy import NoticeView
from tidegate.outbox import NoticeSubject
from tidegate.store.base import BoundStatement, Tx, now_of

# What channels are told, as rows: notices that nobody has decided about, and deliveries.

_MAX_AT = 200  # notices of one place that are looked at
_MAX_TEXT = 500
_EXPIRED = "expired"  # the code of a job whose time is over
SNOOZED = "snoozed"  # the code of a delivery that somebody did not want any more
DELIVERED, FAILED = "delivered", "failed"
OUTCOMES = (DELIVERED, FAILED, SNOOZED)
PERSON = "@"  # before the name of a person, where that of a channel stands
PEOPLE = "@people"  # all of them, where deliveries are counted


@dataclass(frozen=True, slots=True)
class NoticeRow:
    """A notice with all that telling needs. The fields are the columns."""

    id: int
    kind: str
    level: str
    subject: str
    name: str
    lane: str
    operation: str
    episode: float
    code: str | None
    title: str
    message: str
    advice: str
    user: str | None
    created_at: float
    ended_at: float | None
    acked_at: float | None
    snoozed_until: float | None
    told_at: float | None
    waits_until: float | None
    why: str | None
    round_no: int

    @property
    def key(self) -> str:
        return self.lane

    @property
    def place(self) -> NoticeSubject:
        return NoticeSubject(subject=self.subject, name=self.name, lane=self.lane, operation=self.operation)

    @property
    def heard(self) -> NoticeView:
        return NoticeView(
            id=self.id,
            kind=self.kind,
            level=self.level,
            created_at=self.created_at,
            ended_at=self.ended_at,
            acked_at=self.acked_at,
            snoozed_until=self.snoozed_until,
            told_at=self.told_at,
        )


@dataclass(frozen=True, slots=True)
class OngoingNotice:
    """A notice of one kind that is open. The fields are the columns."""

    id: int
    subject: str
    name: str
    lane: str
    operation: str
    episode: float
    created_at: float

    @property
    def place(self) -> NoticeSubject:
        return NoticeSubject(subject=self.subject, name=self.name, lane=self.lane, operation=self.operation)


@dataclass(frozen=True, slots=True)
class Delivery:
    """One notice through one channel. The fields are the columns."""

    notice: int
    channel: str
    round_no: int
    state: str
    job: int | None
    instead_of: str | None  # the channel that could not
    created_at: float
    ended_at: float | None
    code: str | None
    why: str | None

    @property
    def sent(self) -> DeliveryKey:
        return DeliveryKey(self.notice, self.channel, self.round_no)


@dataclass(frozen=True, slots=True)
class DeliveryKey:
    """What names a delivery."""

    notice: int
    channel: str
    round_no: int

    def params(self) -> dict[str, object]:
        return {"notice": self.notice, "channel": self.channel, "round_no": self.round_no}


def load_undecided(tx: Tx, limit: int) -> list[NoticeRow]:
    return [NoticeRow(*row) for row in tx.query("notices_undecided", {"n": limit})]


def load_notice(tx: Tx, id_: int) -> NoticeRow | None:
    return next((NoticeRow(*row) for row in tx.query("notice_told_of", {"id": id_})), None)


def load_related(tx: Tx, row: NoticeRow) -> list[NoticeView]:
    """The other notices of its place."""
    rows = tx.query("notices_at", {**row.place.params(), "id": row.id, "n": _MAX_AT})
    names = ("id", "kind", "level", "created_at", "ended_at", "acked_at", "snoozed_until", "told_at")
    return [NoticeView(**dict(zip(names, each, strict=True))) for each in rows]


def load_ongoing(tx: Tx, kind: str, limit: int) -> list[OngoingNotice]:
    return [OngoingNotice(*row) for row in tx.query("notices_going_on", {"kind": kind, "n": limit})]


def load_failed(tx: Tx, limit: int) -> list[tuple[DeliveryKey, str, str]]:
    """Deliveries that no job will make any more, with the code and the reason."""
    found = []
    for notice, channel, round_no, code, message in tx.query("deliveries_given_up", {"n": limit}):
        sent = DeliveryKey(notice, channel, round_no)
        said = _last_answer(tx, sent) if code == _EXPIRED else None
        found.append((sent, code or "gone", said or message or "Its job is gone."))
    return found


def _last_answer(tx: Tx, sent: DeliveryKey) -> str | None:
    """What the channel said at the last attempt: that the time is over says nothing to whoever must mend it."""
    jobs = [delivery.job for delivery in deliveries(tx, [sent.notice])[sent.notice] if delivery.sent == sent]
    events = [row for job in jobs for row in tx.query("events", {"job": job})]
    said = [message for _, _, _, _, _, code, _, message, _ in events if message and code != _EXPIRED]
    return str(said[-1]) if said else None


def has_expired(tx: Tx, sent: DeliveryKey) -> bool:
    """Whether it was put in before the database was put back: people were told of it long ago."""
    return tx.query("delivery_code", sent.params()) == [("restored",)]


def withdraw(tx: Tx, row: NoticeRow, sent: DeliveryKey) -> bool:
    """Whether the notice was snoozed after this was put in: it is told at the end of that, in another round."""
    now = now_of(tx)
    return sent.round_no != row.round_no or (row.snoozed_until is not None and now < row.snoozed_until)


def record_not_sent(sent: DeliveryKey) -> list[BoundStatement]:
    """What is written of a delivery that was withdrawn. It says nothing about the channel."""
    said = {"code": SNOOZED, "why": "It was snoozed before it was sent."}
    return [BoundStatement("delivery_failed", {**sent.params(), **said}), _counted(sent, SNOOZED)]


def counts(tx: Tx) -> dict[tuple[str, str], int]:
    """How many deliveries ended how, by (channel, outcome), for ever; what went to one person has `PEOPLE`."""
    found = dict[tuple[str, str], int]()
    for (queue, what), n in settle.read(tx).items():
        if queue == QUEUE and what.startswith(settle.DELIVERY):
            outcome, _, channel = what.removeprefix(settle.DELIVERY).partition(":")
            found[channel, outcome] = n
    return found


def _counted(sent: DeliveryKey, outcome: str) -> BoundStatement:
    # Who somebody is must not be read off a figure.
    channel = PEOPLE if sent.channel.startswith(PERSON) else sent.channel
    return BoundStatement("tally_one", {"queue": QUEUE, "what": f"{settle.DELIVERY}{outcome}:{channel}"})


def deliveries(tx: Tx, notices: Iterable[int]) -> dict[int, list[Delivery]]:
    """Of each of these notices, in the order in which they were put in."""
    found: dict[int, list[Delivery]] = {id_: [] for id_ in notices}
    for row in tx.query_many("deliveries_of", [{"notice": id_} for id_ in found]):
        found[row[0]].append(Delivery(*row))
    return found


def record_delivered(sent: DeliveryKey) -> list[BoundStatement]:
    """What is written with the end of the job that delivered it."""
    return [
        BoundStatement("delivery_done", sent.params()),
        BoundStatement("channel_ended", {"name": sent.channel, "ok": 1, "why": None}),
        _counted(sent, DELIVERED),
    ]


def record_failed(tx: Tx, sent: DeliveryKey, code: str, why: str) -> bool:
    """A channel could not deliver it; False when that was known."""
    if not tx.query("delivery_failed", {**sent.params(), "code": code, "why": why[:_MAX_TEXT]}):
        return False
    tx.query("channel_ended", {"name": sent.channel, "ok": 0, "why": why[:_MAX_TEXT]})
    counted = _counted(sent, FAILED)
    tx.query(counted.name, counted.params)
    return True


# The channels as people see them: where each leads, what it is told, and how its last delivery went.

# How a channel stands: the word, the tone and the icon of it.
STATES = {
    "off": ("Switched off", "bad", "stop"),
    "failing": ("Failing", "bad", "alert"),
    "ok": ("Working", "good", "check"),
    "new": ("Not tried yet", "calm", "circle"),
}
_LEVELS = {"info": "everything", "success": "everything", "warning": "warnings and errors", "error": "errors"}


@dataclass(frozen=True, slots=True)
class ChannelReport:
    """One channel of the settings. No secret is part of it."""

    row: ChannelRow

    @property
    def name(self) -> str:
        return self.row.name

    @property
    def token(self) -> str:
        """Of `STATES`."""
        row = self.row
        if row.disabled_at is not None:
            return "off"
        if row.last_ok is False or self._failed_its_test:
            return "failing"
        return "ok" if row.last_ok or row.tested_ok else "new"

    @property
    def _failed_its_test(self) -> bool:
        """Whether it did, and has delivered nothing since."""
        row = self.row
        return row.tested_ok is False and (row.last_at is None or row.last_at < (row.tested_at or 0.0))

    @property
    def fails(self) -> bool:
        """Whether it does not deliver."""
        return self.token in ("off", "failing")

    @property
    def word(self) -> str:
        return STATES[self.token][0]

    @property
    def tone(self) -> str:
        return STATES[self.token][1]

    @property
    def icon(self) -> str:
        return STATES[self.token][2]

    @property
    def reason(self) -> str:
        """Why it does not deliver; empty when it does."""
        row = self.row
        if not self.fails:
            return ""
        return row.disabled_why or (row.last_why if row.last_ok is False else row.tested_why) or ""

    @property
    def told(self) -> str:
        """What it is told, in words."""
        return "what others cannot deliver" if self.row.standby else _LEVELS[self.row.level]

    def as_json(self) -> dict[str, Any]:
        row = self.row
        return {
            "name": row.name,
            "kind": row.kind,
            "leads_to": row.shown,
            "level": row.level,
            "order": row.place,
            "standby": row.standby,
            "state": self.token,
            "word": self.word,
            "reason": self.reason,
            "last_at": row.last_at,
            "last_ok": row.last_ok,
            "tested_at": row.tested_at,
            "tested_ok": row.tested_ok,
            "disabled_at": row.disabled_at,
        }


def channels(tx: Tx) -> list[ChannelReport]:
    """Those of the settings, in their order."""
    return [ChannelReport(row) for row in notice_channels.every(tx) if row.there]


def failing(tx: Tx) -> list[ChannelReport]:
    """Those that do not deliver."""
    return [channel for channel in channels(tx) if channel.fails]


def what_became(delivery: Delivery) -> str:
    """One delivery in words: delivered, on its way, or why not."""
    instead = f", instead of {delivery.instead_of}" if delivery.instead_of else ""
    match delivery.state:
        case "delivered":
            return f"delivered{instead}"
        case "failed":
            return f"not delivered: {delivery.why or 'it gave up.'}"
    return f"on its way{instead}"
