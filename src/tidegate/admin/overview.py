"""Is anything wrong, is it getting better, and what must a person do? One value that answers it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from tidegate.jobs import explain, listing
from tidegate.jobs import reports as job_reports
from tidegate.jobs.reports import QueueReport, WorkerReport
from tidegate.labels import FULL, HELD_UP, NEED_YOU, PAUSED, RECOVERING, WELL, format_duration, many
from tidegate.notices import deliveries
from tidegate.notices.conditions import OWN_QUEUE
from tidegate.store.base import Tx, now_of
from tidegate.targets import reports, table
from tidegate.targets.reports import StatusRow, TargetReport
from tidegate.targets.table import TargetEvent

STUCK = 900.0  # seconds that a job may wait in line before a person should look
_MAX_SHOWN = 12
_MAX_EVENTS = 10
_MAX_COUNTED = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionItem:
    """One thing that a person should do."""

    kind: str  # fatal, unclassified, failed, no_worker, stuck, paused, channel
    title: str
    message: str
    subject: str = ""  # "target spotify", "queue mail"
    key: str = ""  # of that target
    href: str  # a path of the page
    action: str  # what the button says
    count: int = 1

    def as_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """How everything is at one moment. *tick* is when a worker was last heard of."""

    now: float
    sentence: str
    needs: list[ActionItem]
    targets: dict[str, int]  # how many stand how, by token
    attention: list[TargetReport]
    queues: list[QueueReport]
    workers: list[WorkerReport]
    events: list[TargetEvent]
    tick: float | None = None
    healthy: bool = field(default=True)

    def as_json(self) -> dict[str, Any]:
        lists = {
            name: [each.as_json() for each in getattr(self, name)]
            for name in ("needs", "attention", "queues", "workers", "events")
        }
        return {
            "now": self.now,
            "sentence": self.sentence,
            "healthy": self.healthy,
            "targets": self.targets,
            "tick": self.tick,
            **lists,
        }


def overview(tx: Tx) -> Overview:
    """Everything that the first page shows."""
    now = now_of(tx)
    stands = listing.by_urgency(reports.standings(tx))
    queues = job_reports.queues(tx)
    workers = job_reports.workers(tx)
    tokens = Counter(stand.token for stand in stands)
    work = [queue for queue in queues if queue.name != OWN_QUEUE]  # of deliveries, channels tell
    needs = [
        *_fatal(stands),
        *_told(tx, stands),
        *_unclassified(tx),
        *_failed(tx, work),
        *_queues(tx, work, now),
        *_paused(stands, queues),
        *_channels(tx),
    ]
    return Overview(
        now=now,
        sentence=sentence(tokens, work),
        needs=needs,
        targets=dict(tokens),
        attention=[stand.report() for stand in stands[:_MAX_SHOWN] if stand.token not in WELL],
        queues=queues,
        workers=workers,
        events=table.newest_events(tx, _MAX_EVENTS),
        tick=max((worker.seen_at for worker in workers), default=None),
        healthy=not needs and all(token in WELL | FULL for token in tokens),
    )


def target_states(tx: Tx) -> dict[str, int]:
    """How many targets stand how, by token."""
    return dict(Counter(standing.token for standing in reports.standings(tx)))


# -- the sentence ------------------------------------------------------------------------------------------------------


def sentence(tokens: Counter[str], queues: Sequence[QueueReport]) -> str:
    """The whole of it in one or two sentences."""
    waiting = _waiting(queues)
    failed = sum(queue.jobs.get("failed", 0) for queue in queues)
    parts = list(_targets_in_words(tokens))
    if not parts and not failed:
        jobs = f"{_capital(waiting)}." if waiting else "No job waits."
        return f"{_all_work(tokens)} {jobs}"
    parts += [f"{many(failed, 'job')} {'has' if failed == 1 else 'have'} failed"] if failed else []
    parts += [waiting] if waiting else []
    return f"{_capital(', '.join(parts))}. Nothing has been lost."


def _targets_in_words(tokens: Counter[str]) -> Iterator[str]:
    """The first of the parts names what is counted; the others follow it."""
    groups = (
        (NEED_YOU, "needs you", "need you"),
        (RECOVERING, "is recovering", "are recovering"),
        (HELD_UP, "is held up", "are held up"),
        (PAUSED, "is paused", "are paused"),
        (FULL, "is full", "are full"),
    )
    noun = True
    for group, one, several in groups:
        n = sum(tokens[token] for token in group)
        if n:
            yield f"{many(n, 'target') if noun else f'{n:,}'} {one if n == 1 else several}"
            noun = False


def _waiting(queues: Sequence[QueueReport]) -> str:
    n = sum(queue.waiting for queue in queues)
    oldest = max((queue.oldest for queue in queues if queue.oldest is not None), default=None)
    if not n:
        return ""
    age = "" if oldest is None else f", the oldest for {format_duration(oldest)}"
    return f"{many(n, 'job')} {'waits' if n == 1 else 'wait'}{age}"


def _all_work(tokens: Counter[str]) -> str:
    n, new = tokens.total(), tokens["new"]
    if not n:
        return "There is no target yet."
    if new:
        untried = f"{'was' if new == 1 else 'were'} not tried yet."
        works = n - new
        if not works:
            return f"{many(n, 'target')} {untried}"
        return f"{many(works, 'target')} {'works' if works == 1 else 'work'}, {new:,} {untried}"
    return "The one target works." if n == 1 else f"All {n:,} targets work."


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


# -- what a person should do -------------------------------------------------------------------------------------------


def _fatal(stands: Iterable[StatusRow]) -> Iterator[ActionItem]:
    refused = [stand for stand in stands if stand.token in NEED_YOU]
    for each in refused[:_MAX_SHOWN]:
        name = each.name
        yield ActionItem(
            kind="fatal",
            title=f"{name} needs you",
            message=each.how.reason,
            subject=f"target {name}",
            href=f"/targets/{quote(name, safe='')}",
            action=f"Open {name}",
            count=each.held or 1,
        )
    more = len(refused) - _MAX_SHOWN
    if more > 0:
        yield ActionItem(
            kind="fatal",
            title=f"{many(more, 'more target')} {'needs' if more == 1 else 'need'} you",
            message="It refused its keys, too." if more == 1 else "They refused their keys, too.",
            href="/targets?state=action",
            action="See all",
            count=more,
        )


def _told(tx: Tx, stands: Iterable[StatusRow]) -> Iterator[ActionItem]:
    """What applications tell of targets that have no row of their own, such as feeds."""
    known = {stand.name for stand in stands}
    for name, title, message, advice, key in tx.query("notices_needing", {"n": _MAX_COUNTED}):
        if name not in known:
            yield ActionItem(
                kind="fatal",
                title=title,
                message=f"{message} {advice}".strip(),
                subject=f"target {name}",
                key=key,
                href="/notices",
                action="Read the notice",
            )


def _unclassified(tx: Tx) -> Iterator[ActionItem]:
    n = int(tx.query("unclassified_jobs", {"n": _MAX_COUNTED})[0][0])
    if n:
        count = f"{_MAX_COUNTED:,} or more jobs" if n == _MAX_COUNTED else many(n, "job")
        yield ActionItem(
            kind="unclassified",
            title=f"{count} met a fault that is not known",
            message="Nobody has said yet what it means: look at one, and add a rule for it.",
            href="/failures?bucket=unclassified",
            action="Look at them",
            count=n,
        )


def _failed(tx: Tx, queues: Iterable[QueueReport]) -> Iterator[ActionItem]:
    """One need for all of them: they are sorted by what failed, on a page of their own."""
    failed = {queue.name: n for queue in queues if (n := queue.jobs.get("failed", 0))}
    if not failed:
        return
    total, one = sum(failed.values()), next(iter(failed)) if len(failed) == 1 else ""
    where = f"of {one}" if one else f"of {len(failed)} queues"
    each = "" if one else f"{', '.join(f'{n:,} of {name}' for name, n in failed.items())}. "
    it, are, them = ("It", "is", "it") if total == 1 else ("They", "are", "them")
    able = any(n > _MAX_COUNTED for n in failed.values()) or tx.query_many(
        "retriable_in", [{"queue": name} for name in failed], {"n": _MAX_COUNTED}
    )
    todo = f"{are} not tried again without you: retry or" if able else "cannot be retried: look why, and"
    yield ActionItem(
        kind="failed",
        title=f"{many(total, 'job')} {where} {'has' if total == 1 else 'have'} failed",
        message=f"{each}{it} {todo} discard {them}.",
        subject=f"queue {one}" if one else "",
        href="/failures",
        action="See the failures",
        count=total,
    )


def _queues(tx: Tx, queues: Iterable[QueueReport], now: float) -> Iterator[ActionItem]:
    for queue in queues:
        subject = f"queue {queue.name}"
        if queue.jobs.get("ready", 0) and not queue.workers:
            n = queue.jobs["ready"]
            yield ActionItem(
                kind="no_worker",
                title=f"No worker for {queue.name}",
                message=f"{many(n, 'job')} could go, and nobody works on this queue. Start one: tidegate worker.",
                subject=subject,
                href="/workers",
                action="See the workers",
                count=n,
            )
        elif (
            queue.oldest is not None
            and queue.oldest > STUCK
            and not _is_paused(queue, now)
            and not _cycled(tx, queue, now)
        ):
            yield ActionItem(
                kind="stuck",
                title=f"A job of {queue.name} has waited for {format_duration(queue.oldest or 0)}",
                message="Something holds it, and its page says what.",
                subject=subject,
                href=f"/jobs/{queue.oldest_job}",
                action="See why",
                count=queue.waiting,
            )


def _paused(stands: Iterable[StatusRow], queues: Iterable[QueueReport]) -> Iterator[ActionItem]:
    names = [
        (f"queue {queue.name}", f"/queue/{quote(queue.name, safe='')}", queue.paused_by)
        for queue in queues
        if queue.paused_until is not None
    ]
    names += [
        (f"target {stand.name}", f"/targets/{quote(stand.name, safe='')}", stand.row.paused_by)
        for stand in stands
        if stand.token in PAUSED and stand.paused
    ]
    for subject, href, by in names[:_MAX_SHOWN]:
        yield ActionItem(
            kind="paused",
            title=f"The {subject} is paused",
            message=f"{by} paused it; its jobs wait.",
            subject=subject,
            href=href,
            action="Resume it",
        )


def _channels(tx: Tx) -> Iterator[ActionItem]:
    for each in deliveries.failing(tx):
        yield ActionItem(
            kind="channel",
            title=f"The channel {each.name} does not deliver",
            message=each.reason,
            subject=f"channel {each.name}",
            href="/channels",
            action="Open the channels",
        )


def _cycled(tx: Tx, queue: QueueReport, now: float) -> bool:
    """Whether its jobs wait for the next cycle, as they may for days; one that is long overdue is another matter."""
    at = explain.next_cycle(tx, queue.name)
    return at is not None and now < at + STUCK


def _is_paused(queue: QueueReport, now: float) -> bool:
    return now < (queue.paused_until or -math.inf)
