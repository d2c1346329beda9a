"""`tidegate jobs`: list jobs and queues, and act on them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import click

from tidegate.cli.database import NUMBER, by_option, command_at_store, many, say, show_what, store_at, table, when
from tidegate.cli.exits import Exit
from tidegate.cli.options import duration
from tidegate.cli.output import long_work
from tidegate.cli.root import CommandGroup
from tidegate.cli.targets import lines_of
from tidegate.errors import NotFound, Rejected, UniqueTaken
from tidegate.faults.redaction import shown_json, shown_message
from tidegate.jobs import actions, listing, reports
from tidegate.jobs.bulk import service
from tidegate.jobs.bulk.service import BulkOutcome
from tidegate.jobs.bulk.table import RUNNING
from tidegate.jobs.listing import STATES, Count, Filter
from tidegate.jobs.reports import JobReport, JobSummary, QueueReport
from tidegate.labels import JOBS
from tidegate.store.base import Store, Tx, now_of

# -- actions -----------------------------------------------------------------------------------------------------------
#
# On named jobs, one transaction each, or on all jobs that match a filter.

_MAX_NAMED = 20  # ids that are printed

FILTERS = (
    click.option(
        "--state",
        type=click.Choice(STATES),
        metavar="STATE",
        callback=lambda ctx, param, value: value or "",
        help=f"Only jobs in this state: {', '.join(STATES)}.",
    ),
    click.option("--queue", default="", help="Only jobs of this queue."),
    click.option("--kind", default="", help="Only jobs of this kind."),
    click.option("--target", default="", help="Only jobs of this target."),
    click.option("--code", default="", help="Only jobs whose last failure has this code."),
    click.option("--older", metavar="TIME", callback=duration, help="Only jobs older than this, such as 1h."),
    click.option("--younger", metavar="TIME", callback=duration, help="Only jobs younger than this, such as 1d."),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """An action and its texts."""

    name: str  # one of jobs.bulk.service.ACTIONS
    one: Callable[[Tx, int, str], Any]  # job id, actor
    which: str  # the jobs that a filter selects
    doing: str
    done: str


def filter_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that select jobs."""
    for option in reversed(FILTERS):
        command = option(command)
    return command


