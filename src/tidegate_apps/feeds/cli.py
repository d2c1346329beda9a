"""`tidegate feeds`: add, list, poll, import and export feeds."""

from __future__ import annotations

import json
import sys
from typing import Any, Self

import click

from tidegate.apps import Installed
from tidegate.commands import NUMBER, AtServer, CommandGroup, Exit, at_server
from tidegate_apps.feeds import opml
from tidegate_apps.feeds.codes import MANUAL, REASONS
from tidegate_apps.feeds.jobs import poll_until
from tidegate_apps.feeds.models import Source, SourceRequest, check_url, public
from tidegate_apps.feeds.opml import add_all, every
from tidegate_apps.feeds.pages import status_label
from tidegate_apps.feeds.state import FeedState


@click.group(
    cls=CommandGroup,
    epilog="""
    tidegate feeds add https://example.org/feed.xml
    tidegate feeds list
    """,
)
def feeds() -> None:
    """Add, list, poll, enable and disable feeds."""


@feeds.command(epilog="tidegate feeds add https://example.org/feed.xml --name Example")
@click.argument("address")
@click.option("--name", default="", help="Name of the feed.  [default: its host]")
@click.option("--interval", type=click.FloatRange(60, 30 * 86400), help="Seconds between two polls.")
@at_server
def add(at: AtServer, address: str, name: str, interval: float | None) -> None:
    """Add a feed."""
    with at.installed() as there:
        made = there.jobs.sources.add(SourceRequest(feed_url=check_url(address), name=name, interval=interval), at.me)
        at.say(_as_json(there, made), f"added: {made.id}  {made.name}")


@feeds.command("list", epilog="tidegate feeds list --active")
@click.option("--active", is_flag=True, help="Only feeds that may be polled now.")
@at_server
def list_(at: AtServer, active: bool) -> None:
    """List feeds with their state."""
    with at.installed() as there:
        sources = [source for source in every(there.jobs.sources) if not active or _is_active(there, source)]
        lines = [] if at.as_json else [line for source in sources for line in _lines(there, source)]
        at.say([_as_json(there, source) for source in sources] if at.as_json else None, *lines)
        if not sources and not at.as_json:
            click.echo("No feeds yet. Add one with: tidegate feeds add ADDRESS", err=True)


@feeds.command(
    epilog="""
    tidegate feeds poll 7 8
    tidegate feeds poll --all
    """
)
@click.argument("ids", nargs=-1, type=NUMBER)
@click.option("--all", "all_of_them", is_flag=True, help="All feeds that may be polled.")
@click.option("--wait", type=click.FloatRange(1), default=600, show_default=True, help="Maximum seconds to wait.")
@at_server
def poll(at: AtServer, ids: tuple[int, ...], all_of_them: bool, wait: float) -> None:
    """Poll feeds now: in this process, or in the server if one is running."""
    with at.installed() as there:
        wanted = (
            [source.id for source in every(there.jobs.sources) if _is_active(there, source)] if all_of_them else ids
        )
        if not wanted:
            raise click.UsageError("no feeds were given; give their ids, or --all")
        with _Bar("Polling", at.as_json) as bar:
            done = poll_until(there, list(wanted), wait, bar.update, at.me)
        polled = [_as_json(there, there.jobs.sources.get(id_)) for id_ in wanted]
        bad = [source for source in polled if source["last_error"]]
        lines = [f"polled: {done} of {len(wanted)}, {len(bad)} failed"]
        lines += [
            f"{source['id']:>6}  {source['name']}: {source['last_error_type']} ({source['last_error']})"
            for source in bad
        ]
        at.say(polled, *lines)
    if done < len(wanted):
        sys.exit(Exit.TIMED_OUT)
    if bad:
        sys.exit(Exit.NEGATIVE)


