"""`tidegate export`, `tidegate activity` and `tidegate channels`: monitoring files, audit log, channels."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from tidegate import audit
from tidegate.audit import ACTIONS, ORIGINS, SUBJECTS, AuditFilter, AuditLine
from tidegate.cli.database import (
    CliError,
    by_option,
    command_at_store,
    plain_mistakes,
    say,
    say_if_new,
    show_what,
    table,
    when,
)
from tidegate.cli.exits import Exit
from tidegate.cli.options import config_option, duration, load_settings
from tidegate.cli.root import Command, CommandGroup
from tidegate.notices import deliveries as reports
from tidegate.notices.deliveries import ChannelReport
from tidegate.store.base import Tx, now_of


@click.group(cls=CommandGroup, epilog="tidegate export alerts --out rules.yml")
def export() -> None:
    """Export alert rules and dashboards for the metrics of a server."""


_AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


@export.command(epilog="tidegate export alerts --page https://tidegate.example.org --out rules.yml")
@click.option(
    "--page",
    default="http://127.0.0.1:8321",
    show_default=True,
    help="Public URL of the server; the alerts link to it.",
)
@click.option("-o", "--out", type=click.Path(path_type=Path), help="File to write, instead of standard output.")
@_AS_JSON
def alerts(page: str, out: Path | None, as_json: bool) -> int:
    """Export alert rules for Prometheus (rule_files)."""
    from tidegate.admin.monitoring import document, rules_file

    if not page.startswith(("http://", "https://")):
        raise CliError(f"--page: {page!r} is not a URL; give one such as https://tidegate.example.org", Exit.USAGE)
    if out is not None:
        _write({out: rules_file(page)}, as_json)
    else:
        say(document(page), as_json, lambda: rules_file(page).splitlines())
    return Exit.OK


@export.command(
    epilog="""
    tidegate export grafana queues > queues.json
    tidegate export grafana --out dashboards
    """
)
@click.argument("name", required=False)
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Folder to write the dashboards to.")
@_AS_JSON
def grafana(name: str | None, out: Path | None, as_json: bool) -> int:
    """Export a Grafana dashboard: targets, queues or workers. With --out, export all of them or the named one."""
    from tidegate.admin.monitoring import BOARDS, as_text, board

    if name is not None and name not in BOARDS:
        raise CliError(f"unknown dashboard {name!r}; choose one of: {', '.join(BOARDS)}", Exit.USAGE)
    if out is not None:
        _write(
            {out / f"tidegate-{board_name}.json": as_text(board_name) for board_name in ([name] if name else BOARDS)},
            as_json,
        )
    elif name is None:
        raise CliError(
            f"no dashboard was named; name one of {', '.join(BOARDS)}, or give a folder with --out", Exit.USAGE
        )
    else:
        say(board(name), as_json, lambda: as_text(name).splitlines())
    return Exit.OK


def _write(texts: Mapping[Path, str], as_json: bool) -> None:
    for path, text in texts.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise CliError(
                f"{path} cannot be written ({error.strerror}); give a path that you can write to", Exit.NEGATIVE
            ) from error
    say({"files": [str(path) for path in texts]}, as_json, lambda: [f"Wrote {path}." for path in texts])


# -- activity ----------------------------------------------------------------------------------------------------------


@click.command(
    cls=Command,
    epilog="""
    tidegate activity --actor ada --younger 1d
    tidegate activity --subject queue --name mail
    """,
)
@click.option("--actor", default="", help="Only changes by this actor.")
@click.option(
    "--action", type=click.Choice(list(ACTIONS)), metavar="ACTION", help="Only this action, such as queue_paused."
)
@click.option("--origin", type=click.Choice(list(ORIGINS)), metavar="ORIGIN", help=f"Only from: {', '.join(ORIGINS)}.")
@click.option(
    "--subject", type=click.Choice(list(SUBJECTS)), metavar="SUBJECT", help=f"Only of a: {', '.join(SUBJECTS)}."
)
@click.option("--name", default="", help="Only of the subject with this name.")
@click.option("--older", metavar="TIME", callback=duration, help="Only entries older than this, such as 1h.")
@click.option("--younger", metavar="TIME", callback=duration, help="Only entries younger than this, such as 1d.")
@click.option(
    "--limit", default=20, show_default=True, type=click.IntRange(1, 10_000), help="Maximum number of entries."
)
@command_at_store
def activity(
    actor: str,
    action: str | None,
    origin: str | None,
    subject: str | None,
    name: str,
    older: float | None,
    younger: float | None,
    limit: int,
    url: str,
    driver: str | None,
    as_json: bool,
) -> int:
    """List who changed what on the page, through the API, on the command line or in a program, newest first."""

    def read(tx: Tx) -> list[AuditLine]:
        now = now_of(tx)
        wanted = AuditFilter(
            actor=actor,
            action=action or "",
            origin=origin or "",
            subject=subject or "",
            name=name,
            accounts=True,
            earliest=0.0 if younger is None else now - younger,
            latest=1e18 if older is None else now - older,
        )
        return audit.list_activity(tx, wanted, limit=limit).items

    return show_what(read, _activity_lines, url, driver, as_json=as_json)


def _activity_lines(entries: list[AuditLine]) -> list[str]:
    rows = [
        (when(entry.deed.at), entry.deed.actor, entry.deed.origin, entry.what, _change(entry), entry.deed.reason)
        for entry in entries
    ]
    return table(rows, ("AT", "WHO", "FROM", "WHAT", "BEFORE -> AFTER", "REASON")) or ["No entries match."]


def _change(line: AuditLine) -> str:
    before, after = line.before(when), line.after(when)
    return f"{before} -> {after}" if before else after


# -- channels ----------------------------------------------------------------------------------------------------------


@click.group(
    cls=CommandGroup,
    epilog="""
    tidegate channels list
    tidegate channels test mail
    """,
)
def channels() -> None:
    """List notification channels, or test one."""


@channels.command("list", epilog="tidegate channels list")
@command_at_store
def list_(url: str, driver: str | None, as_json: bool) -> int:
    """List channels in order, with their last delivery."""
    return show_what(reports.channels, _channel_lines, url, driver, as_json=as_json)


def _channel_lines(channels: list[ChannelReport]) -> list[str]:
    head = ("CHANNEL", "KIND", "STATE", "RECEIVES", "LAST DELIVERY", "LAST TEST", "WHY")
    rows = [
        (
            channel.name,
            channel.row.kind,
            channel.word,
            channel.told,
            when(channel.row.last_at),
            when(channel.row.tested_at),
            channel.reason,
        )
        for channel in channels
    ]
    return table(rows, head) or ["No channels; add one to the settings: [channels.NAME]."]


@channels.command(epilog="tidegate channels test mail")
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@by_option
@config_option
def test(name: str, config: Path | None, as_json: bool, by: str) -> int:
    """Send a test message through a channel now, and print the result."""
    from tidegate.jobs.queue import Queue
    from tidegate.notices.dispatcher import NoticeDispatcher

    with plain_mistakes():
        values = load_settings(config).values
        channels = values.channels.all()
        if any(channel.name == name for channel in channels):
            say_if_new(values.db)
        with Queue(values.db) as queue:
            tested = NoticeDispatcher(queue, channels, address=values.address).test(name, by)
    fine = tested.fault is None
    message = f"Delivered through {name}. Check that it arrived." if fine else f"{name} did not deliver: {tested.why}"
    code = None if tested.fault is None else tested.fault.code
    about = {"channel": name, "delivered": fine, "code": code, "why": tested.why}
    say(about, as_json, lambda: [message])
    return Exit.OK if fine else Exit.NEGATIVE
