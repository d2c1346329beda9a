"""The overview: whether anything is wrong, whether it is recovering, and what the operator should do."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
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

STUCK = 900.0  # seconds in the queue after which the operator should check a job
_MAX_SHOWN = 12
_MAX_EVENTS = 10
_MAX_COUNTED = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionItem:
    """One thing that the operator should do."""

    kind: str  # fatal, unclassified, failed, no_worker, stuck, paused, channel
    title: str
    message: str
    subject: str = ""  # "target spotify", "queue mail"
    key: str = ""  # of the target
    href: str  # a path of the page
    action: str  # the label of the button
    count: int = 1

    def as_json(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The state at one moment. *tick* is the last heartbeat of a worker."""

    now: float
    sentence: str
    needs: list[ActionItem]
    targets: dict[str, int]  # target counts by state
    attention: list[TargetReport]
    queues: list[QueueReport]
    workers: list[WorkerReport]
    events: list[TargetEvent]
    tick: float | None = None
    healthy: bool = field(default=True)

    def as_json(self) -> dict[str, object]:
        lists = {
            name: [item.as_json() for item in getattr(self, name)]
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
    """Builds everything that the first page shows."""
    now = now_of(tx)
    statuses = listing.by_urgency(reports.standings(tx))
    queues = job_reports.queues(tx)
    workers = job_reports.workers(tx)
    tokens = Counter(stand.token for stand in statuses)
    work = [queue for queue in queues if queue.name != OWN_QUEUE]  # channels report deliveries
    needs = [
        *_fatal(statuses),
        *_reported(tx, statuses),
        *_unclassified(tx),
        *_failed(tx, work),
        *_queues(tx, work, now),
        *_paused(statuses, queues),
        *_channels(tx),
    ]
    return Overview(
        now=now,
        sentence=sentence(tokens, work),
        needs=needs,
        targets=dict(tokens),
        attention=[stand.report() for stand in statuses[:_MAX_SHOWN] if stand.token not in WELL],
        queues=queues,
        workers=workers,
        events=table.newest_events(tx, _MAX_EVENTS),
        tick=max((worker.seen_at for worker in workers), default=None),
        healthy=not needs and all(token in WELL | FULL for token in tokens),
    )


def target_states(tx: Tx) -> dict[str, int]:
    """Returns target counts by state."""
    return dict(Counter(standing.token for standing in reports.standings(tx)))


# -- summary sentence --------------------------------------------------------------------------------------------------


def sentence(tokens: Counter[str], queues: Sequence[QueueReport]) -> str:
    """Summarises the state in one or two sentences."""
    waiting = _waiting(queues)
    failed = sum(queue.jobs.get("failed", 0) for queue in queues)
    parts = list(_targets_in_words(tokens))
    if not parts and not failed:
        jobs = f"{_capitalize(waiting)}." if waiting else "No job waits."
        return f"{_all_work(tokens)} {jobs}"
    parts += [f"{many(failed, 'job')} {'has' if failed == 1 else 'have'} failed"] if failed else []
    parts += [waiting] if waiting else []
    return f"{_capitalize(', '.join(parts))}. Nothing has been lost."


def _targets_in_words(tokens: Counter[str]) -> Iterator[str]:
    """Yields the parts of the sentence. The first one names the noun."""
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


def _capitalize(text: str) -> str:
    return text[:1].upper() + text[1:]


# -- action items ------------------------------------------------------------------------------------------------------


def _fatal(statuses: Iterable[StatusRow]) -> Iterator[ActionItem]:
    refused = [stand for stand in statuses if stand.token in NEED_YOU]
    for status in refused[:_MAX_SHOWN]:
        name = status.name
        yield ActionItem(
            kind="fatal",
            title=f"{name} needs you",
            message=status.how.reason,
            subject=f"target {name}",
            href=f"/targets/{quote(name, safe='')}",
            action=f"Open {name}",
            count=status.held or 1,
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


def _reported(tx: Tx, statuses: Iterable[StatusRow]) -> Iterator[ActionItem]:
    """Yields open notices of targets without a stored state, such as feeds."""
    names = {stand.name for stand in statuses}
    for name, title, message, advice, key in tx.query("notices_needing", {"n": _MAX_COUNTED}):
        if name not in names:
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
    n = tx.scalar(int, "unclassified_jobs", {"n": _MAX_COUNTED})
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
    """Yields one item for all failed jobs. The failures page groups them."""
    failed = {queue.name: n for queue in queues if (n := queue.jobs.get("failed", 0))}
    if not failed:
        return
    total, one = sum(failed.values()), next(iter(failed)) if len(failed) == 1 else ""
    where = f"of {one}" if one else f"of {len(failed)} queues"
    by_queue = "" if one else f"{', '.join(f'{n:,} of {name}' for name, n in failed.items())}. "
    it, are, them = ("It", "is", "it") if total == 1 else ("They", "are", "them")
    able = any(n > _MAX_COUNTED for n in failed.values()) or tx.query_many(
        "retriable_in", [{"queue": name} for name in failed], {"n": _MAX_COUNTED}
    )
    todo = f"{are} not tried again without you: retry or" if able else "cannot be retried: look why, and"
    yield ActionItem(
        kind="failed",
        title=f"{many(total, 'job')} {where} {'has' if total == 1 else 'have'} failed",
        message=f"{by_queue}{it} {todo} discard {them}.",
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
                message=f"{many(n, 'job')} could run, and this queue has no worker. Start one: tidegate worker.",
                subject=subject,
                href="/workers",
                action="See the workers",
                count=n,
            )
        elif (
            queue.oldest is not None
            and queue.oldest > STUCK
            and not _is_paused(queue, now)
            and not _waits_for_batch(tx, queue, now)
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


def _paused(statuses: Iterable[StatusRow], queues: Iterable[QueueReport]) -> Iterator[ActionItem]:
    names = [
        (f"queue {queue.name}", f"/queue/{quote(queue.name, safe='')}", queue.paused_by)
        for queue in queues
        if queue.paused_until is not None
    ]
    names += [
        (f"target {stand.name}", f"/targets/{quote(stand.name, safe='')}", stand.row.paused_by)
        for stand in statuses
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
    for channel in deliveries.failing(tx):
        yield ActionItem(
            kind="channel",
            title=f"The channel {channel.name} does not deliver",
            message=channel.reason,
            subject=f"channel {channel.name}",
            href="/channels",
            action="Open the channels",
        )


def _waits_for_batch(tx: Tx, queue: QueueReport, now: float) -> bool:
    """Whether its jobs wait for the next run of a batch-only queue, which may take days, and is not overdue."""
    at = explain.next_cycle(tx, queue.name)
    return at is not None and now < at + STUCK


def _is_paused(queue: QueueReport, now: float) -> bool:
    return now < (queue.paused_until or -math.inf)
