"""Deliveries of notices, and the state of each channel."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidegate.jobs import settle
from tidegate.notices import channels as notice_channels
from tidegate.notices.channels import QUEUE, ChannelRow
from tidegate.notices.policy import NoticeView
from tidegate.outbox import NoticeSubject
from tidegate.store.base import BoundStatement, Tx, now_of

_MAX_AT = 200  # notices of one subject that are read
_MAX_TEXT = 500
_EXPIRED = "expired"  # the code of an expired job
SNOOZED = "snoozed"  # the code of a delivery whose notice was snoozed
DELIVERED, FAILED = "delivered", "failed"
OUTCOMES = (DELIVERED, FAILED, SNOOZED)
PERSON = "@"  # the prefix of a user name in place of a channel name
PEOPLE = "@people"  # all users, in delivery counts


@dataclass(frozen=True, slots=True)
class NoticeRow:
    """A notice with all columns that deliveries need. The fields are the columns."""

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
    """An open notice of one kind. The fields are the columns."""

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
    instead_of: str | None  # the channel that failed
    created_at: float
    ended_at: float | None
    code: str | None
    why: str | None

    @property
    def sent(self) -> DeliveryKey:
        return DeliveryKey(self.notice, self.channel, self.round_no)


@dataclass(frozen=True, slots=True)
class DeliveryKey:
    """The key of a delivery."""

    notice: int
    channel: str
    round_no: int

    def params(self) -> dict[str, object]:
        return {"notice": self.notice, "channel": self.channel, "round_no": self.round_no}


def load_undecided(tx: Tx, limit: int) -> list[NoticeRow]:
    return tx.query_as(NoticeRow, "notices_undecided", {"n": limit})


def load_notice(tx: Tx, id_: int) -> NoticeRow | None:
    return tx.first(NoticeRow, "notice_told_of", {"id": id_})


def load_related(tx: Tx, row: NoticeRow) -> list[NoticeView]:
    """Returns the other notices of its subject."""
    return tx.query_as(NoticeView, "notices_at", {**row.place.params(), "id": row.id, "n": _MAX_AT})


def load_ongoing(tx: Tx, kind: str, limit: int) -> list[OngoingNotice]:
    return tx.query_as(OngoingNotice, "notices_going_on", {"kind": kind, "n": limit})


def load_failed(tx: Tx, limit: int) -> list[tuple[DeliveryKey, str, str]]:
    """Returns deliveries whose job will not run again, with the code and the reason."""
    failed = []
    for notice, channel, round_no, code, message in tx.query("deliveries_given_up", {"n": limit}):
        sent = DeliveryKey(notice, channel, round_no)
        last_error = _last_error(tx, sent) if code == _EXPIRED else None
        failed.append((sent, code or "gone", last_error or message or "Its job is gone."))
    return failed


def _last_error(tx: Tx, sent: DeliveryKey) -> str | None:
    """Returns the channel's error at the last attempt: an expiry says nothing about the cause."""
    jobs = [delivery.job for delivery in deliveries(tx, [sent.notice])[sent.notice] if delivery.sent == sent]
    events = [row for job in jobs for row in tx.query("events", {"job": job})]
    errors = [message for _, _, _, _, _, code, _, message, _ in events if message and code != _EXPIRED]
    return str(errors[-1]) if errors else None


def has_expired(tx: Tx, sent: DeliveryKey) -> bool:
    """Whether the database was restored after it was queued: it was sent long ago."""
    return tx.scalar_or_none(str, "delivery_code", sent.params()) == "restored"


def withdraw(tx: Tx, row: NoticeRow, sent: DeliveryKey) -> bool:
    """Whether the notice was snoozed after this was queued. It is sent after the snooze, in another round."""
    now = now_of(tx)
    return sent.round_no != row.round_no or (row.snoozed_until is not None and now < row.snoozed_until)


def record_not_sent(sent: DeliveryKey) -> list[BoundStatement]:
    """Returns the statements for a withdrawn delivery. They do not affect the channel's state."""
    values = {"code": SNOOZED, "why": "It was snoozed before it was sent."}
    return [BoundStatement("delivery_failed", {**sent.params(), **values}), _counted(sent, SNOOZED)]


