"""`tidegate music`: connect services, sync them, and list the library."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Any

import click

from tidegate.apps import Installed
from tidegate.commands import AtServer, Exit, at_server
from tidegate.errors import NotFound
from tidegate_apps.music.provider import ProviderKind
from tidegate_apps.music.service import CALM, ConnectionSummary

# The user of the command line while no account has a password.
_of_user = click.option("--user", default="local", show_default=True, help="Whose music it is about.")


@click.group()
def music() -> None:
    """Connects services, syncs them, and lists what they brought."""


@music.command()
@at_server
@_of_user
def status(at: AtServer, user: str) -> None:
    """Shows how each service is: its state, the last success, the next try."""
    with at.installed() as there:
        from tidegate_apps.music.service import lines_of

        lines = lines_of(there, user)
        at.say([_as_json(line) for line in lines], *(_line(line) for line in lines))
    if any(line.look.name == "action" for line in lines):
        sys.exit(Exit.NEGATIVE)


@music.command()
@click.argument("provider")
@click.argument("values", nargs=-1)
@at_server
@_of_user
def connect(at: AtServer, provider: str, values: tuple[str, ...], user: str) -> None:
    """Connects a service. VALUES are NAME=VALUE; what is missing is asked for, secrets without showing them."""
    from tidegate_apps.music.registry import WrongValue, asked_for

    entered = dict(value.partition("=")[::2] for value in values)
    with at.installed() as there:
        kind = _kind(there, provider)
        if kind.oauth is not None and kind.oauth.required:
            raise click.UsageError(f"{kind.title} wants a login in a browser; connect it on the page Music")
        for field in asked_for(kind):
            if field.name not in entered and field.required and not field.default and sys.stdin.isatty():
                entered[field.name] = click.prompt(field.label, hide_input=field.secret)
        try:
            there.jobs.connections.enter(user, kind, entered, loopback=True, by=at.me)
        except WrongValue as error:
            raise click.UsageError(str(error)) from error
        at.say({"user": user, "provider": kind.name}, f"connected: {kind.title} of {user}")


@music.command()
@click.argument("provider")
@at_server
@_of_user
def disconnect(at: AtServer, provider: str, user: str) -> None:
    """Disconnects a service: its credentials are deleted, what it brought stays."""
    with at.installed() as there:
        kind = _kind(there, provider)
        there.jobs.connections.remove(user, kind.name, by=at.me)
        at.say({"user": user, "provider": kind.name}, f"disconnected: {kind.title} of {user}")


@music.command()
@click.argument("provider")
@click.option("--wait", type=click.FloatRange(0), default=60, show_default=True, help="At most so many seconds.")
@at_server
@_of_user
def sync(at: AtServer, provider: str, wait: float, user: str) -> None:
    """Asks the server that runs to sync a service now, and waits until it was called."""
    from tidegate_apps.music.service import wait_for_sync

    with at.installed() as there:
        kind = _kind(there, provider)
        asked = there.queue.clock.now()
        there.jobs.connections.request_sync(user, kind.name, by=at.me)
        line = wait_for_sync(there, user, kind, asked, wait)
        if line is None:
            click.echo("nobody has called it yet; is the server running?", err=True)
            sys.exit(Exit.TIMED_OUT)
        at.say(_as_json(line), _line(line))
    if line.look.name not in CALM:
        sys.exit(Exit.NEGATIVE)


@music.command("list")
@click.argument("shelf", type=click.Choice(["artists", "albums", "tracks", "plays"]), default="artists")
@click.option("--find", default="", help="Only what has this in its name.")
@click.option("--most", type=click.IntRange(1, 10_000), default=50, show_default=True, help="At most so many.")
@at_server
@_of_user
def list_(at: AtServer, shelf: str, find: str, most: int, user: str) -> None:
    """Lists what is in the library, the most played or the newest first."""
    from tidegate_apps.music import library

    if shelf == "plays" and find:
        raise click.UsageError("plays are not searched; leave --find out, or list tracks")
    with at.installed() as there:
        if shelf == "plays":
            rows = [
                {"at": item.at, "title": item.title, "artist": item.artist, "provider": item.provider}
                for item in library.plays(there.db, user, n=most).items
            ]
            lines = [
                f"{_time(float(str(row['at'])))}  {row['title']} - {row['artist']}  ({row['provider']})" for row in rows
            ]
        else:
            entries = library.entries(there.db, shelf, user, like=find, n=most).items
            rows = [
                {"id": entry.id, "name": entry.name, "artist": entry.artist, "mbid": entry.mbid, "plays": entry.plays}
                for entry in entries
            ]
            lines = [
                f"{entry.plays:>6}  {entry.name}" + (f" - {entry.artist}" if entry.artist else "") for entry in entries
            ]
        at.say(rows, *lines)
        if not rows and not at.as_json:
            click.echo("nothing yet; connect a service with: tidegate music connect PROVIDER", err=True)


def _kind(app: Installed[Any], name: str) -> ProviderKind:
    kinds: dict[str, ProviderKind] = dict(app.jobs.kinds)
    if name not in kinds:
        raise NotFound(f"there is no provider {name!r}; there are: {', '.join(kinds)}")
    return kinds[name]


def _line(line: ConnectionSummary) -> str:
    parts = [f"{line.kind.name:<12} {line.look.word}"]
    if line.look.reason:
        parts.append(line.look.reason)
    if line.success_at:
        parts.append(f"last success {_time(line.success_at)}")
    if line.connected and line.next_at:
        parts.append(f"next try {_time(line.next_at)}")
    parts += [f"plays between {_time(gap.since)} and {_time(gap.until)} may be missing" for gap in line.gaps]
    return "; ".join(parts)


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def _as_json(line: ConnectionSummary) -> dict[str, Any]:
    from tidegate_apps.music.api import shown

    return shown(line).model_dump()
