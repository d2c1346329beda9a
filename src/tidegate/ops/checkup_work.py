"""Whether anybody works, and what is held up that a person should know of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from shlex import quote

from tidegate.machine.states import OPEN
from tidegate.ops import reports, target_reports
from tidegate.ops.checkup import Finding, error_finding, ok_finding, warn_finding
from tidegate.ops.explain import WORKER_GONE
from tidegate.ops.target_reports import StatusRow
from tidegate.ops.words import NEED_YOU, format_duration, many
from tidegate.store.now import now_of
from tidegate.store.tx import Tx

PAUSED_LONG = 86400.0
OPEN_LONG = 3600.0
_MAX_FINDINGS = 10  # of one kind; the rest is counted


def workers(tx: Tx) -> Iterator[Finding]:
    """Those that are there, those that were not heard of, and jobs that wait for one in vain."""
    now = now_of(tx)
    known = reports.workers(tx)
    there = [each for each in known if each.there]
    idle = [each for each in reports.queues(tx) if each.jobs.get("ready") and not each.workers]
    for queue in idle[:_MAX_FINDINGS]:
        fact = f"{many(queue.jobs['ready'], 'job')} of {queue.name} could go, and no worker works on that queue."
        yield error_finding(
            "workers.there", fact, "tidegate serve, or tidegate worker MODULE:QUEUE for your own program"
        )
    if len(idle) > _MAX_FINDINGS:
        yield error_finding(
            "workers.there", f"So it is with {many(len(idle) - _MAX_FINDINGS, 'more queue')}.", "tidegate jobs queues"
        )
    if not idle:
        at_work = f"{many(len(there), 'worker')} {'is' if len(there) == 1 else 'are'} at work"
        yield ok_finding("workers.there", f"{at_work}." if there else "No worker is at work, and no job waits for one.")
    for each in known:
        if not each.there:
            fact = f"The worker {each.pid} on {each.host} was last heard of {format_duration(now - each.seen_at)} ago."
            yield warn_finding(
                "workers.heard", fact, f"Look at it on {each.host}. If it was killed: it is forgotten after a day."
            )
    n, first = tx.query("late_leases")[0]
    if n and now - float(first) > WORKER_GONE:
        ago = format_duration(now - first)
        fact = f"{many(int(n), 'job')} {'runs' if n == 1 else 'run'} under a lease that ended {ago} ago."
        yield warn_finding("workers.leases", fact, "A worker takes them over by itself, once there is one.")


def targets(tx: Tx) -> Iterator[Finding]:
    """Targets that a person must mend, that have been held for long, or that somebody forgot to resume."""
    now = now_of(tx)
    stands = target_reports.standings(tx)
    found = [*_limited(_fatal(stands)), *_limited(_open(stands, now)), *_limited(_paused(stands, tx, now))]
    yield from found
    if not found:
        yield ok_finding(
            "targets.well", f"{many(len(stands), 'target')}, and none needs you." if stands else "No target yet."
        )


def _fatal(stands: Iterable[StatusRow]) -> Iterator[Finding]:
    for stand in stands:
        if stand.how.token in NEED_YOU:
            name = stand.row.name
            fix = f"Mend what it complains of, then clear it; tidegate targets show {quote(name)} says which key"
            yield error_finding("targets.fatal", f"{name} needs you. {stand.how.reason}", fix)


def _open(stands: Iterable[StatusRow], now: float) -> Iterator[Finding]:
    for stand in stands:
        if stand.row.breaker.state == OPEN and now - stand.row.breaker.since > OPEN_LONG:
            fact = (
                f"{stand.row.name} has been held by its breaker for {format_duration(now - stand.row.breaker.since)}."
            )
            yield warn_finding("targets.open", fact, f"tidegate explain target {quote(stand.row.name)}")


def _paused(stands: Iterable[StatusRow], tx: Tx, now: float) -> Iterator[Finding]:
    rows = [("targets", stand.row.name, stand.row.paused_at, stand.row.paused_by) for stand in stands if stand.paused]
    rows += [
        ("jobs", name, at, by) for name, at, until, by in tx.query("queue_rows") if until is not None and now < until
    ]
    for verb, name, at, by in rows:
        if at is not None and now - at > PAUSED_LONG:
            what = "queue" if verb == "jobs" else "target"
            fact = f"The {what} {name} has been paused for {format_duration(now - at)}, by {by}."
            yield warn_finding("targets.paused", fact, f"tidegate {verb} resume {quote(name)}")


def _limited(findings: Iterator[Finding]) -> Iterator[Finding]:
    every = list(findings)
    yield from every[:_MAX_FINDINGS]
    if len(every) > _MAX_FINDINGS:
        last = every[_MAX_FINDINGS]
        yield Finding(
            id=last.id,
            status=last.status,
            fact=f"So it is with {len(every) - _MAX_FINDINGS:,} more.",
            fix="tidegate targets list",
        )
