"""`tidegate lidarr`: status, entries, and the actions of the page."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from datetime import datetime

import click

from tidegate.apps import Installed
from tidegate.commands import NUMBER, AtServer, CommandGroup, Exit, at_server
from tidegate.errors import NotFound, Rejected
from tidegate_apps.lidarr import service
from tidegate_apps.lidarr.models import STAGES
from tidegate_apps.lidarr.service import look_words, looking_words, status_label, woken_words
from tidegate_apps.lidarr.settings import LidarrSettings

_STATES = click.Choice([*STAGES])


@click.group(
    cls=CommandGroup,
    epilog="""
    tidegate lidarr status
    tidegate lidarr retry --all
    """,
)
def lidarr() -> None:
    """List, retry and cancel what waits for Lidarr."""


@lidarr.command(epilog="tidegate lidarr status")
@at_server
def status(at: AtServer) -> None:
    """Show the number of entries, the queue of Lidarr, and the last and next send."""
    with at.installed() as there:
        report = service.submit_status(there)
        at.say(report.as_json(), *_standing(report))


@lidarr.command("list", epilog="tidegate lidarr list --state retrying")
@click.option("--state", type=_STATES, default=None, help="Only entries in this state.")
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="Maximum number of entries."
)
@at_server
def list_(at: AtServer, state: str | None, limit: int) -> None:
    """List entries with their state."""
    with at.installed() as there:
        entries, following = there.db.read(lambda tx: service.list_entries(tx, state or "", "", limit))
        now, lines = there.queue.clock.now(), list[str]()
        for entry in entries:
            look = status_label(entry, now)
            by = f"  by {entry.artist}" if entry.artist else ""
            lines.append(f"{entry.id:>7}  {entry.entity_type:<6}  {look.word}  {entry.name}{by}")
            if entry.status == "failed" and look.reason:
                lines.append(f"{'':>17}{look.reason}")
        at.say([entry.as_json() for entry in entries], *lines)
        if at.as_json:
            return
        if following:
            click.echo("There are more; raise --limit to list them.", err=True)
        if not entries:
            click.echo("No entries match.", err=True)


@lidarr.command(epilog="tidegate lidarr wake")
@at_server
def wake(at: AtServer) -> None:
    """Send what Lidarr has room for now, from this process. Exit code 1: something prevented it."""
    with at.installed() as there:
        if not there.settings.configured:
            raise Rejected(service.NOT_SET_UP)
        there.db.write(lambda tx: service.append_entry(tx, at.me, "woken now"))
        woken = asyncio.run(there.jobs.waker.run_cycle())
        at.say(woken.as_json(), woken_words(woken))
    if woken.outcome == "held":
        sys.exit(Exit.NEGATIVE)


@lidarr.command(
    epilog="""
    tidegate lidarr retry 17 18
    tidegate lidarr retry --all
    """
)
@click.argument("ids", nargs=-1, type=NUMBER)
@click.option("--all", "all_of_them", is_flag=True, help="All entries that were given up.")
@at_server
def retry(at: AtServer, ids: tuple[int, ...], all_of_them: bool) -> None:
    """Queue entries again that were given up. By id, also cancelled ones."""
    with at.installed() as there:
        if not ids and not all_of_them:
            raise click.UsageError("no entries were given; give their ids, or --all")
        if all_of_them:
            _tell(at, "retried", service.retry_all(there, at.me), [])
        else:
            _each(at, there, ids, service.retry, "retried")


@lidarr.command(epilog="tidegate lidarr cancel 19")
@click.argument("ids", nargs=-1, type=NUMBER, required=True)
@at_server
def cancel(at: AtServer, ids: tuple[int, ...]) -> None:
    """Remove entries from the queue, until you retry them."""
    with at.installed() as there:
        _each(at, there, ids, service.cancel, "cancelled")


def _each(
    at: AtServer,
    there: Installed[LidarrSettings],
    ids: tuple[int, ...],
    act: Callable[[Installed[LidarrSettings], int, str], object],
    word: str,
) -> None:
    wrong = []
    for job in ids:
        try:
            act(there, job, at.me)
        except (NotFound, Rejected) as error:
            wrong.append(str(error))
    _tell(at, word, len(ids) - len(wrong), wrong)


def _tell(at: AtServer, word: str, n: int, wrong: list[str]) -> None:
    """Print the result; exit with 1 if an entry was rejected."""
    at.say({word: n, "refused": wrong}, f"{word}: {n}")
    if wrong and not at.as_json:
        click.echo("\n".join(wrong), err=True)
    if wrong:
        sys.exit(Exit.NEGATIVE)


def _standing(found: service.SubmitStatus) -> list[str]:
    counts = [f"{n} {word.replace('_', ' ')}" for word, n in found.counts.items() if word and n]
    lines = [f"entries:   {', '.join(counts) or 'none'}"]
    if not found.configured:
        return [*lines, service.NOT_SET_UP]
    shown = "not checked yet" if found.depth is None else f"{found.taken}/{found.cap}"
    lines.append(f"Lidarr:    {shown}" + (f" ({found.own} sent and not there yet)" if found.own else ""))
    if found.last is not None:
        lines.append(f"last wake: {_clock(found.last.at)}  {woken_words(found.last)}")
    awake = None if found.waking_since is None else f"one is under way since {_clock(found.waking_since)}"
    if found.look is not None:
        lines.append(f"last look: {_clock(found.look.at)}  {look_words(found.look)}")
    if found.looking is not None:
        lines.append(f"{'':>11}{looking_words(found.looking.state)} {_clock(found.looking.at)}")
    following = "when the server runs" if found.next_wake is None else _clock(found.next_wake)
    return [*lines, f"next wake: {awake or following}"]


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at).astimezone().strftime("%H:%M:%S")
