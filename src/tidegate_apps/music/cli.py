"""`tidegate music`: connect services, sync them, and list the library."""

from __future__ import annotations

import sys
from datetime import UTC, datetime

import click

from tidegate.apps import Installed
from tidegate.commands import AtServer, CommandGroup, Exit, at_server
from tidegate.errors import NotFound
from tidegate_apps.music.provider import ProviderKind
from tidegate_apps.music.service import CALM, ConnectionSummary
from tidegate_apps.music.settings import MusicSettings

# The user of the command line while no account has a password.
_of_user = click.option("--user", default="local", show_default=True, help="User of the connection and the library.")


@click.group(
    cls=CommandGroup,
    epilog="""
    tidegate music connect lastfm user=ada
    tidegate music status
    """,
)
def music() -> None:
    """Connect and sync music services, and list the library."""


@music.command(epilog="tidegate music status --user ada")
@at_server
@_of_user
def status(at: AtServer, user: str) -> None:
    """Show each service: its state, the last success, the next attempt. Exit code 1: one needs you."""
    with at.installed() as there:
        from tidegate_apps.music.service import lines_of

        lines = lines_of(there, user)
        at.say([_as_json(line) for line in lines], *(_line(line) for line in lines))
    if any(line.look.name == "action" for line in lines):
        sys.exit(Exit.NEGATIVE)


@music.command(epilog="tidegate music connect lastfm user=ada --user ada")
@click.argument("provider")
@click.argument("values", nargs=-1)
@at_server
@_of_user
def connect(at: AtServer, provider: str, values: tuple[str, ...], user: str) -> None:
    """Connect a service. VALUES are NAME=VALUE. Missing ones are prompted for; secrets are hidden."""
    from tidegate_apps.music.registry import WrongValue, asked_for

    entered = dict(value.partition("=")[::2] for value in values)
    with at.installed() as there:
        kind = _kind(there, provider)
        if kind.oauth is not None and kind.oauth.required:
            raise click.UsageError(f"{kind.title} needs a login in a browser; connect it on the page Music")
        for field in asked_for(kind):
            if field.name not in entered and field.required and not field.default and sys.stdin.isatty():
                entered[field.name] = click.prompt(field.label, hide_input=field.secret)
        try:
            there.jobs.connections.enter(user, kind, entered, loopback=True, by=at.me)
        except WrongValue as error:
            raise click.UsageError(str(error)) from error
        at.say({"user": user, "provider": kind.name}, f"connected: {kind.title} of {user}")


@music.command(epilog="tidegate music disconnect lastfm")
@click.argument("provider")
@at_server
@_of_user
def disconnect(at: AtServer, provider: str, user: str) -> None:
    """Disconnect a service and delete its credentials. Its music stays in the library."""
    with at.installed() as there:
        kind = _kind(there, provider)
        there.jobs.connections.remove(user, kind.name, by=at.me)
        at.say({"user": user, "provider": kind.name}, f"disconnected: {kind.title} of {user}")


@music.command(epilog="tidegate music sync lastfm --wait 30")
@click.argument("provider")
@click.option("--wait", type=click.FloatRange(0), default=60, show_default=True, help="Maximum seconds to wait.")
@at_server
@_of_user
def sync(at: AtServer, provider: str, wait: float, user: str) -> None:
    """Sync a service now, in the running server, and wait for the result."""
    from tidegate_apps.music.service import wait_for_sync

    with at.installed() as there:
        kind = _kind(there, provider)
        asked = there.queue.clock.now()
        there.jobs.connections.request_sync(user, kind.name, by=at.me)
        line = wait_for_sync(there, user, kind, asked, wait)
        if line is None:
            click.echo(
                f"no sync of {kind.title} ran within {wait:g} s; start the server with `tidegate serve`", err=True
            )
            sys.exit(Exit.TIMED_OUT)
        at.say(_as_json(line), _line(line))
    if line.look.name not in CALM:
        sys.exit(Exit.NEGATIVE)


@music.command("list", epilog="tidegate music list tracks --find 'hey jude'")
@click.argument("shelf", type=click.Choice(["artists", "albums", "tracks", "plays"]), default="artists")
@click.option("--find", default="", help="Only names that contain this text.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="Maximum number.")
@at_server
@_of_user
def list_(at: AtServer, shelf: str, find: str, limit: int, user: str) -> None:
    """List artists, albums, tracks or plays: the most played or the newest first."""
    from tidegate_apps.music import library

    if shelf == "plays" and find:
        raise click.UsageError(f"--find {find!r} cannot search plays; leave it out, or list tracks")
    with at.installed() as there:
        if shelf == "plays":
            rows = [
                {"at": item.at, "title": item.title, "artist": item.artist, "provider": item.provider}
                for item in library.plays(there.db, user, n=limit).items
            ]
            lines = [
                f"{_time(float(str(row['at'])))}  {row['title']} - {row['artist']}  ({row['provider']})" for row in rows
            ]
        else:
            entries = library.entries(there.db, shelf, user, like=find, n=limit).items
            rows = [
                {"id": entry.id, "name": entry.name, "artist": entry.artist, "mbid": entry.mbid, "plays": entry.plays}
                for entry in entries
            ]
            lines = [
                f"{entry.plays:>6}  {entry.name}" + (f" - {entry.artist}" if entry.artist else "") for entry in entries
            ]
        at.say(rows, *lines)
        if not rows and not at.as_json:
            click.echo("Nothing yet. Connect a service with: tidegate music connect PROVIDER", err=True)


def _kind(app: Installed[MusicSettings], name: str) -> ProviderKind:
    kinds: dict[str, ProviderKind] = dict(app.jobs.kinds)
    if name not in kinds:
        raise NotFound(f"unknown provider {name!r}; choose one of: {', '.join(kinds)}")
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


def _as_json(line: ConnectionSummary) -> dict[str, object]:
    from tidegate_apps.music.api import shown

    return shown(line).model_dump()