def action_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the ids, the filters, --expect, --by and the database options."""
    expect = click.option("--expect", type=click.IntRange(0), help="Act on all matching jobs, if this is their number.")
    ids = click.argument("ids", type=NUMBER, nargs=-1, metavar="[ID]...")
    return ids(filter_options(expect(by_option(command_at_store(command)))))


def act(
    verb: Verb,
    *,
    ids: tuple[int, ...],
    expect: int | None,
    by: str,
    url: str,
    driver: str | None,
    as_json: bool,
    **which: Any,
) -> int:
    """Run the action and return the exit code."""
    wanted = Filter(**which)
    chosen = wanted != Filter()
    if ids and (chosen or expect is not None):
        raise click.UsageError("ids and a filter were given; give one of them")
    if not ids and not chosen:
        raise click.UsageError("no jobs were given; give their ids, or a filter such as --queue or --code")
    if wanted.state:
        verb = replace(verb, which=f"{wanted.state} job")
    with store_at(url, driver) as store:
        if ids:
            return _act_singly(store, verb, ids, by, as_json)
        if expect is None:
            return _counted(verb, store.read(lambda tx: service.preview(tx, verb.name, wanted)), as_json)
        with long_work(lambda work: f"{work.done:,} of {work.total:,} {verb.done}", as_json=as_json) as work:
            try:
                outcome = service.run(store, verb.name, wanted, by, expected=expect, progress=work(verb.doing))
            finally:
                store.announce()
    _say(verb, outcome, as_json, lambda: _outcome(verb, outcome), dry_run=False)
    return Exit.NEGATIVE if outcome.refused or not outcome.matched else Exit.OK


def _counted(verb: Verb, count: Count, as_json: bool) -> int:
    if count.capped:
        line = f"Found {count} {verb.which}s, which is too many for one action. Add a filter."
    elif not count.n:
        line = _nothing(verb)
    else:
        line = f"Found {many(count.n, verb.which)}. To {verb.name}, add --expect {count.n}."
    _say(verb, BulkOutcome(count.n), as_json, lambda: [line], dry_run=True)
    return Exit.OK if count.n else Exit.NEGATIVE


def _outcome(verb: Verb, outcome: BulkOutcome) -> list[str]:
    if not outcome.matched:
        return [_nothing(verb)]
    lines = [f"{many(outcome.changed, 'job')} {verb.done} (bulk action {outcome.bulk})."]
    if outcome.left:
        named = ", ".join(map(str, outcome.left[:_MAX_NAMED]))
        others = outcome.refused - _MAX_NAMED
        lines.append(f"Not changed: {named}{f' and {others:,} more' if others > 0 else ''}.")
        lines.append(f"Why: tidegate bulk show {outcome.bulk}")
    if outcome.state == RUNNING:
        lines.append(f"Another process continues it. Show its progress with: tidegate bulk show {outcome.bulk}")
    return lines


def _nothing(verb: Verb) -> str:
    return f"Nothing to {verb.name}: no {verb.which} matches."


def _say(verb: Verb, outcome: BulkOutcome, as_json: bool, lines: Callable[[], list[str]], *, dry_run: bool) -> None:
    say({"action": verb.name, **outcome.as_json(), "dry_run": dry_run}, as_json, lines)


def _act_singly(store: Store, verb: Verb, ids: tuple[int, ...], by: str, as_json: bool) -> int:
    """Act on each job in its own transaction. The exit code is that of the first error."""
    results: list[dict[str, object]] = []
    code = Exit.OK
    for job in ids:
        message, ended = _act_on_job(store, verb, job, by)
        results.append({"job": job, "done": ended is Exit.OK, "says": message})
        code = code or ended
    store.announce()
    say(results, as_json, lambda: [f"job {result['job']}: {result['says'] or verb.done}" for result in results])
    return code


def _act_on_job(store: Store, verb: Verb, job: int, by: str) -> tuple[str, Exit]:
    try:
        message = store.write(lambda tx: verb.one(tx, job, by))
    except NotFound as error:
        return str(error), Exit.NOT_FOUND
    except Rejected as error:
        return str(error), Exit.REFUSED
    except UniqueTaken:
        return "another job has its unique value now; cancel that one first", Exit.REFUSED
    return "running; it was asked to stop" if message == "asked" else "", Exit.OK


@click.group(
    cls=CommandGroup,
    epilog="""
    tidegate jobs list --state failed
    tidegate jobs retry 12
    """,
)
def jobs() -> None:
    """List, show, retry, cancel and forget jobs, and pause queues."""


@jobs.command("list", epilog="tidegate jobs list --state failed --queue mail --younger 1d")
@filter_options
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 10_000), help="Maximum number of jobs.")
@command_at_store
def list_(limit: int, url: str, driver: str | None, as_json: bool, **which: Any) -> int:
    """List jobs, newest first."""
    wanted = Filter(**which)
    return show_what(lambda tx: listing.jobs(tx, wanted, limit=limit).items, _job_lines, url, driver, as_json=as_json)


def _job_lines(jobs: Sequence[JobSummary]) -> list[str]:
    head = ("ID", "STATE", "QUEUE", "KIND", "TARGET", "KEY", "ATTEMPT", "CODE", "AT")
    rows = [
        (
            str(job.id),
            job.state,
            job.queue,
            job.kind,
            job.target,
            job.key,
            f"{job.attempt}/{job.most_attempts}",
            job.code or "",
            when(job.finished_at or job.due_at),
        )
        for job in jobs
    ]
    tones = {state: label.tone for state, label in JOBS.items()}
    return table(rows, head, tones) or ["No jobs match."]


@jobs.command(epilog="tidegate jobs queues")
@command_at_store
def queues(url: str, driver: str | None, as_json: bool) -> int:
    """List queues with their number of jobs in each state."""
    return show_what(reports.queues, _queue_lines, url, driver, as_json=as_json)


def _queue_lines(queues: list[QueueReport]) -> list[str]:
    head = ("QUEUE", *(stage.upper() for stage in reports.STAGES), "WORKERS", "PAUSED UNTIL")
    rows = [
        (
            queue.name,
            *(str(queue.jobs.get(stage, 0)) for stage in reports.STAGES),
            str(queue.workers),
            when(queue.paused_until),
        )
        for queue in queues
    ]
    return table(rows, head) or ["No queues yet."]


@jobs.command(epilog="tidegate jobs show 12")
@click.argument("job_id", type=NUMBER, metavar="ID")
@command_at_store
def show(job_id: int, url: str, driver: str | None, as_json: bool) -> int:
    """Show one job: its arguments, its history, and why it waits."""
    return show_what(lambda tx: reports.job(tx, job_id), _detail, url, driver, as_json=as_json)


def _detail(report: JobReport) -> list[str]:
    job = report.job
    about = [
        ("state", str(job.state)),
        ("queue", job.queue),
        ("kind", job.kind),
        ("target", job.target),
        ("key", job.lane),
        ("attempt", f"{job.attempt} of {job.most_attempts}"),
        ("created", when(job.created_at)),
        ("due", when(job.due_at)),
        ("ended", when(job.finished_at)),
        ("worker", job.lease_by or ""),
        ("arguments", _shown(job.args)),
        ("result", _shown(job.result)),
        ("error", job.error_code or ""),
        ("message", shown_message(job.error_message or job.last_message or "")),
    ]
    lines = [f"job {job.id}", *(f"  {name:<10} {text}" for name, text in about if text)]
    lines += ["", *lines_of(report.reasons)] if report.reasons else []
    events = [
        (when(event.at), event.kind, str(event.attempt), event.code or "", event.actor or "") for event in report.events
    ]
    return [*lines, "", *table(events, ("AT", "EVENT", "ATTEMPT", "CODE", "BY"))]


def _shown(text: str | None) -> str:
    """Return JSON with secrets redacted."""
    return "" if text is None else json.dumps(shown_json(text), ensure_ascii=False)


_RETRY = Verb(name="retry", one=actions.retry, which="failed job", doing="Retrying", done="queued again")
_CANCEL = Verb(name="cancel", one=actions.cancel, which="queued or running job", doing="Cancelling", done="cancelled")
_FORGET = Verb(name="forget", one=actions.forget, which="ended job", doing="Forgetting", done="forgotten")


@jobs.command(
    epilog="""
    tidegate jobs retry 12 13
    tidegate jobs retry --queue mail --code timeout
    tidegate jobs retry --queue mail --code timeout --expect 240
    """
)
@action_options
def retry(**options: Any) -> int:
    """Queue failed jobs again: the ones you name, or all that match a filter.

    With a filter, the command first prints how many jobs match. Repeat it with that number as --expect.
    """
    return act(_RETRY, **options)


@jobs.command(
    epilog="""
    tidegate jobs cancel 12
    tidegate jobs cancel --queue mail --expect 240
    """
)
@action_options
def cancel(**options: Any) -> int:
    """Cancel jobs: the ones you name, or all that match a filter. A running job is asked to stop.

    With a filter, the command first prints how many jobs match. Repeat it with that number as --expect.
    """
    return act(_CANCEL, **options)


@jobs.command(
    epilog="""
    tidegate jobs forget 12
    tidegate jobs forget --state done --older 30d --expect 240
    """
)
@action_options
def forget(**options: Any) -> int:
    """Remove finished jobs with their history, and free their unique values.

    With a filter, the command first prints how many jobs match. Repeat it with that number as --expect.
    """
    return act(_FORGET, **options)


@jobs.command(epilog="tidegate jobs pause mail --for 2h")
@click.argument("queue")
@click.option(
    "--for", "lasts", required=True, metavar="TIME", callback=duration, help="Duration of the pause, such as 2h."
)
@by_option
@command_at_store
def pause(queue: str, lasts: float, by: str, url: str, driver: str | None, as_json: bool) -> int:
    """Pause a queue: no worker claims its jobs until then."""

    def work(tx: Tx) -> float:
        return actions.pause_queue(tx, queue, now_of(tx) + lasts, by)

    with store_at(url, driver) as store:
        until = store.write(work)
    say({"queue": queue, "until": until}, as_json, lambda: [f"The queue {queue} is paused until {when(until)}."])
    return Exit.OK


@jobs.command(epilog="tidegate jobs resume mail")
@click.argument("queue")
@by_option
@command_at_store
def resume(queue: str, by: str, url: str, driver: str | None, as_json: bool) -> int:
    """End the pause of a queue."""
    with store_at(url, driver) as store:
        was = store.write(lambda tx: actions.resume_queue(tx, queue, by))
        store.announce()
    message = f"The queue {queue} is no longer paused." if was else f"The queue {queue} was not paused."
    say({"queue": queue, "was_paused": was}, as_json, lambda: [message])
    return Exit.OK if was else Exit.NEGATIVE
