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
from tidegate.cli.root import CommandGroup
from tidegate.notices import deliveries as reports
from tidegate.notices.deliveries import ChannelReport
from tidegate.store.base import Tx, now_of


@click.group(cls=CommandGroup)
def export() -> None:
    """Writes rules for alerts and dashboards over the metrics of a server."""


_AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


@export.command()
@click.option("--page", default="http://127.0.0.1:8321", show_default=True, help="Where people reach the server.")
@click.option("-o", "--out", type=click.Path(path_type=Path), help="The file to write, instead of standard output.")
@_AS_JSON
def alerts(page: str, out: Path | None, as_json: bool) -> int:
    """Writes the rules for alerts, as Prometheus loads them (rule_files)."""
    from tidegate.admin.monitoring import document, rules_file

    if not page.startswith(("http://", "https://")):
        raise CliError(f"--page: {page!r} is no address; give one such as https://tidegate.example.org", Exit.USAGE)
    if out is not None:
        _write({out: rules_file(page)}, as_json)
    else:
        say(document(page), as_json, lambda: rules_file(page).splitlines())
    return Exit.OK


@export.command()
@click.argument("name", required=False)
@click.option("-o", "--out", type=click.Path(path_type=Path), help="The folder to write all dashboards to.")
@_AS_JSON
def grafana(name: str | None, out: Path | None, as_json: bool) -> int:
    """Writes a dashboard for Grafana: targets, queues or workers; with --out, all of them or the one that is named."""
    from tidegate.admin.monitoring import BOARDS, as_text, board

    if name is not None and name not in BOARDS:
        raise CliError(f"there is no dashboard {name!r}; there are: {', '.join(BOARDS)}", Exit.USAGE)
    if out is not None:
        _write(
            {out / f"tidegate-{board_name}.json": as_text(board_name) for board_name in ([name] if name else BOARDS)},
            as_json,
        )
    elif name is None:
        raise CliError(f"say which dashboard ({', '.join(BOARDS)}), or give a folder with --out", Exit.USAGE)
    else:
        say(board(name), as_json, lambda: as_text(name).splitlines())
    return Exit.OK


def _write(texts: Mapping[Path, str], as_json: bool) -> None:
    for path, text in texts.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise CliError(f"{path} cannot be written: {error.strerror}", Exit.NEGATIVE) from error
    say({"files": [str(path) for path in texts]}, as_json, lambda: [f"wrote {path}" for path in texts])


# -- activity ----------------------------------------------------------------------------------------------------------


@click.command()
@click.option("--actor", default="", help="By this one.")
@click.option("--action", type=click.Choice(list(ACTIONS)), metavar="ACTION", help="What they did, as queue_paused.")
@click.option("--origin", type=click.Choice(list(ORIGINS)), metavar="ORIGIN", help=f"From: {', '.join(ORIGINS)}.")
@click.option("--subject", type=click.Choice(list(SUBJECTS)), metavar="SUBJECT", help=f"To a: {', '.join(SUBJECTS)}.")
@click.option("--name", default="", help="To the one with this name.")
@click.option("--older", metavar="TIME", callback=duration, help="At least so long ago, such as 1h.")
@click.option("--younger", metavar="TIME", callback=duration, help="At most so long ago, such as 1d.")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 10_000), help="At most so many.")
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
    """Shows who did what, on the page, through the API, at the command line or in a program; the newest first."""

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
    return table(rows, ("AT", "WHO", "FROM", "WHAT", "BEFORE -> AFTER", "REASON")) or ["Nobody did anything like that."]


def _change(line: AuditLine) -> str:
    before, after = line.before(when), line.after(when)
    return f"{before} -> {after}" if before else after


# -- channels ----------------------------------------------------------------------------------------------------------


@click.group(cls=CommandGroup)
def channels() -> None:
    """Lists where notices go beside the page, and tests one of them."""


@channels.command("list")
@command_at_store
def list_(url: str, driver: str | None, as_json: bool) -> int:
    """Lists every channel, in order, with its last delivery."""
    return show_what(reports.channels, _channel_lines, url, driver, as_json=as_json)


def _channel_lines(channels: list[ChannelReport]) -> list[str]:
    head = ("CHANNEL", "KIND", "STATE", "IS TOLD", "LAST DELIVERY", "LAST TEST", "WHY")
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
    return table(rows, head) or ["There is no channel but the page; name one in the settings: [channels.NAME]."]


@channels.command()
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@by_option
@config_option
def test(name: str, config: Path | None, as_json: bool, by: str) -> int:
    """Sends a test through a channel of the settings now, and says how that went."""
    from tidegate.jobs.queue import Queue
    from tidegate.notices.dispatcher import NoticeDispatcher

    with plain_mistakes():
        values = load_settings(config).values
        channels = values.channels.all()
        if any(channel.name == name for channel in channels):
            say_if_new(values.url)
        with Queue(values.url) as queue:
            tested = NoticeDispatcher(queue, channels, address=values.address).test(name, by)
    fine = tested.fault is None
    message = (
        f"Delivered through {name}. Look whether it has come." if fine else f"{name} did not deliver: {tested.why}"
    )
    code = None if tested.fault is None else tested.fault.code
    about = {"channel": name, "delivered": fine, "code": code, "why": tested.why}
    say(about, as_json, lambda: [message])
    return Exit.OK if fine else Exit.NEGATIVE
