"""`tidegate jobs`: what is queued, running and done, and what people do to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from tidegate.cli.at_store import by_option, command_at_store, many, say, store_at, table, when
from tidegate.cli.exits import Exit
from tidegate.cli.explain import lines_of
from tidegate.cli.groups import Group
from tidegate.cli.numbers import duration
from tidegate.errors import NotThere, Refused, UniqueTaken
from tidegate.ops import actions, bulk, listing, reports
from tidegate.ops.bulk import Outcome
from tidegate.ops.listing import Count, Filter
from tidegate.ops.reports import JobReport, QueueReport
from tidegate.store import watching
from tidegate.store.tx import Store, Tx

_FILTERS = (
    click.option("--queue", default="", help="Of this queue."),
    click.option("--kind", default="", help="Of this kind."),
    click.option("--target", default="", help="Of this target."),
    click.option("--code", default="", help="Whose last failure has this code."),
)


def _filters(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_FILTERS):
        command = option(command)
    return command


@click.group(cls=Group)
def jobs() -> None:
    """Lists, shows, retries, cancels and forgets jobs, and pauses queues."""


@jobs.command("list")
@click.option("--state", default="", type=click.Choice(["", *listing.STATES]), help="In this state.")
@_filters
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 10_000), help="At most so many.")
@command_at_store
def list_(
    state: str, queue: str, kind: str, target: str, code: str, limit: int, url: str, driver: str | None, as_json: bool
) -> int:
    """Lists jobs, the newest first."""
    wanted = Filter(queue=queue, state=state, kind=kind, target=target, code=code)
    with store_at(url, driver) as store:
        found = store.read(lambda tx: listing.jobs(tx, wanted, most=limit)).items
    head = ("ID", "STATE", "QUEUE", "KIND", "TARGET", "KEY", "ATTEMPT", "CODE", "AT")
    rows = [
        (str(job.id), job.state, job.queue, job.kind, job.target, job.key, f"{job.attempt}/{job.most_attempts}",
         job.code or "", when(job.finished_at or job.due_at))
        for job in found
    ]  # fmt: skip
    say([job.as_json() for job in found], as_json, lambda: table(rows, head) or ["There is no such job."])
    return Exit.OK


@jobs.command()
@command_at_store
def queues(url: str, driver: str | None, as_json: bool) -> int:
    """Lists the queues, with how many jobs they have in which state."""
    with store_at(url, driver) as store:
        found = store.read(reports.queues)
    say([each.as_json() for each in found], as_json, lambda: _queue_lines(found))
    return Exit.OK


def _queue_lines(found: list[QueueReport]) -> list[str]:
    head = ("QUEUE", *(stage.upper() for stage in reports.STAGES), "WORKERS", "PAUSED UNTIL")
    rows = [
        (each.name, *(str(each.jobs.get(stage, 0)) for stage in reports.STAGES), str(each.workers),
         when(each.paused_until))
        for each in found
    ]  # fmt: skip
    return table(rows, head) or ["There is no queue."]


@jobs.command()
@click.argument("job_id", type=click.IntRange(1), metavar="ID")
@command_at_store
def show(job_id: int, url: str, driver: str | None, as_json: bool) -> int:
    """Shows one job: its arguments, its history, and why it waits if it does."""
    with store_at(url, driver) as store:
        found = store.read(lambda tx: reports.job(tx, job_id))
    say(found.as_json(), as_json, lambda: _detail(found))
    return Exit.OK


def _detail(found: JobReport) -> list[str]:
    job = found.job
    about = [
        ("state", str(job.state)), ("queue", job.queue), ("kind", job.kind), ("target", job.target),
        ("key", job.lane), ("attempt", f"{job.attempt} of {job.most_attempts}"), ("created", when(job.created_at)),
        ("due", when(job.due_at)), ("ended", when(job.finished_at)), ("worker", job.lease_by or ""),
        ("arguments", job.args), ("result", job.result or ""), ("error", job.error_code or ""),
        ("message", job.error_message or job.last_message or ""),
    ]  # fmt: skip
    lines = [f"job {job.id}", *(f"  {name:<10} {text}" for name, text in about if text)]
    lines += ["", *lines_of(found.whys)] if found.whys else []
    events = [
        (when(event.at), event.kind, str(event.attempt), event.code or "", event.actor or "") for event in found.events
    ]
    return [*lines, "", *table(events, ("AT", "EVENT", "ATTEMPT", "CODE", "BY"))]


@jobs.command()
@click.argument("ids", type=click.IntRange(1), nargs=-1, metavar="[ID]...")
@_filters
@click.option("--expect", type=click.IntRange(0), help="Retry all that match, if they are so many.")
@by_option
@command_at_store
def retry(
    ids: tuple[int, ...], queue: str, kind: str, target: str, code: str, expect: int | None, by: str, url: str,
    driver: str | None, as_json: bool,
) -> int:  # fmt: skip
    """Queues failed jobs again: the ones named, or all that match a filter.

    With a filter the number is only told at first; give it back with --expect to retry them.
    """
    wanted = Filter(queue=queue, kind=kind, target=target, code=code)
    chosen = wanted != Filter()
    if ids and (chosen or expect is not None):
        raise click.UsageError("give ids, or a filter with --expect, not both")
    if not ids and not chosen:
        raise click.UsageError("give the ids of jobs, or a filter such as --queue or --code")
    if ids:
        return _each(ids, url, driver, as_json, lambda tx, job: actions.retry(tx, job, by), "queued again")
    with store_at(url, driver) as store:
        if expect is None:
            counted = store.read(lambda tx: bulk.preview(tx, "retry", wanted))
            say({"matched": counted.n, "retried": 0, "left": [], "dry_run": True}, as_json, lambda: _counted(counted))
            return Exit.OK
        found = bulk.run(store, "retry", wanted, by, expected=expect)
        watching.tell(store)
    say(
        {"matched": found.matched, "retried": found.changed, "left": list(found.left), "dry_run": False},
        as_json, lambda: _retried(found),
    )  # fmt: skip
    return Exit.NEGATIVE if found.left else Exit.OK


def _counted(counted: Count) -> list[str]:
    if counted.capped:
        return [f"{counted} failed jobs found; that is too many at once, narrow it down."]
    return [f"{many(counted.n, 'failed job')} found; to retry, say --expect {counted.n}."]


def _retried(found: Outcome) -> list[str]:
    lines = [f"{many(found.changed, 'job')} queued again."]
    return [*lines, f"Not retried: {', '.join(map(str, found.left))}."] if found.left else lines


@jobs.command()
@click.argument("ids", type=click.IntRange(1), nargs=-1, required=True, metavar="ID...")
@by_option
@command_at_store
def cancel(ids: tuple[int, ...], by: str, url: str, driver: str | None, as_json: bool) -> int:
    """Cancels jobs; one that runs is told to stop."""
    return _each(ids, url, driver, as_json, lambda tx, job: actions.cancel(tx, job, by), "cancelled")


@jobs.command()
@click.argument("ids", type=click.IntRange(1), nargs=-1, required=True, metavar="ID...")
@by_option
@command_at_store
def forget(ids: tuple[int, ...], by: str, url: str, driver: str | None, as_json: bool) -> int:
    """Removes jobs that have ended, with their history, and frees what they hold."""
    return _each(ids, url, driver, as_json, lambda tx, job: actions.forget(tx, job, by), "forgotten")


@jobs.command()
@click.argument("queue")
@click.option("--for", "lasts", required=True, metavar="TIME", callback=duration, help="For how long, such as 2h.")
@by_option
@command_at_store
def pause(queue: str, lasts: float, by: str, url: str, driver: str | None, as_json: bool) -> int:
    """Claims no job of a queue for a time."""

    def work(tx: Tx) -> float:
        return actions.pause_queue(tx, queue, actions.now_of(tx) + lasts, by)

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
        watching.tell(store)
    says = f"The queue {queue} goes on." if was else f"The queue {queue} was not paused."
    say({"queue": queue, "was_paused": was}, as_json, lambda: [says])
    return Exit.OK if was else Exit.NEGATIVE


def _each(
    ids: tuple[int, ...], url: str, driver: str | None, as_json: bool, act: Callable[[Tx, int], Any], done: str
) -> int:
    """Each job in a transaction of its own; the exit code is that of the first mistake."""
    found: list[dict[str, Any]] = []
    code = Exit.OK
    with store_at(url, driver) as store:
        for job in ids:
            said, ended = _one(store, job, act)
            found.append({"job": job, "done": ended is Exit.OK, "says": said})
            code = code or ended
        watching.tell(store)

    def lines() -> list[str]:
        return [f"job {each['job']}: {each['says'] or done}" for each in found]

    say(found, as_json, lines)
    return code


def _one(store: Store, job: int, act: Callable[[Tx, int], Any]) -> tuple[str, Exit]:
    try:
        said = store.write(lambda tx: act(tx, job))
    except NotThere as error:
        return str(error), Exit.NOT_FOUND
    except Refused as error:
        return str(error), Exit.REFUSED
    except UniqueTaken:
        return "another job has taken its place", Exit.REFUSED
    return "it runs, and was told to stop" if said == "asked" else "", Exit.OK
