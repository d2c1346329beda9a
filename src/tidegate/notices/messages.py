"""The text of notices: what happened, since when, the effect, what happens next, and what to do."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from tidegate.faults.codes import CORE
from tidegate.faults.fault import Reason
from tidegate.jobs import settle
from tidegate.labels import ahead, format_duration, many, opened_because
from tidegate.notices.channels import Message
from tidegate.notices.deliveries import NoticeRow, OngoingNotice
from tidegate.notices.policy import (
    BREAKER,
    CHANNEL,
    FLAPPING,
    GAVE_UP,
    NO_WORKER,
    PAUSED,
    RECOVERED,
    STUCK,
    NoticePolicy,
)
from tidegate.outbox import QUEUE, TARGET, NewNotice, NoticeSubject
from tidegate.store.base import Tx
from tidegate.targets import reports
from tidegate.targets.breaker import StoredBreaker

_MAX_COUNTED = 10_000
_TITLES_OF_ENDS: dict[str, Callable[[str], str]] = {
    BREAKER: lambda name: f"{name} works again",
    FLAPPING: lambda name: f"{name} is steady again",
    STUCK: lambda name: f"The jobs of {name} get their turn again",
    NO_WORKER: lambda name: f"Somebody works on {name} again",
    CHANNEL: lambda name: f"The {name} delivers again",
}
ENDS = frozenset(_TITLES_OF_ENDS)  # kinds whose end is also reported


# -- conditions --------------------------------------------------------------------------------------------------------


def breaker(name: str, since: float, row: StoredBreaker) -> NewNotice:
    because = f"it was opened by {row.by}" if row.by else opened_because(row.opened, row.run)
    return NewNotice(
        kind=BREAKER,
        level="warning",
        place=NoticeSubject(subject=TARGET, name=name),
        episode=since,
        title=f"{name} is paused by its breaker",
        message=f"{because[0].upper()}{because[1:]}, so no call is made for now.",
        advice="Trial calls find out when it is well. Nothing to do unless it lasts.",
    )


def flapping(name: str, since: float, changes: int, policy: NoticePolicy) -> NewNotice:
    steady = format_duration(policy.steady_after_flaps)
    return NewNotice(
        kind=FLAPPING,
        level="warning",
        place=NoticeSubject(subject=TARGET, name=name),
        episode=since,
        title=f"{name} comes and goes",
        message=f"Its breaker opened and closed {changes} times within an hour.",
        advice=f"You hear of it again when it has been steady for {steady}. If this goes on, look at the service.",
    )


def stuck(queue: str, job: int, since: float, now: float) -> NewNotice:
    return NewNotice(
        kind=STUCK,
        level="warning",
        place=NoticeSubject(subject=QUEUE, name=queue),
        episode=since,
        title=f"A job of {queue} does not get its turn",
        message=f"Job {job} could go, and has waited for {format_duration(now - since)}.",
        advice="Look whether the workers are busy with long jobs, or too few.",
    )


def no_worker(queue: str, n: int, since: float) -> NewNotice:
    return NewNotice(
        kind=NO_WORKER,
        level="error",
        place=NoticeSubject(subject=QUEUE, name=queue),
        episode=since,
        title=f"No worker for {queue}",
        message=f"{many(n, 'job')} could go, and nobody works on this queue.",
        advice="Start one: tidegate worker.",
    )


def paused(place: NoticeSubject, since: float, until: float, by: str | None, now: float) -> NewNotice:
    return NewNotice(
        kind=PAUSED,
        level="warning",
        place=place,
        episode=since,
        title=f"The {place.subject} {place.name} has been paused for {format_duration(now - since)}",
        message=f"{by or 'Somebody'} paused it; its jobs wait. The pause ends {ahead(until, now)}.",
        advice="Resume it, if what it was for is over.",
    )


def gave_up(
    queue: str, failure: str, target: str, kind: str, code: str, message: str, n: int, first: float
) -> NewNotice:
    place = (
        NoticeSubject(subject=TARGET, name=target, operation=failure)
        if target
        else NoticeSubject(subject=QUEUE, name=queue, operation=failure)
    )
    # A bad item concerns its sender. The operator sees it on the page.
    level = "info" if code in CORE and CORE[code].reason is Reason.ITEM else "warning"
    it, its = ("It is", "itself") if n == 1 else ("They are", "themselves")
    return NewNotice(
        kind=GAVE_UP,
        level=level,
        place=place,
        episode=first,
        code=code,
        title=f"{many(n, 'job')} of {target or kind} gave up",
        message=message or "No reason was given.",
        advice=f"{it} not tried again by {its}: see on the page Failures what can be done.",
    )


def channel(place: str, name: str, reason: str, since: float) -> NewNotice:
    return NewNotice(
        kind=CHANNEL,
        level="warning",
        place=NoticeSubject(subject=TARGET, name=place),
        episode=since,
        title=f"The channel {name} does not deliver",
        message=reason or "It could not deliver a notice.",
        advice="Mend it in the settings, then test it on the page Channels.",
    )


def over(kind: str, notice: OngoingNotice, now: float, since: float | None = None) -> NewNotice:
    return NewNotice(
        kind=RECOVERED,
        level="success",
        place=notice.place,
        episode=notice.episode,
        over=True,
        title=_TITLES_OF_ENDS[kind](notice.name),
        message=f"It lasted {format_duration((since or now) - notice.episode)}.",
    )


def dealt_with(notice: OngoingNotice) -> NewNotice:
    return NewNotice(
        kind=RECOVERED,
        level="success",
        place=notice.place,
        episode=notice.episode,
        over=True,
        title=f"{notice.name} has not failed again",
        message="Somebody has dealt with it, and it has been quiet since.",
    )


# -- messages ----------------------------------------------------------------------------------------------------------


def reworded(tx: Tx, row: NoticeRow, told: NoticeRow | None, flaps: int) -> str | None:
    """Returns a new text for a notice whose stored text is outdated, else None.

    *told* is the notice that this recovery resolves.
    """
    if told is not None:
        lasted = (
            f"It lasted {format_duration(row.created_at - told.episode)}." if told.episode <= row.created_at else ""
        )
        work = became(tx, row, told.episode)
        text = row.message if row.message.startswith("It lasted") else f"{row.message} {lasted}"
        return f"{text} {work}".strip() if work else text.strip()
    if row.kind == GAVE_UP:
        counts = tx.query_many("failure_jobs", [{"failure": row.operation}], {"n": _MAX_COUNTED})
        n = sum(failed for _, failed, _ in counts)
        return f"{row.message} {many(n, 'job')} {'has' if n == 1 else 'have'} given up by now." if n > 1 else None
    return f"{row.message} It has come and gone {flaps} times within an hour." if flaps else None


def became(tx: Tx, row: NoticeRow, since: float) -> str:
    """Describes what happened to held work. Empty if no job is affected."""
    if row.subject != TARGET:
        return ""
    waiting = held(tx, row.name)
    failed = tx.scalar(int, "gave_up_since", {"target": row.name, "since": since, "n": _MAX_COUNTED})
    if not waiting and not failed and not tx.query("target_has_jobs", {"target": row.name}):
        return ""
    drains = f"{many(waiting, 'held job')} {'is' if waiting == 1 else 'are'} draining" if waiting else "No job is held"
    return f"{drains}; 0 lost; {failed:,} gave up."


def held(tx: Tx, target: str) -> int:
    """Counts the jobs that wait for a target and could run if it were healthy."""
    queues = {queue for (queue, what), n in settle.read(tx).items() if what == "ready" and n > 0}
    wanted = [{"queue": queue, "target": target, "n": _MAX_COUNTED} for queue in sorted(queues)]
    return sum(tx.scalar(int, "waiting_for", params) for params in wanted)


def letter(tx: Tx, row: NoticeRow, *, id_: str, link: str, now: float) -> Message:
    """Builds the message of a notice as of now."""
    end = row.kind == RECOVERED
    since = f"Since {clock(row.episode, now)}." if not end else f"Noticed at {clock(row.created_at, now)}."
    parts = [row.message, since, "" if end else _effect(tx, row, now), row.advice]
    return Message(
        id=id_,
        event="notice.recovered" if end else "notice.raised",
        level=row.level,
        title=row.title,
        at=row.created_at,
        paragraphs=tuple(part for part in parts if part),
        link=link,
        about={
            "notice": row.id,
            "kind": row.kind,
            "subject": row.subject,
            "name": row.name,
            "key": row.lane,
            "code": row.code,
            "since": datetime.fromtimestamp(row.episode, UTC).isoformat(),
        },
    )


def _effect(tx: Tx, row: NoticeRow, now: float) -> str:
    """Describes the effect on jobs, and what happens automatically."""
    if row.subject != TARGET:
        return ""
    waiting = held(tx, row.name)
    parts = [f"{many(waiting, 'job')} {'waits' if waiting == 1 else 'wait'}, none is lost."] if waiting else []
    stands = next(iter(reports.standings(tx, row.name)), None)
    if stands is not None and stands.how.next_try is not None and stands.how.next_try > now:
        parts.append(f"It is tried again by itself at {clock(stands.how.next_try, now)}.")
    return " ".join(parts)


def clock(at: float, now: float) -> str:
    """Formats a time for a reader in any zone: 14:02 UTC, with the date if it is another day."""
    moment, today = datetime.fromtimestamp(at, UTC), datetime.fromtimestamp(now, UTC)
    return f"{moment:%H:%M} UTC" if moment.date() == today.date() else f"{moment:%Y-%m-%d %H:%M} UTC"
