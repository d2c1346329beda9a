"""`tidegate jobs`: what is queued, running and done, and what people do to it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import click

from tidegate.cli.at_store import NUMBER, by_option, command_at_store, say, show_what, store_at, table, when
from tidegate.cli.exits import Exit
from tidegate.cli.explain import lines_of
from tidegate.cli.groups import CommandGroup
from tidegate.cli.many_jobs import Verb, act, action_options, filter_options
from tidegate.cli.numbers import duration
from tidegate.ops import actions, job_actions, listing, reports
from tidegate.ops.listing import Filter
from tidegate.ops.masking import shown_json, shown_message
from tidegate.ops.reports import JobReport, JobSummary, QueueReport
from tidegate.store.now import now_of
from tidegate.store.tx import Tx


@click.group(cls=CommandGroup)
def jobs() -> None:
    """Lists, shows, retries, cancels and forgets jobs, and pauses queues."""


@jobs.command("list")
@filter_options
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 10_000), help="At most so many.")
@command_at_store
def list_(limit: int, url: str, driver: str | None, as_json: bool, **which: Any) -> int:
    """Lists jobs, the newest first."""
    wanted = Filter(**which)
    return show_what(lambda tx: listing.jobs(tx, wanted, limit=limit).items, _job_lines, url, driver, as_json=as_json)


def _job_lines(found: Sequence[JobSummary]) -> list[str]:
    head = ("ID", "STATE", "QUEUE", "KIND", "TARGET", "KEY", "ATTEMPT", "CODE", "AT")
    rows = [
        (str(job.id), job.state, job.queue, job.kind, job.target, job.key, f"{job.attempt}/{job.most_attempts}",
         job.code or "", when(job.finished_at or job.due_at))
        for job in found
    ]  # fmt: skip
    return table(rows, head) or ["There is no such job."]


@jobs.command()
@command_at_store
def queues(url: str, driver: str | None, as_json: bool) -> int:
    """Lists the queues, with how many jobs they have in which state."""
    return show_what(reports.queues, _queue_lines, url, driver, as_json=as_json)


def _queue_lines(found: list[QueueReport]) -> list[str]:
    head = ("QUEUE", *(stage.upper() for stage in reports.STAGES), "WORKERS", "PAUSED UNTIL")
    rows = [
        (each.name, *(str(each.jobs.get(stage, 0)) for stage in reports.STAGES), str(each.workers),
         when(each.paused_until))
        for each in found
    ]  # fmt: skip
    return table(rows, head) or ["There is no queue."]


@jobs.command()
@click.argument("job_id", type=NUMBER, metavar="ID")
@command_at_store
def show(job_id: int, url: str, driver: str | None, as_json: bool) -> int:
    """Shows one job: its arguments, its history, and why it waits if it does."""
    return show_what(lambda tx: reports.job(tx, job_id), _detail, url, driver, as_json=as_json)


def _detail(found: JobReport) -> list[str]:
    job = found.job
    about = [
        ("state", str(job.state)), ("queue", job.queue), ("kind", job.kind), ("target", job.target),
        ("key", job.lane), ("attempt", f"{job.attempt} of {job.most_attempts}"), ("created", when(job.created_at)),
        ("due", when(job.due_at)), ("ended", when(job.finished_at)), ("worker", job.lease_by or ""),
        ("arguments", _shown(job.args)), ("result", _shown(job.result)), ("error", job.error_code or ""),
        ("message", shown_message(job.error_message or job.last_message or "")),
    ]  # fmt: skip
    lines = [f"job {job.id}", *(f"  {name:<10} {text}" for name, text in about if text)]
    lines += ["", *lines_of(found.reasons)] if found.reasons else []
    events = [
        (when(event.at), event.kind, str(event.attempt), event.code or "", event.actor or "") for event in found.events
    ]
    return [*lines, "", *table(events, ("AT", "EVENT", "ATTEMPT", "CODE", "BY"))]


def _shown(text: str | None) -> str:
    """JSON without secrets."""
    return "" if text is None else json.dumps(shown_json(text), ensure_ascii=False)


_RETRY = Verb(name="retry", one=job_actions.retry, which="failed job", doing="Retrying", done="queued again")
_CANCEL = Verb(
    name="cancel", one=job_actions.cancel, which="queued or running job", doing="Cancelling", done="cancelled"
)
_FORGET = Verb(name="forget", one=job_actions.forget, which="ended job", doing="Forgetting", done="forgotten")


@jobs.command()
@action_options
def retry(**asked: Any) -> int:
    """Queues failed jobs again: the ones named, or all that match a filter.

    With a filter the number is only told at first; give it back with --expect to retry them.
    """
    return act(_RETRY, **asked)


@jobs.command()
@action_options
def cancel(**asked: Any) -> int:
    """Cancels jobs, the ones named or all that match a filter; one that runs is told to stop.

    With a filter the number is only told at first; give it back with --expect to cancel them.
    """
    return act(_CANCEL, **asked)


@jobs.command()
@action_options
def forget(**asked: Any) -> int:
    """Removes jobs that have ended, with their history, and frees what they hold.

    With a filter the number is only told at first; give it back with --expect to forget them.
    """
    return act(_FORGET, **asked)


@jobs.command()
@click.argument("queue")
@click.option("--for", "lasts", required=True, metavar="TIME", callback=duration, help="For how long, such as 2h.")
@by_option
@command_at_store
def pause(queue: str, lasts: float, by: str, url: str, driver: str | None, as_json: bool) -> int:
    """Claims no job of a queue for a time."""

    def work(tx: Tx) -> float:
        return actions.pause_queue(tx, queue, now_of(tx) + lasts, by)

    with store_at(url, driver) as store:
        until = store.write(work)
    say({"queue": queue, "until": until}, as_json, lambda: [f"The queue {queue} is paused until {when(until)}."])
    return Exit.OK


@jobs.command()
@click.argument("queue")
@by_option
@command_at_store
def resume(queue: str, by: str, url: str, driver: str | None, as_json: bool) -> int:
    """Ends the pause of a queue."""
    with store_at(url, driver) as store:
        was = store.write(lambda tx: actions.resume_queue(tx, queue, by))
        store.announce()
    says = f"The queue {queue} goes on." if was else f"The queue {queue} was not paused."
    say({"queue": queue, "was_paused": was}, as_json, lambda: [says])
    return Exit.OK if was else Exit.NEGATIVE
