"""What channels are told, as rows: notices that nobody has decided about, and deliveries."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidegate.core.channel import QUEUE
from tidegate.machine.telling import Heard
from tidegate.store import tallies
from tidegate.store.notice_rows import Place
from tidegate.store.now import now_of
from tidegate.store.tx import BoundStatement, Tx

_MOST_AT = 200  # notices of one place that are looked at
_MOST_TEXT = 500
_EXPIRED = "expired"  # the code of a job whose time is over
SNOOZED = "snoozed"  # the code of a delivery that somebody did not want any more
DELIVERED, FAILED = "delivered", "failed"
OUTCOMES = (DELIVERED, FAILED, SNOOZED)
PERSON = "@"  # before the name of a person, where that of a channel stands
PEOPLE = "@people"  # all of them, where deliveries are counted


@dataclass(frozen=True, slots=True)
class Row:
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
    def place(self) -> Place:
        return Place(subject=self.subject, name=self.name, lane=self.lane, operation=self.operation)

    @property
    def heard(self) -> Heard:
        return Heard(
            id=self.id, kind=self.kind, level=self.level, created_at=self.created_at, ended_at=self.ended_at,
            acked_at=self.acked_at, snoozed_until=self.snoozed_until, told_at=self.told_at,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class GoingOn:
    """A notice of one kind that is open. The fields are the columns."""

    id: int
    subject: str
    name: str
    lane: str
    operation: str
    episode: float
    created_at: float

    @property
    def place(self) -> Place:
        return Place(subject=self.subject, name=self.name, lane=self.lane, operation=self.operation)


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
    def sent(self) -> Sent:
        return Sent(self.notice, self.channel, self.round_no)


@dataclass(frozen=True, slots=True)
class Sent:
    """What names a delivery."""

    notice: int
    channel: str
    round_no: int

    def params(self) -> dict[str, object]:
        return {"notice": self.notice, "channel": self.channel, "round_no": self.round_no}


def undecided(tx: Tx, most: int) -> list[Row]:
    return [Row(*row) for row in tx.all("notices_undecided", {"n": most})]


def one(tx: Tx, id_: int) -> Row | None:
    return next((Row(*row) for row in tx.all("notice_told_of", {"id": id_})), None)


def beside(tx: Tx, row: Row) -> list[Heard]:
    """The other notices of its place."""
    found = tx.all("notices_at", {**row.place.params(), "id": row.id, "n": _MOST_AT})
    names = ("id", "kind", "level", "created_at", "ended_at", "acked_at", "snoozed_until", "told_at")
    return [Heard(**dict(zip(names, each, strict=True))) for each in found]


def going_on(tx: Tx, kind: str, most: int) -> list[GoingOn]:
    return [GoingOn(*row) for row in tx.all("notices_going_on", {"kind": kind, "n": most})]


def given_up(tx: Tx, most: int) -> list[tuple[Sent, str, str]]:
    """Deliveries that no job will make any more, with the code and the reason."""
    found = []
    for notice, channel, round_no, code, message in tx.all("deliveries_given_up", {"n": most}):
        sent = Sent(notice, channel, round_no)
        said = _last_answer(tx, sent) if code == _EXPIRED else None
        found.append((sent, code or "gone", said or message or "Its job is gone."))
    return found


def _last_answer(tx: Tx, sent: Sent) -> str | None:
    """What the channel said at the last attempt: that the time is over says nothing to whoever must mend it."""
    jobs = [each.job for each in deliveries(tx, [sent.notice])[sent.notice] if each.sent == sent]
    events = [row for job in jobs for row in tx.all("events", {"job": job})]
    said = [message for _, _, _, _, _, code, _, message, _ in events if message and code != _EXPIRED]
    return str(said[-1]) if said else None


def outlived(tx: Tx, sent: Sent) -> bool:
    """Whether it was put in before the database was put back: people were told of it long ago."""
    return tx.all("delivery_code", sent.params()) == [("restored",)]


def withdrawn(tx: Tx, row: Row, sent: Sent) -> bool:
    """Whether the notice was snoozed after this was put in: it is told at the end of that, in another round."""
    now = now_of(tx)
    return sent.round_no != row.round_no or (row.snoozed_until is not None and now < row.snoozed_until)


def not_sent(sent: Sent) -> list[BoundStatement]:
    """What is written of a delivery that was withdrawn. It says nothing about the channel."""
    said = {"code": SNOOZED, "why": "It was snoozed before it was sent."}
    return [BoundStatement("delivery_failed", {**sent.params(), **said}), _counted(sent, SNOOZED)]


def counts(tx: Tx) -> dict[tuple[str, str], int]:
    """How many deliveries ended how, by (channel, outcome), for ever; what went to one person has `PEOPLE`."""
    found = dict[tuple[str, str], int]()
    for (queue, what), n in tallies.read(tx).items():
        if queue == QUEUE and what.startswith(tallies.DELIVERY):
            outcome, _, channel = what.removeprefix(tallies.DELIVERY).partition(":")
            found[channel, outcome] = n
    return found


def _counted(sent: Sent, outcome: str) -> BoundStatement:
    # Who somebody is must not be read off a figure.
    channel = PEOPLE if sent.channel.startswith(PERSON) else sent.channel
    return BoundStatement("tally_one", {"queue": QUEUE, "what": f"{tallies.DELIVERY}{outcome}:{channel}"})


def deliveries(tx: Tx, notices: Iterable[int]) -> dict[int, list[Delivery]]:
    """Of each of these notices, in the order in which they were put in."""
    found: dict[int, list[Delivery]] = {id_: [] for id_ in notices}
    for row in tx.many("deliveries_of", [{"notice": id_} for id_ in found]):
        found[row[0]].append(Delivery(*row))
    return found


def delivered(sent: Sent) -> list[BoundStatement]:
    """What is written with the end of the job that delivered it."""
    return [
        BoundStatement("delivery_done", sent.params()),
        BoundStatement("channel_ended", {"name": sent.channel, "ok": 1, "why": None}),
        _counted(sent, DELIVERED),
    ]


def failed(tx: Tx, sent: Sent, code: str, why: str) -> bool:
    """A channel could not deliver it; False when that was known."""
    if not tx.all("delivery_failed", {**sent.params(), "code": code, "why": why[:_MOST_TEXT]}):
        return False
    tx.all("channel_ended", {"name": sent.channel, "ok": 0, "why": why[:_MOST_TEXT]})
    counted = _counted(sent, FAILED)
    tx.all(counted.name, counted.params)
    return True