def counts(tx: Tx) -> dict[tuple[str, str], int]:
    """Returns all-time delivery counts by (channel, outcome). Deliveries to users count under `PEOPLE`."""
    totals = dict[tuple[str, str], int]()
    for (queue, what), n in settle.read(tx).items():
        if queue == QUEUE and what.startswith(settle.DELIVERY):
            outcome, _, channel = what.removeprefix(settle.DELIVERY).partition(":")
            totals[channel, outcome] = n
    return totals


def _counted(sent: DeliveryKey, outcome: str) -> BoundStatement:
    # Metrics must not reveal user names.
    channel = PEOPLE if sent.channel.startswith(PERSON) else sent.channel
    return BoundStatement("tally_one", {"queue": QUEUE, "what": f"{settle.DELIVERY}{outcome}:{channel}"})


def deliveries(tx: Tx, notices: Iterable[int]) -> dict[int, list[Delivery]]:
    """Returns the deliveries of each notice, in the order in which they were queued."""
    by_notice: dict[int, list[Delivery]] = {id_: [] for id_ in notices}
    for delivery in tx.query_many_as(Delivery, "deliveries_of", [{"notice": id_} for id_ in by_notice]):
        by_notice[delivery.notice].append(delivery)
    return by_notice


def record_delivered(sent: DeliveryKey) -> list[BoundStatement]:
    """Returns the statements to settle with the job of a delivery."""
    return [
        BoundStatement("delivery_done", sent.params()),
        BoundStatement("channel_ended", {"name": sent.channel, "ok": 1, "why": None}),
        _counted(sent, DELIVERED),
    ]


def record_failed(tx: Tx, sent: DeliveryKey, code: str, why: str) -> bool:
    """Records a failed delivery. Returns False if it was already recorded."""
    if not tx.query("delivery_failed", {**sent.params(), "code": code, "why": why[:_MAX_TEXT]}):
        return False
    tx.query("channel_ended", {"name": sent.channel, "ok": 0, "why": why[:_MAX_TEXT]})
    counted = _counted(sent, FAILED)
    tx.query(counted.name, counted.params)
    return True


# -- channel state -----------------------------------------------------------------------------------------------------

# token -> label, tone, icon
STATES = {
    "off": ("Switched off", "bad", "stop"),
    "failing": ("Failing", "bad", "alert"),
    "ok": ("Working", "good", "check"),
    "new": ("Not tried yet", "calm", "circle"),
}
_LEVELS = {"info": "everything", "success": "everything", "warning": "warnings and errors", "error": "errors"}


@dataclass(frozen=True, slots=True)
class ChannelReport:
    """One channel of the settings. It contains no secret."""

    row: ChannelRow

    @property
    def name(self) -> str:
        return self.row.name

    @property
    def token(self) -> str:
        """A key of `STATES`."""
        row = self.row
        if row.disabled_at is not None:
            return "off"
        if row.last_ok is False or self._failed_its_test:
            return "failing"
        return "ok" if row.last_ok or row.tested_ok else "new"

    @property
    def _failed_its_test(self) -> bool:
        """Whether its last test failed, without a delivery since."""
        row = self.row
        return row.tested_ok is False and (row.last_at is None or row.last_at < (row.tested_at or 0.0))

    @property
    def fails(self) -> bool:
        """Whether it cannot deliver."""
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
        """Why it cannot deliver. Empty if it can."""
        row = self.row
        if not self.fails:
            return ""
        return row.disabled_why or (row.last_why if row.last_ok is False else row.tested_why) or ""

    @property
    def told(self) -> str:
        """Describes what it is notified of."""
        return "what others cannot deliver" if self.row.standby else _LEVELS[self.row.level]

    def as_json(self) -> dict[str, object]:
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
    """Returns the channels of the settings, in order."""
    return [ChannelReport(row) for row in notice_channels.every(tx) if row.there]


def failing(tx: Tx) -> list[ChannelReport]:
    """Returns the channels that cannot deliver."""
    return [channel for channel in channels(tx) if channel.fails]


def what_became(delivery: Delivery) -> str:
    """Describes the state of one delivery."""
    instead = f", instead of {delivery.instead_of}" if delivery.instead_of else ""
    match delivery.state:
        case "delivered":
            return f"delivered{instead}"
        case "failed":
            return f"not delivered: {delivery.why or 'it gave up.'}"
    return f"on its way{instead}"
