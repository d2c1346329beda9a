"""`tidegate lidarr`: what the page shows and does, at a terminal."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import click

from tidegate import NotThere, Refused
from tidegate_apps.lidarr import acting, reading
from tidegate_apps.lidarr.looks import look_of, look_words, looking_words, woken_words

F = TypeVar("F", bound=Callable[..., Any])
_FILE = click.Path(path_type=Path, dir_okay=False)
_STATES = click.Choice(["queued", "artist", "retrying", "gave_up", "submitted", "cancelled"])


def at_server(command: F) -> F:
    """Adds --config, --url and --json."""
    options = (
        click.option("--config", type=_FILE, help="The settings, if not ./tidegate.toml."),
        click.option("--url", help="The database, if not that of the settings."),
        click.option("--json", "as_json", is_flag=True, help="Print one JSON document."),
        click.pass_obj,
    )
    for option in reversed(options):
        command = option(command)  # type: ignore[assignment]  # they keep its type, and click cannot say so
    return command


@click.group()
def lidarr() -> None:
    """Shows what waits for Lidarr, wakes the sender, and retries what was given up."""


@lidarr.command()
@at_server
def status(obj: Any, config: Path, url: str, as_json: bool) -> None:
    """Shows how many entries there are, how full Lidarr is, the last wake and the next."""
    with obj(config=config, url=url) as there:
        found = reading.standing(there)
        if as_json:
            click.echo(json.dumps(found.as_json(), indent=2))
            return
        counts = [f"{n} {word.replace('_', ' ')}" for word, n in found.counts.items() if word and n]
        click.echo(f"entries:   {', '.join(counts) or 'none'}")
        if not found.configured:
            click.echo(acting.NOT_SET_UP)
            return
        shown = "not asked yet" if found.depth is None else f"{found.taken}/{found.cap}"
        click.echo(f"Lidarr:    {shown}" + (f" ({found.own} sent and not there yet)" if found.own else ""))
        if found.last is not None:
            click.echo(f"last wake: {_clock(found.last.at)}  {woken_words(found.last)}")
        awake = None if found.waking_since is None else f"one is under way since {_clock(found.waking_since)}"
        if found.look is not None:
            click.echo(f"last look: {_clock(found.look[0])}  {look_words(found.look)}")
        if found.looking is not None:
            click.echo(f"{'':>11}{looking_words(found.looking[0])} {_clock(found.looking[1])}")
        following = "when the server runs" if found.next_wake is None else _clock(found.next_wake)
        click.echo(f"next wake: {awake or following}")


@lidarr.command("list")
@click.option("--state", type=_STATES, default=None, help="Only these.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="At most so many.")
@at_server
def list_(obj: Any, state: str | None, limit: int, config: Path, url: str, as_json: bool) -> None:
    """Lists the entries, each with its state."""
    with obj(config=config, url=url) as there:
        found, following = there.db.read(lambda tx: reading.listed(tx, state or "", "", limit))
        if as_json:
            click.echo(json.dumps([each.as_json() for each in found], indent=2))
            return
        now = there.queue.clock.now()
        for each in found:
            look = look_of(each, now)
            by = f"  by {each.artist}" if each.artist else ""
            click.echo(f"{each.id:>7}  {each.entity_type:<6}  {look.word}  {each.name}{by}")
            if each.status == "failed" and look.reason:
                click.echo(f"{'':>17}{look.reason}")
        if following:
            click.echo("there are more; ask for them with --limit", err=True)
        if not found:
            click.echo("there is no entry", err=True)


@lidarr.command()
@at_server
def wake(obj: Any, config: Path, url: str, as_json: bool) -> None:
    """Wakes the sender now, in this process; exits with 1 when something kept it from its work."""
    with obj(config=config, url=url) as there:
        if not there.settings.configured:
            raise Refused(acting.NOT_SET_UP)
        there.db.write(lambda tx: acting.noted(tx, obj.me, "woken now"))
        woken = asyncio.run(there.jobs.waker.wake())
        click.echo(json.dumps(woken.as_json(), indent=2) if as_json else woken_words(woken))
    if woken.outcome == "held":
        sys.exit(1)


@lidarr.command()
@click.argument("ids", nargs=-1, type=int)
@click.option("--all", "all_of_them", is_flag=True, help="All that were given up.")
@at_server
def retry(obj: Any, ids: tuple[int, ...], all_of_them: bool, config: Path, url: str, as_json: bool) -> None:
    """Puts entries that were given up back into the queue; by their numbers also those that were cancelled."""
    with obj(config=config, url=url) as there:
        if not ids and not all_of_them:
            raise click.UsageError("which entries? Give their numbers, or --all")
        if all_of_them:
            _tell("retried", acting.retry_all(there, obj.me), [], as_json)
        else:
            _each(there, obj.me, ids, acting.retry, "retried", as_json)


@lidarr.command()
@click.argument("ids", nargs=-1, type=int, required=True)
@at_server
def cancel(obj: Any, ids: tuple[int, ...], config: Path, url: str, as_json: bool) -> None:
    """Takes entries out of the queue, until they are put back by `retry`."""
    with obj(config=config, url=url) as there:
        _each(there, obj.me, ids, acting.cancel, "cancelled", as_json)


def _each(
    there: Any, by: str, ids: tuple[int, ...], act: Callable[[Any, int, str], object], word: str, as_json: bool
) -> None:
    wrong = []
    for each in ids:
        try:
            act(there, each, by)
        except (NotThere, Refused) as error:
            wrong.append(str(error))
    _tell(word, len(ids) - len(wrong), wrong, as_json)


def _tell(word: str, n: int, wrong: list[str], as_json: bool) -> None:
    """Exits with 1 when something was refused."""
    click.echo(json.dumps({word: n, "refused": wrong}, indent=2) if as_json else f"{word}: {n}")
    if wrong and not as_json:
        click.echo("\n".join(wrong), err=True)
    if wrong:
        sys.exit(1)


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at).astimezone().strftime("%H:%M:%S")
