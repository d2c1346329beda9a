"""`tidegate tautulli`: sync the history, show its status, and test the connection."""

from __future__ import annotations

import json
import sys

import click

from tidegate import classify
from tidegate.apps import Installed
from tidegate.commands import AtServer, CliError, CommandGroup, Exit, at_server
from tidegate_apps.tautulli import api, store
from tidegate_apps.tautulli.client import PACK, TARGET, Tautulli, TautulliError, advice_for, no_rows
from tidegate_apps.tautulli.guarded_client import bare_client
from tidegate_apps.tautulli.settings import TautulliSettings
from tidegate_apps.tautulli.store import SyncState
from tidegate_apps.tautulli.sync import Doubtful, HistorySync

_UNREACHABLE = ("network", "timeout", "cut_short", "overloaded", "upstream_failure", "html_answer")


@click.group(
    cls=CommandGroup,
    epilog="""
    tidegate tautulli ping
    tidegate tautulli sync
    """,
)
def tautulli() -> None:
    """Sync the play history from Tautulli."""


@tautulli.command(epilog="tidegate tautulli sync")
@at_server
def sync(at: AtServer) -> None:
    """Sync the history now, in this process. A running server sees the result immediately."""
    with at.installed() as there:
        _must_be_set(there)
        there.db.write(lambda tx: tx.noted(at.me, "target_asked", TARGET, became={"state": "synced now"}))
        progress = _progress if not at.as_json and sys.stderr.isatty() else _silence
        try:
            synced = HistorySync(
                there.db, bare_client(there), there.settings.page, there.queue.clock.now, told=progress
            ).run()
        except Exception as error:
            raise _plain(error) from error
        _ended_well(there)
    document = {"new": synced.new, "changed": synced.changed, "seen": synced.seen, "pages": synced.pages}
    at.say(document, f"synced: {synced.new:,} new, {synced.changed:,} changed, {synced.seen:,} seen")


@tautulli.command(epilog="tidegate tautulli status --json")
@at_server
def status(at: AtServer) -> int:
    """Show the age of the stored history and the state of the breaker. Exit code 1: the history is outdated."""
    with at.installed() as there:
        now = there.queue.clock.now()
        fresh, total = there.db.read(lambda tx: (store.freshness(tx, there.settings, now), tx.scalar(int, "total")))
        report = api.status_shown(TARGET, there.settings.url, fresh, total)
        at.say(json.loads(report.model_dump_json()), *_lines(report))
    stale = not report.url or report.synced_at is None or report.stale_since is not None
    return Exit.NEGATIVE if stale else Exit.OK


@tautulli.command(epilog="tidegate tautulli ping")
@at_server
def ping(at: AtServer) -> None:
    """Call Tautulli now, without checking the gates."""
    with at.installed() as there:
        _must_be_set(there)
        began = there.queue.clock.monotonic()
        try:
            client = bare_client(there)
            client.arnold()  # every version has this command
            took = there.queue.clock.monotonic() - began
            connected = _connected(client)
        except Exception as error:
            raise _plain(error) from error
        document = {"url": there.settings.url, "seconds": round(took, 3), "plex_connected": connected}
        plex = {True: "; it is connected to Plex", False: "; it is not connected to Plex", None: ""}[connected]
        at.say(document, f"{there.settings.url} responded in {took * 1000:.0f} ms{plex}")


def _progress(seen: int, all_of_them: int) -> None:
    click.echo(f"\r{seen:,} of {all_of_them:,} rows", err=True, nl=seen >= all_of_them)


def _silence(seen: int, all_of_them: int) -> None:
    pass


def _must_be_set(app: Installed[TautulliSettings]) -> None:
    if not app.settings.url:
        raise CliError("the URL of Tautulli is not set; set tautulli.url or TIDEGATE_TAUTULLI_URL", Exit.CONFIGURATION)


def _connected(client: Tautulli) -> bool | None:
    """Return whether Tautulli is connected to Plex; None for old versions without that command."""
    try:
        return client.server_status()
    except TautulliError as error:
        if error.unknown_command:
            return None
        raise


def _ended_well(app: Installed[TautulliSettings]) -> None:
    """Record a successful sync; the recorded breaker state stays."""
    said = app.db.first(SyncState, "state") or SyncState()
    app.db.all("ended", at=app.queue.clock.now(), outcome="synced", code=None, message=None, breaker=said.breaker_json)


def _plain(error: Exception) -> click.ClickException:
    """Return the error as one line with its exit code."""
    if isinstance(error, click.ClickException):
        return error
    if isinstance(error, Doubtful):
        return CliError(
            "Tautulli sent an empty history, although it had plays before; try again in 30 s", Exit.NEGATIVE
        )
    fault = classify(error, PACK) or no_rows(error)
    if fault is None or fault.unclassified:
        raise error
    kind = Exit.NOT_AUTHORISED if fault.code in ("unauthorized", "api_off") else Exit.NEGATIVE
    # the advice for other faults is about automatic retries
    words = advice_for(fault) if fault.fatal else fault.message
    return CliError(f"{words} ({fault.code}: {fault.detail})", Exit.UNREACHABLE if fault.code in _UNREACHABLE else kind)


def _lines(found: api.StatusShown) -> list[str]:
    if not found.url:
        return ["The URL of Tautulli is not set; set tautulli.url or TIDEGATE_TAUTULLI_URL."]
    when = "never" if found.synced_at is None else api.iso(found.synced_at)
    lines = [f"{found.url}: {found.plays:,} plays stored, synced {when}"]
    if found.stale_since is not None:
        lines.append(f"outdated: no plays newer than {api.iso(found.stale_since)} are stored")
    if found.outcome == "failed":
        lines.append(f"the last sync failed: {found.message} ({found.code})")
    breaker = found.breaker
    trial = "" if breaker.next_trial is None else f", next trial {api.iso(breaker.next_trial)}"
    counted = f"{breaker.requests} calls, {breaker.failures} failed, {breaker.failures_in_a_row} failures in a row"
    return [*lines, f"breaker {breaker.name}: {breaker.state} ({counted}){trial}"]