@feeds.command("import", epilog="tidegate feeds import subscriptions.opml")
@click.argument("file", type=click.File("rb"))
@at_server
def import_(at: AtServer, file: Any) -> None:
    """Add the feeds of an OPML file. - reads standard input."""
    with at.installed() as there:
        wanted, refused = opml.parse_opml(file.read(opml.MAX_BYTES + 1))
        with _Bar("Importing", at.as_json) as bar:
            done = add_all(there.jobs.sources, wanted, refused, at.me, bar.update)
        document = {"added": done.added, "already_there": done.there, "refused": done.refused}
        at.say(document, f"added: {done.added}, already there: {done.there}, without a valid URL: {done.refused}")


@feeds.command(epilog="tidegate feeds export subscriptions.opml")
@click.argument("file", type=click.File("w", encoding="utf-8"), default="-")
@at_server
def export(at: AtServer, file: Any) -> None:
    """Export all feeds as OPML."""
    with at.installed() as there:
        lines = list(opml.write_opml(every(there.jobs.sources), there.queue.clock.now()))
        file.write(json.dumps({"opml": "\n".join(lines)}) + "\n" if at.as_json else "\n".join(lines) + "\n")


@feeds.command(epilog="tidegate feeds enable 7")
@click.argument("source_id", metavar="ID", type=NUMBER)
@at_server
def enable(at: AtServer, source_id: int) -> None:
    """Enable a feed. It is polled immediately."""
    with at.installed() as there:
        made = there.jobs.sources.enable(source_id, at.me)
        at.say(_as_json(there, made), f"enabled: {made.id}  {made.name}")


@feeds.command(epilog="tidegate feeds disable 7 --reason manual")
@click.argument("source_id", metavar="ID", type=NUMBER)
@click.option(
    "--reason",
    type=click.Choice(REASONS),
    default=MANUAL,
    show_default=True,
    help="Reason; it determines for how long.",
)
@at_server
def disable(at: AtServer, source_id: int, reason: str) -> None:
    """Disable a feed, for the time that belongs to its reason or until you enable it."""
    with at.installed() as there:
        made = there.jobs.sources.disable(source_id, reason, at.me)
        at.say(_as_json(there, made), f"disabled: {made.id}  {made.name}")


class _Bar:
    """A progress bar on standard error; nothing if that is not a terminal."""

    def __init__(self, label: str, as_json: bool) -> None:
        self._label, self._shown = label, not as_json and sys.stderr.isatty()
        self._bar: Any = None
        self._done = 0

    def __enter__(self) -> Self:
        return self

    def update(self, done: int, total: int) -> None:
        if not self._shown:
            return
        if self._bar is None:
            self._bar = click.progressbar(length=max(total, 1), label=self._label, file=sys.stderr).__enter__()
        self._bar.update(done - self._done)
        self._done = done

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.render_finish()


def _is_active(app: Installed[Any], source: Source) -> bool:
    return source.active_from is not None and source.active_from <= app.queue.clock.now()


def _lines(app: Installed[Any], source: Source) -> list[str]:
    look = status_label(source, app.db.first(FeedState, "states", source_id=source.id), app.queue.clock.now())
    first = f"{source.id:>6}  {look.word or look.token:<12}  {source.name}  {public(source.feed_url or '')}".rstrip()
    return [first, f"        {look.reason}"] if look.reason else [first]


def _as_json(app: Installed[Any], source: Source) -> dict[str, Any]:
    state = app.db.first(FeedState, "states", source_id=source.id)
    look = status_label(source, state, app.queue.clock.now())
    return {
        "id": source.id,
        "name": source.name,
        "feed_url": source.feed_url,
        "interval": source.interval,
        "enabled": source.enabled,
        "feed_disabled_at": source.feed_disabled_at,
        "feed_disable_reason": source.feed_disable_reason,
        "disabled_by": source.disabled_by,
        "rests_until": source.rests_until,
        "state": look.token,
        "reason": look.reason,
        "next_poll_at": None if state is None or state.due_at is None else state.due_at or app.queue.clock.now(),
        "consecutive_errors": 0 if state is None else state.consecutive_errors,
        "last_error": None if state is None else state.last_error,
        "last_error_type": None if state is None else state.last_error_type,
        "last_success_at": None if state is None else state.last_success_at,
    }
